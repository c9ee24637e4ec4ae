"""The apply pool when it is paused, stopped or deposed."""

import asyncio
import logging

import pytest

from pumice.adapters.runtime.ledger import Order
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.status_pb2 import Event
from tests.adapters.fake_clock import settle
from tests.adapters.fake_world import bind, pod
from tests.adapters.test_apply import ERROR, Bench, held_back


async def test_a_pause_drops_what_is_queued_and_waits_for_what_is_in_flight() -> None:
    bench = Bench(in_flight=1)
    gate = asyncio.Event()
    bench.pods("a", "b", "c")
    bench.world.answers["a"] = [held_back(gate, ApplyResult(ApplyCode.DONE))]
    for name in "abc":
        bench.give(bind(name))
    await settle()
    pause = asyncio.create_task(bench.pool.pause(report=False))
    await settle()
    assert not pause.done()
    gate.set()
    await pause
    assert bench.world.called("bind") == ["a"]
    assert bench.codes() == [("d-a", "applied")]
    # Only the one with an outcome to tell is still held.
    assert bench.ledger.held_ids() == ["d-a"]
    bench.give(bind("d"))
    assert bench.pool.is_idle


async def test_a_pause_that_is_to_be_told_reports_what_it_drops() -> None:
    bench = Bench(in_flight=1)
    gate = asyncio.Event()
    bench.pods("a", "b")
    bench.world.answers["a"] = [held_back(gate, ApplyResult(ApplyCode.DONE))]
    for name in "ab":
        bench.give(bind(name))
    await settle()
    pause = asyncio.create_task(bench.pool.pause(report=True))
    await settle()
    gate.set()
    await pause
    assert bench.codes() == [("d-b", "failed"), ("d-a", "applied")]
    bench.pool.resume()
    await bench.clock.advance(60)
    assert bench.world.called("bind") == ["a"]


async def test_a_pause_completes_what_has_begun() -> None:
    """A call that failed may have had an effect: the next attempt finds out."""
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [ERROR]
    bench.give(bind("a"))
    await settle()
    pause = asyncio.create_task(bench.pool.pause(report=True))
    await bench.clock.advance(3)
    assert pause.done()
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "applied")]
    assert bench.world.calls == [("bind", "a"), ("read", "a"), ("bind", "a")]


async def test_a_decision_that_is_dropped_after_a_call_is_read_again() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [ERROR]
    bench.give(bind("a"))
    await settle()
    bench.pool.drop_queued(report=True)
    assert bench.outcomes[-1].reason == "dropped before its effect was known"
    assert len(bench.resync) == 1


async def test_a_pause_does_not_wait_for_ever() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [held_back(asyncio.Event(), ApplyResult(ApplyCode.DONE))] * 9
    bench.give(bind("a"))
    await settle()
    bench.pool.set_apply_timeout(1000)
    pause = asyncio.create_task(bench.pool.pause(report=False))
    await bench.clock.advance(10)
    assert pause.done()
    await bench.pool.stop()


async def test_a_pool_that_was_stopped_calls_nobody_any_more() -> None:
    # At whatever step of the loop it is stopped: a call may just have ended.
    for steps in range(60):
        bench = Bench(in_flight=1)
        names = [f"p{number}" for number in range(8)]
        for name in names:
            bench.world.store.put(pod(name))
            bench.pool.submit(Order(None, (bind(name),)))
        for _ in range(steps):
            await asyncio.sleep(0)
        await bench.pool.stop()
        called = len(bench.world.calls)
        await settle()
        assert len(bench.world.calls) == called, f"stopped after {steps} steps"


async def test_a_deposed_leader_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pumice.adapters.runtime.apply")
    bench = Bench()
    announced: list[Event] = []
    bench.pool.announce = announced.append
    names = [f"p{number}" for number in range(20)]
    bench.pods(*names)
    for name in names:
        bench.world.answers[name] = [ApplyResult(ApplyCode.NOT_LEADING)]
        bench.pool.submit(Order(None, (bind(name),)))
    await settle()
    assert len(bench.outcomes) == 20
    assert len(caplog.records) == 1
    assert (announced, len(bench.resync)) == ([], 0)

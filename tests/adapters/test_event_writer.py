"""The event writer: events in order per object, a few at a time, and not without end."""

import asyncio
import logging

import pytest

from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from pumice.v1.status_pb2 import Event
from tests.adapters.fake_clock import settle
from tests.adapters.fake_world import pod
from tests.adapters.test_status_writer import Bench, event, waits


async def test_events_keep_their_order_while_the_world_fails() -> None:
    bench = Bench()
    failing = ApplyResult(ApplyCode.SERVER_ERROR)
    bench.world.answers["event job"] = [failing] * 11
    bench.say(events=(event("one"), event("two")))
    bench.say(events=(event("three"),))
    await bench.clock.advance(600)
    assert bench.world.called("event") == ["one"] * 12 + ["two", "three"]
    assert bench.metrics.counted("dropped_events") == 0
    assert bench.is_idle


async def test_an_event_that_keeps_failing_is_dropped_and_counted() -> None:
    bench = Bench()
    bench.world.answers["event job"] = [ApplyResult(ApplyCode.SERVER_ERROR)] * 12
    bench.say(events=(event("one"), event("two")))
    await bench.clock.advance(600)
    assert bench.world.called("event") == ["one"] * 12 + ["two"]
    assert bench.metrics.counted("dropped_events", cause="given up") == 1
    assert bench.is_idle


async def test_the_queue_of_events_is_bounded() -> None:
    bench = Bench()
    bench.world.answers["event job"] = [ApplyResult(ApplyCode.SERVER_ERROR)] * 10**6
    for number in range(50):
        bench.say(events=(event(f"{number}"),))
    # The options of these tests let twenty events wait.
    assert bench.metrics.counted("dropped_events", cause="queue full") == 30
    assert "event_queue_length 20.0" in bench.metrics.render().decode()
    await bench.clock.advance(10_000)
    assert bench.metrics.counted("dropped_events", cause="given up") == 20
    assert "event_queue_length 0.0" in bench.metrics.render().decode()
    assert bench.is_idle


async def test_a_few_workers_write_all_events() -> None:
    bench = Bench(slots=64)
    for number in range(18):
        bench.say(events=(Event(name=f"p{number}", uid=f"uid-{number}", message=f"{number}"),))
    tasks = len(asyncio.all_tasks())
    await settle()
    assert sorted(bench.world.called("event"), key=int) == [f"{number}" for number in range(18)]
    assert tasks <= 1 + RuntimeOptions("c", "a").event_writers
    assert bench.is_idle


async def test_a_deposed_leader_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    refused = ApplyResult(ApplyCode.NOT_LEADING)
    for number in range(10):
        bench.world.answers[f"event p{number}"] = [refused]
        bench.say(events=(Event(name=f"p{number}", uid=f"uid-{number}", message="waits"),))
    await settle()
    assert bench.is_idle
    assert [record.levelname for record in caplog.records] == ["INFO"]


async def test_an_event_that_a_gang_waits_is_overtaken_by_the_event_that_it_is_placed() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    for reason in ("Unschedulable", "Scheduled"):
        said = Event(kind=KIND_POD_GROUP, namespace="ns", name="g", uid="uid-g", reason=reason)
        said.message = reason
        bench.say(events=(said,))
    await bench.clock.advance(0.5)
    assert bench.world.called("event") == ["Scheduled"]


async def test_an_event_that_a_pod_waits_is_overtaken_by_its_bind() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.hold(pod("a"))
    _, said = waits("a")
    bench.say(events=(said, said))
    bound = Event(kind=KIND_POD, namespace="ns", name="a", uid="uid-a", reason="Scheduled")
    bound.message = "bound"
    bench.events.add(bound)
    await bench.clock.advance(0.5)
    assert bench.world.called("event") == ["bound"]
    assert bench.metrics.counted("dropped_events", cause="overtaken") == 2


async def test_a_server_that_is_slow_gets_fewer_events(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(slots=1)

    async def slow(event: Event) -> ApplyResult:
        bench.world.calls.append(("event", event.message))
        await bench.clock.sleep(0.05)
        return ApplyResult(ApplyCode.DONE)

    monkeypatch.setattr(bench.world, "write_event", slow)
    for number in range(2 * RuntimeOptions("c", "a").event_writers):
        bench.say(events=(Event(name="p", uid=f"uid-{number}", message=f"{number}"),))
    for _ in range(4):
        await bench.clock.advance(0.05)
    assert len(bench.world.called("event")) == RuntimeOptions("c", "a").event_writers
    await bench.clock.advance(10.0)
    assert len(bench.world.called("event")) == 2 * RuntimeOptions("c", "a").event_writers

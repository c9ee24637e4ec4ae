"""The apply pool: bounded, in order, repeated a bounded number of times, never twice."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from pumice.adapters.runtime.apply import ApplyPool, shown_code
from pumice.adapters.runtime.buffer import HeldGroup
from pumice.adapters.runtime.call_limiter import CallLimiter
from pumice.adapters.runtime.clock import Backoff
from pumice.adapters.runtime.executor import DecisionExecutor
from pumice.adapters.runtime.ledger import Ledger, Order
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.resync import ResyncQueue
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Decision, Outcome
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.status_pb2 import Event
from tests.adapters.fake_clock import FakeClock, settle
from tests.adapters.fake_world import FakeWorld, bind, evict, gang, pod

ERROR = ApplyResult(ApplyCode.SERVER_ERROR, "no quorum")


class Silent:
    """Where readings go when nobody listens."""

    def revision_of(self, kind: KindNumber, uid: str) -> int:
        return 0

    def update(self, cluster_object: ClusterObject) -> None: ...

    def delete(self, kind: KindNumber, uid: str) -> None: ...


class Bench:
    """A pool over a fake world, with everything it reports."""

    def __init__(self, in_flight: int = 4, tries: int = 3) -> None:
        self.world = FakeWorld()
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.outcomes: list[Outcome] = []
        self.held = HeldGroup("uid-job", "h1")
        self.leads = True
        self.ledger = Ledger(lambda _: self.held)
        options = RuntimeOptions(
            "c",
            "a",
            calls_in_flight=in_flight,
            apply_tries=tries,
            apply_backoff=Backoff(1.0, 8.0),
            call_timeout_seconds=5.0,
        )
        rng = random.Random(1)
        self.resync = ResyncQueue(self.world, Silent(), Backoff(), self.clock, rng, self.metrics)
        hands = DecisionExecutor(
            self.world,
            self.ledger,
            CallLimiter(in_flight),
            options.call_timeout_seconds,
            self.clock,
            self.metrics,
            lambda: self.leads,
        )
        self.pool = ApplyPool(
            hands,
            self.ledger,
            self.resync,
            self.outcomes.append,
            options,
            self.clock,
            rng,
            self.metrics,
        )

    def pods(self, *names: str) -> None:
        for name in names:
            self.world.store.put(pod(name))

    def give(self, *decisions: Decision) -> None:
        for decision in decisions:
            for order in self.ledger.add([gang(len(decisions))], [decision]):
                assert isinstance(order, Order)
                self.pool.submit(order)

    def codes(self) -> list[tuple[str, str]]:
        return [(outcome.decision_id, shown_code(outcome.code)) for outcome in self.outcomes]


def held_back(gate: asyncio.Event, result: ApplyResult) -> Callable[[], Awaitable[ApplyResult]]:
    async def answer() -> ApplyResult:
        await gate.wait()
        return result

    return answer


async def test_a_bind_that_is_done_is_applied() -> None:
    bench = Bench()
    bench.pods("a")
    bench.give(bind("a"))
    await settle()
    assert bench.codes() == [("d-a", "applied")]
    assert bench.pool.is_idle
    assert len(bench.resync) == 0


async def test_no_more_calls_are_in_flight_than_allowed() -> None:
    bench = Bench(in_flight=2)
    gate = asyncio.Event()
    names = [f"p{number}" for number in range(7)]
    bench.pods(*names)
    for name in names:
        bench.world.answers[name] = [held_back(gate, ApplyResult(ApplyCode.DONE))]
    bench.give(*(bind(name) for name in names))
    await settle()
    assert bench.world.called("bind") == ["p0", "p1"]
    gate.set()
    await settle()
    await settle()
    assert bench.world.called("bind") == names
    assert len(bench.outcomes) == 7


async def test_gangs_are_applied_in_order_with_the_evictions_made_for_them() -> None:
    bench = Bench(in_flight=1)
    bench.pods("a", "b", "v", "z")
    bench.give(evict("v", gang_id="g1"), bind("a", gang_id="g1"), bind("b", gang_id="g1"))
    bench.give(bind("z"))
    await settle()
    assert bench.world.calls == [("evict", "v"), ("bind", "a"), ("bind", "b"), ("bind", "z")]


async def test_a_gang_whose_group_changes_before_its_turn_is_refused_whole() -> None:
    bench = Bench(in_flight=1)
    gate = asyncio.Event()
    bench.pods("z", "a", "b")
    bench.world.answers["z"] = [held_back(gate, ApplyResult(ApplyCode.DONE))]
    bench.give(bind("z"))
    bench.give(bind("a", gang_id="g1"), bind("b", gang_id="g1"))
    await settle()
    bench.held = HeldGroup("uid-job", "h2")
    gate.set()
    await settle()
    assert bench.world.called("bind") == ["z"]
    assert bench.codes() == [("d-z", "applied"), ("d-a", "failed"), ("d-b", "failed")]


async def test_a_gang_that_has_begun_is_carried_on() -> None:
    bench = Bench(in_flight=1)
    gate = asyncio.Event()
    bench.pods("a", "b")
    bench.world.answers["a"] = [held_back(gate, ApplyResult(ApplyCode.DONE))]
    bench.give(bind("a", gang_id="g1"), bind("b", gang_id="g1"))
    await settle()
    bench.held = HeldGroup("uid-job", "h2")
    gate.set()
    await settle()
    assert bench.world.called("bind") == ["a", "b"]


async def test_a_call_that_may_help_to_repeat_is_repeated_after_reading_back() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [ERROR]
    bench.give(bind("a"))
    await settle()
    assert bench.codes() == [("d-a", "retrying")]
    assert not bench.pool.is_idle
    await bench.clock.advance(2)
    assert bench.world.calls == [("bind", "a"), ("read", "a"), ("bind", "a")]
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "applied")]


async def test_success_whose_answer_was_lost_is_recognised() -> None:
    bench = Bench()
    bench.pods("a")

    async def lost() -> ApplyResult:
        bench.world.place("uid-a", "n1")
        return ApplyResult(ApplyCode.TIMED_OUT)

    bench.world.answers["a"] = [lost]
    bench.give(bind("a"))
    await bench.clock.advance(2)
    assert bench.world.called("bind") == ["a"]
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "applied")]


async def test_a_call_that_does_not_answer_is_timed_out() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [held_back(asyncio.Event(), ApplyResult(ApplyCode.DONE))]
    bench.give(bind("a"))
    await settle()
    assert bench.codes() == []
    await bench.clock.advance(5)
    assert bench.codes() == [("d-a", "retrying")]
    await bench.clock.advance(2)
    assert bench.codes()[-1] == ("d-a", "applied")


async def test_tries_are_bounded_and_told_as_retrying_once() -> None:
    bench = Bench(tries=3)
    bench.pods("a")
    bench.world.answers["a"] = [ERROR] * 10
    bench.give(bind("a"))
    await bench.clock.advance(60)
    assert bench.world.called("bind") == ["a"] * 3
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "failed")]
    assert bench.outcomes[-1].reason == "gave up after 3 tries: server error: no quorum"
    assert len(bench.resync) == 1


async def test_tries_end_when_the_apply_time_is_over() -> None:
    bench = Bench(tries=100)
    bench.pool.set_apply_timeout(10.0)
    bench.pods("a")
    bench.world.answers["a"] = [ERROR] * 100
    bench.give(bind("a"))
    await bench.clock.advance(60)
    assert bench.codes()[-1] == ("d-a", "failed")
    assert len(bench.world.called("bind")) < 10


async def test_a_throttled_call_waits_as_long_as_it_was_asked_to() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [ApplyResult(ApplyCode.THROTTLED, retry_after_seconds=7.0)]
    bench.give(bind("a"))
    await bench.clock.advance(6)
    assert bench.world.called("bind") == ["a"]
    await bench.clock.advance(2)
    assert bench.world.called("bind") == ["a", "a"]


async def test_a_bind_that_waits_for_its_volumes_is_no_failed_try() -> None:
    bench = Bench(tries=2)
    bench.pods("a")
    waiting = ApplyResult(ApplyCode.WAITING, "volumes", retry_after_seconds=0.5)
    bench.world.answers["a"] = [waiting] * 10
    bench.give(bind("a"))
    await bench.clock.advance(20)
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "applied")]
    assert len(bench.world.called("bind")) == 11
    assert bench.metrics.counted("read_backs") == 0


async def test_a_bind_does_not_wait_for_its_volumes_for_ever() -> None:
    bench = Bench()
    bench.pods("a")
    waiting = ApplyResult(ApplyCode.WAITING, "volumes", retry_after_seconds=5)
    bench.world.answers["a"] = [waiting] * 100
    bench.give(bind("a"))
    await bench.clock.advance(100)
    assert bench.codes() == [("d-a", "retrying"), ("d-a", "failed")]
    assert len(bench.resync) == 1


async def test_people_are_told_of_binds() -> None:
    bench = Bench()
    events: list[Event] = []
    bench.pool.announce = events.append
    bench.pods("a", "b", "v")
    bench.world.answers["b"] = [ApplyResult(ApplyCode.FORBIDDEN, "no rights")]
    bench.give(bind("a"))
    bench.give(bind("b"))
    bench.give(evict("v"))
    await settle()
    assert [(event.name, event.reason, event.warning) for event in events] == [
        ("a", "Scheduled", False),
        ("b", "FailedScheduling", True),
    ]
    assert events[0].message == "Successfully assigned ns/a to n1"
    assert "no rights" in events[1].message


async def test_a_pod_that_cannot_be_read_back_counts_as_a_try() -> None:
    bench = Bench(tries=3)
    bench.pods("a")
    bench.world.answers["a"] = [ERROR]
    bench.world.unreadable = 10
    bench.give(bind("a"))
    await bench.clock.advance(60)
    assert bench.world.called("bind") == ["a"]
    assert bench.codes()[-1] == ("d-a", "failed")


async def test_what_is_refused_for_good_is_not_repeated_and_goes_to_the_resync_queue() -> None:
    bench = Bench()
    bench.pods("a")
    bench.world.answers["a"] = [ApplyResult(ApplyCode.FORBIDDEN, "create pods/binding")]
    bench.give(bind("a"))
    await bench.clock.advance(60)
    assert bench.world.called("bind") == ["a"]
    assert bench.outcomes[0].reason == "forbidden: create pods/binding"
    assert len(bench.resync) == 1


async def test_an_order_of_the_future_fails_and_harms_nobody() -> None:
    bench = Bench()
    bench.pods("a")
    bench.give(Decision(id="new"))
    bench.give(bind("a"))
    await settle()
    assert bench.codes() == [("new", "failed"), ("d-a", "applied")]


async def test_a_binder_that_raises_stops_nobody() -> None:
    bench = Bench(tries=1)
    bench.pods("a", "b")
    bench.world.answers["a"] = [RuntimeError("third party")]
    bench.give(bind("a"))
    bench.give(bind("b"))
    await settle()
    assert sorted(bench.codes()) == [("d-a", "failed"), ("d-b", "applied")]


async def test_an_adapter_that_lost_its_lead_calls_nothing() -> None:
    bench = Bench()
    bench.pods("a")
    bench.leads = False
    bench.give(bind("a"))
    await settle()
    assert bench.world.calls == []
    assert bench.codes() == [("d-a", "failed")]

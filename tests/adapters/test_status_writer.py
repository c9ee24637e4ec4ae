"""The status writer: the newest status once, only on change; then the events."""

import asyncio
import logging
import random

import pytest

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.event_writer import EventWriter
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.status_writer import StatusWriter
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.group_pb2 import POD_GROUP_PHASE_INQUEUE, PodGroupStatus
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP, ClusterObject
from pumice.v1.status_pb2 import (
    Event,
    PodConditionChange,
    PodGateLift,
    PodGroupStatusChange,
    QueueStatusChange,
    StatusChange,
)
from tests.adapters.fake_clock import FakeClock, settle
from tests.adapters.fake_world import FakeWorld, group, pod


class Bench:
    def __init__(self, slots: int = 4, waiting_report_seconds: float = 0.0) -> None:
        self.world, self.clock, self.buffer = FakeWorld(), FakeClock(), ResumeBuffer()
        self.slots = CallLimiter(slots, self.clock)
        self.metrics = Metrics()
        options = RuntimeOptions(
            "c", "a", event_queue_size=20, waiting_report_seconds=waiting_report_seconds
        )
        parts = (self.buffer, self.slots, options, self.clock, random.Random(1), self.metrics)
        self.writer = StatusWriter(self.world, *parts)
        self.events = EventWriter(self.world, *parts)
        self.hold(group())
        self.world.store.put(group())

    def hold(self, thing: ClusterObject) -> None:
        self.buffer.keep(thing)

    def echo(self) -> None:
        """The watch tells what was written."""
        found = self.world.store.get(KIND_POD_GROUP, "uid-job")
        assert found is not None
        self.buffer.keep(found)

    def say(self, *changes: StatusChange, events: tuple[Event, ...] = ()) -> None:
        for change in changes:
            self.writer.add(change)
        for event in events:
            self.events.add_from_core(event)

    @property
    def is_idle(self) -> bool:
        return self.writer.is_idle and self.events.is_idle


def running(count: int) -> StatusChange:
    return StatusChange(
        pod_group=PodGroupStatusChange(
            namespace="ns", name="job", uid="uid-job", status=PodGroupStatus(running=count)
        )
    )


def event(message: str) -> Event:
    return Event(kind=KIND_POD_GROUP, namespace="ns", name="job", uid="uid-job", message=message)


async def test_a_status_is_written_once_and_not_again_when_the_world_shows_it() -> None:
    bench = Bench()
    bench.say(running(1))
    await settle()
    bench.echo()
    bench.say(running(1))
    await settle()
    assert bench.world.called("status") == ["job"]
    assert bench.is_idle


async def test_a_status_that_goes_back_before_its_echo_is_written() -> None:
    bench = Bench()
    bench.say(running(1))
    await settle()
    bench.say(running(0))
    await settle()
    assert bench.world.called("status") == ["job", "job"]


async def test_a_status_that_comes_again_before_its_echo_is_written_once() -> None:
    bench = Bench()
    for count in (1, 1, 2, 2, 1):
        bench.say(running(count))
        await settle()
    assert bench.world.called("status") == ["job"] * 3
    # Somebody else changes the object: the status is written again.
    bench.hold(group(spec_hash="h2"))
    bench.say(running(1))
    await settle()
    assert bench.world.called("status") == ["job"] * 4


async def test_a_status_whose_write_may_be_lost_is_written_again() -> None:
    bench = Bench()
    bench.say(running(1))
    await settle()
    bench.world.answers["status job"] = [ApplyResult(ApplyCode.INVALID)]
    bench.say(running(2))
    await settle()
    bench.say(running(2))
    await settle()
    assert bench.world.called("status") == ["job"] * 3


async def test_a_newer_status_replaces_one_that_waits() -> None:
    bench = Bench(slots=1)
    gate = asyncio.Event()

    async def slow() -> ApplyResult:
        await gate.wait()
        return ApplyResult(ApplyCode.DONE)

    bench.world.answers["status job"] = [slow]
    for count in (1, 2, 3, 4):
        bench.say(running(count))
        await settle()
    gate.set()
    await settle()
    assert bench.world.called("status") == ["job", "job"]
    found = bench.world.store.get(KIND_POD_GROUP, "uid-job")
    assert found is not None
    assert found.pod_group.status.running == 4
    assert bench.metrics.counted("coalesced_statuses") == 2


@pytest.mark.parametrize(
    "code", [ApplyCode.SERVER_ERROR, ApplyCode.NOT_LEADING, ApplyCode.FORBIDDEN]
)
async def test_a_status_is_tried_again_until_it_is_written(code: ApplyCode) -> None:
    bench = Bench()
    bench.world.answers["status job"] = [ApplyResult(code)] * 20
    bench.say(running(1))
    await bench.clock.advance(15)
    assert 4 <= len(bench.world.called("status")) <= 10
    await bench.clock.advance(600)
    assert len(bench.world.called("status")) == 21
    assert bench.is_idle


@pytest.mark.parametrize(
    ("code", "most"), [(ApplyCode.NOT_FOUND, 10), (ApplyCode.OTHER_UID, 10), (ApplyCode.INVALID, 2)]
)
async def test_a_status_of_an_object_that_the_watch_has_is_tried_again(
    code: ApplyCode, most: int
) -> None:
    bench = Bench()
    bench.world.answers["status job"] = [ApplyResult(code)] * 10
    bench.say(running(1))
    await bench.clock.advance(15)
    assert 2 <= len(bench.world.called("status")) <= most
    await bench.clock.advance(3600)
    assert len(bench.world.called("status")) == 11
    assert bench.is_idle


async def test_a_status_after_one_that_its_object_does_not_allow_is_written_at_once() -> None:
    bench = Bench()
    bench.world.answers["status job"] = [ApplyResult(ApplyCode.INVALID)]
    bench.say(running(1))
    await settle()
    # Nobody has to wait for it.
    assert bench.is_idle
    bench.say(running(2))
    await settle()
    assert bench.world.called("status") == ["job", "job"]
    gate = asyncio.Event()

    async def slow() -> ApplyResult:
        await gate.wait()
        return ApplyResult(ApplyCode.INVALID)

    bench.world.answers["status job"] = [slow]
    bench.say(running(3))
    await settle()
    bench.say(running(4))
    gate.set()
    await settle()
    assert bench.world.called("status") == ["job"] * 4


@pytest.mark.parametrize("code", [ApplyCode.NOT_FOUND, ApplyCode.INVALID])
async def test_no_status_is_tried_again_after_the_watch_reported_the_deletion(
    code: ApplyCode,
) -> None:
    bench = Bench()
    bench.world.answers["status job"] = [ApplyResult(code)] * 10
    bench.say(running(1))
    await settle()
    bench.buffer.drop(KIND_POD_GROUP, "uid-job")
    bench.writer.forget(KIND_POD_GROUP, "uid-job")
    await bench.clock.advance(0.5)
    assert bench.world.called("status") == ["job"]
    assert not bench.writer._pending


async def test_statuses_of_an_earlier_epoch_are_not_written() -> None:
    bench = Bench()
    gate = asyncio.Event()

    async def deposed() -> ApplyResult:
        await gate.wait()
        return ApplyResult(ApplyCode.NOT_LEADING)

    bench.world.answers["status job"] = [deposed]
    bench.say(running(1))
    await settle()
    bench.writer.drop_all()
    gate.set()
    await bench.clock.advance(100)
    assert bench.world.called("status") == ["job"]
    assert bench.is_idle


async def test_an_admission_does_not_wait_for_binds_as_the_status_before_it_does() -> None:
    bench = Bench(slots=8)
    async with bench.slots.hold(CallPriority.APPLY):
        bench.say(running(1))
        await settle()
        assert not bench.world.called("status")
        admitted = running(0)
        admitted.pod_group.status.phase = POD_GROUP_PHASE_INQUEUE
        bench.say(admitted)
        await settle()
        assert bench.world.called("status") == ["job"]
    await settle()
    assert bench.world.called("status") == ["job"]
    assert bench.is_idle


async def test_statuses_of_objects_that_are_gone_leave_nothing_behind() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.buffer.drop(KIND_POD_GROUP, "uid-job")
    for number in range(20):
        late, waiting = running(1), running(1)
        late.pod_group.uid, waiting.pod_group.uid = f"late {number}", f"waiting {number}"
        bench.world.answers["status job"].append(ApplyResult(ApplyCode.NOT_FOUND))
        bench.say(late, waiting)
        bench.writer.forget(KIND_POD_GROUP, waiting.pod_group.uid)
    await settle()
    assert len(bench.world.called("status")) == 20
    assert bench.is_idle
    assert not bench.writer._unseen


async def test_a_status_of_an_object_that_went_is_not_written() -> None:
    bench = Bench()
    bench.world.answers["status job"] = [ApplyResult(ApplyCode.SERVER_ERROR)]
    bench.say(running(1))
    await settle()
    bench.writer.forget(KIND_POD_GROUP, "uid-job")
    await bench.clock.advance(100)
    assert len(bench.world.called("status")) == 1
    assert bench.is_idle


async def test_binds_go_before_statuses_and_statuses_before_events() -> None:
    bench = Bench(slots=1)
    order: list[str] = []

    async def bind(name: str) -> None:
        async with bench.slots.hold(CallPriority.APPLY):
            order.append(name)
            await asyncio.sleep(0)

    first = asyncio.create_task(bind("first"))
    await asyncio.sleep(0)
    bench.say(running(1), events=(event("one"),))
    await asyncio.sleep(0)
    later = [asyncio.create_task(bind(f"later {number}")) for number in range(3)]
    await asyncio.gather(first, *later)
    await settle()
    assert order == ["first", "later 0", "later 1", "later 2"]
    assert bench.world.calls == [("status", "job")]
    await bench.clock.advance(2.0)
    assert bench.world.calls == [("status", "job"), ("event", "one")]


async def test_nothing_is_written_about_the_wait_of_a_pod_that_was_bound() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.hold(pod("a"))
    change, said = waits("a")
    bench.say(change, events=(said,))
    bench.writer.forget_wait("uid-a")
    bound = Event(kind=KIND_POD, namespace="ns", name="a", uid="uid-a", message="bound")
    bench.events.add(bound)
    # The watch has not shown the bind yet.
    await bench.clock.advance(0.5)
    assert bench.world.calls == [("event", "bound")]
    assert bench.is_idle


async def test_what_pods_wait_for_is_written_beside_binds() -> None:
    bench = Bench(slots=4)
    admitted = PodGroupStatus(phase=POD_GROUP_PHASE_INQUEUE)
    async with bench.slots.hold(CallPriority.APPLY):
        bench.say(
            StatusChange(
                pod_group=PodGroupStatusChange(
                    namespace="ns", name="job", uid="uid-job", status=admitted
                )
            ),
            StatusChange(queue=QueueStatusChange(name="q", uid="uid-q", allocated={"cpu": 1})),
        )
        await settle()
        assert bench.world.called("status") == ["job"]
    await settle()
    assert bench.world.called("status") == ["job", "q"]


async def test_statuses_of_queues_and_pods_are_written_on_change_only() -> None:
    bench = Bench()
    queue = StatusChange(queue=QueueStatusChange(name="q", uid="uid-q", allocated={"cpu": 1}))
    waiting = StatusChange(
        pod=PodConditionChange(namespace="ns", name="a", uid="uid-a", reason="Unschedulable")
    )
    bench.say(queue, waiting, StatusChange())
    await settle()
    assert sorted(bench.world.called("status")) == ["a", "q"]
    seen = pod("a")
    seen.pod.conditions.add(
        type="PodScheduled", status=CONDITION_STATUS_FALSE, reason="Unschedulable"
    )
    bench.hold(seen)
    shown = ClusterObject()
    shown.queue.uid, shown.queue.name = "uid-q", "q"
    shown.queue.allocated["cpu"] = 1
    bench.hold(shown)
    bench.say(queue, waiting)
    await settle()
    assert len(bench.world.called("status")) == 2


async def test_that_an_object_was_deleted_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    bench.buffer.drop(KIND_POD_GROUP, "uid-job")
    codes = (ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID, ApplyCode.INVALID)
    for number, code in enumerate(codes, start=1):
        bench.world.answers["status job"] = [ApplyResult(code)]
        bench.say(running(number))
        await settle()
    levels = [record.levelname for record in caplog.records if "status of" in record.message]
    assert levels == ["DEBUG", "DEBUG", "WARNING"]


def waits(name: str) -> tuple[StatusChange, Event]:
    """That a pod waits, as the core reports it."""
    uid = f"uid-{name}"
    change = PodConditionChange(namespace="ns", name=name, uid=uid, reason="Unschedulable")
    said = Event(kind=KIND_POD, namespace="ns", name=name, uid=uid, reason="FailedScheduling")
    said.message = name
    return StatusChange(pod=change), said


async def test_that_a_pod_waits_is_written_only_if_it_still_waits_a_moment_later() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    for name in ("bound", "waits"):
        bench.hold(pod(name))
        change, said = waits(name)
        bench.say(change, events=(said,))
    await settle()
    assert not bench.world.called("status")
    assert not bench.world.called("event")
    bench.hold(pod("bound", node="n1"))
    await bench.clock.advance(0.5)
    assert bench.world.called("status") == ["waits"]
    assert bench.world.called("event") == ["waits"]
    assert bench.metrics.counted("dropped_events", cause="overtaken") == 1
    assert bench.is_idle


async def test_the_gate_of_a_pod_is_lifted_at_once() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    lift = PodGateLift(namespace="ns", name="a", uid="uid-a", gate="g")
    bench.say(StatusChange(pod_gate=lift))
    await settle()
    assert bench.world.called("status") == ["a"]

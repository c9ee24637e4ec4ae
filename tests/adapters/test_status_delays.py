"""Statuses that nobody needs at once wait for newer ones."""

import pytest

from pumice.adapters.runtime.call_limiter import CallPriority
from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE
from pumice.v1.group_pb2 import (
    POD_GROUP_PHASE_INQUEUE,
    POD_GROUP_PHASE_RUNNING,
    PodGroupCondition,
    PodGroupPhase,
    PodGroupStatus,
)
from pumice.v1.object_pb2 import KIND_POD_GROUP
from pumice.v1.status_pb2 import PodGroupStatusChange, QueueStatusChange, StatusChange
from tests.adapters.fake_clock import settle
from tests.adapters.fake_world import group
from tests.adapters.test_status_writer import Bench, running


def in_phase(
    phase: "PodGroupPhase.ValueType", *conditions: PodGroupCondition, running: int = 0
) -> StatusChange:
    status = PodGroupStatus(phase=phase, running=running, conditions=conditions)
    change = PodGroupStatusChange(namespace="ns", name="job", uid="uid-job", status=status)
    return StatusChange(pod_group=change)


async def test_counters_of_a_group_are_written_a_moment_later_and_once() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.say(running(1))
    await bench.clock.advance(0.3)
    bench.say(running(2))
    await settle()
    assert not bench.world.called("status")
    await bench.clock.advance(0.2)
    bench.echo()
    assert bench.world.called("status") == ["job"]
    found = bench.world.store.get(KIND_POD_GROUP, "uid-job")
    assert found is not None
    assert found.pod_group.status.running == 2


async def test_a_new_phase_of_a_group_is_written_at_once_with_what_waited() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.say(running(1))
    await settle()
    assert not bench.world.called("status")
    bench.say(in_phase(POD_GROUP_PHASE_RUNNING, running=2))
    await settle()
    assert bench.world.called("status") == ["job"]
    assert bench.is_idle


async def test_an_admitted_gang_that_is_being_bound_is_written_when_it_runs() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    admitted = group()
    admitted.pod_group.status.phase = POD_GROUP_PHASE_INQUEUE
    bench.hold(admitted)
    scheduled = PodGroupCondition(type="Scheduled", status=CONDITION_STATUS_TRUE)
    bench.say(in_phase(POD_GROUP_PHASE_INQUEUE, scheduled))
    async with bench.slots.hold(CallPriority.APPLY):
        await bench.clock.advance(0.7)
    await bench.clock.advance(0.4)
    assert not bench.world.called("status")
    bench.say(in_phase(POD_GROUP_PHASE_RUNNING, scheduled))
    await settle()
    assert bench.world.called("status") == ["job"]


async def test_a_new_phase_of_a_gang_that_is_being_bound_is_written_after_the_binds() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    scheduled = PodGroupCondition(type="Scheduled", status=CONDITION_STATUS_TRUE)
    bench.say(in_phase(POD_GROUP_PHASE_INQUEUE, scheduled))
    async with bench.slots.hold(CallPriority.APPLY):
        await bench.clock.advance(0.7)
        assert not bench.world.called("status")
    await bench.clock.advance(0.11)
    assert bench.world.called("status") == ["job"]


async def test_a_group_without_pods_is_admitted_at_once() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    bench.say(in_phase(POD_GROUP_PHASE_INQUEUE))
    await settle()
    assert bench.world.called("status") == ["job"]


@pytest.mark.parametrize(
    ("status", "delays"),
    [
        (PodGroupStatus(conditions=[PodGroupCondition(type="Unschedulable")]), 4),
        # Only counters changed.
        (PodGroupStatus(running=1), 60),
    ],
)
async def test_binds_without_end_delay_a_status_for_a_while_only(
    status: PodGroupStatus, delays: int
) -> None:
    bench = Bench(waiting_report_seconds=0.5)
    change = running(1)
    change.pod_group.status.CopyFrom(status)
    for number in range(delays):
        assert not bench.world.called("status")
        async with bench.slots.hold(CallPriority.APPLY):
            if number == 0:
                bench.say(change)
                await settle()
            await bench.clock.advance(0.5)
    await settle()
    assert bench.world.called("status") == ["job"]


async def test_what_a_queue_has_allocated_is_written_a_moment_later_and_once() -> None:
    bench = Bench(waiting_report_seconds=0.5)
    for amount in range(1, 4):
        queue = QueueStatusChange(name="q", uid="uid-q", allocated={"cpu": amount})
        bench.say(StatusChange(queue=queue))
        await bench.clock.advance(0.1)
    assert not bench.world.called("status")
    await bench.clock.advance(0.4)
    assert bench.world.called("status") == ["q"]

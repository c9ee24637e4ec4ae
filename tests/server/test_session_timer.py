"""When sessions run: by period, early when it is quiet, and not for echoes or for nothing."""

from google.protobuf.duration_pb2 import Duration

from pumice.server.session_timer import QUIET_NS, SessionTimer
from pumice.v1 import cluster_service_pb2, decision_pb2, group_pb2, pod_pb2
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    node,
    outcome,
    pod,
    queue,
)

EMPTY = [queue(), node("n1")]


async def barrier(adapter: ScriptedAdapter) -> None:
    """All that was due by now has happened."""
    for _ in range(2):
        await adapter.tell(outcome("none", decision_pb2.OUTCOME_CODE_APPLIED))


def test_a_session_is_due_a_period_after_the_last_one() -> None:
    timer = SessionTimer()
    assert timer.due_ns(10, eager=True) == 0
    timer.ran(100)
    assert timer.due_ns(10, eager=True) == 110


def test_a_change_brings_it_forward_until_it_is_quiet() -> None:
    timer = SessionTimer()
    timer.ran(0)
    period = 20 * QUIET_NS
    timer.changed(5)
    timer.changed(7)
    assert timer.due_ns(period, eager=True) == 7 + QUIET_NS
    assert timer.due_ns(period, eager=False) == period
    # Unrest that never ends cannot put it off beyond the period.
    timer.changed(period)
    assert timer.due_ns(period, eager=True) == period


async def test_a_pod_that_comes_wakes_the_core_early(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    await adapter.tell(*gang("job", 1))
    core.clock.advance(0.06)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_it_does_not_when_eager_is_off(core: RunningCore) -> None:
    adapter = await core.served(
        EMPTY, configuration(eager=False, schedule_period=Duration(seconds=3))
    )
    await core.session(1)
    await adapter.tell(*gang("job", 1))
    core.clock.advance(2.9)
    await barrier(adapter)
    assert core.metric("pumice_sessions_total") == 1
    core.clock.advance(0.1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_the_echo_of_a_bind_does_not_wake_the_core(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    (made,) = await adapter.decisions()
    await core.session(1)
    await adapter.tell(
        outcome(made.id, decision_pb2.OUTCOME_CODE_APPLIED), pod("job", 0, node_name="n1")
    )
    await adapter.tell(pod("job", 0, node_name="n1", phase=pod_pb2.POD_PHASE_RUNNING))
    core.clock.advance(0.5)
    await barrier(adapter)
    assert core.metric("pumice_sessions_total") == 1
    # At the regular time it is noted: the PodGroup runs now.
    core.clock.advance(0.5)
    await core.session(2)
    phases: list[int] = []
    while group_pb2.POD_GROUP_PHASE_RUNNING not in phases:
        batch = await adapter.next("status_batch")
        phases += [change.pod_group.status.phase for change in batch.changes]


async def test_sessions_are_skipped_when_nothing_can_have_changed(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    for _ in range(10):
        core.clock.advance(1)
        await barrier(adapter)
    assert core.metric("pumice_sessions_total") <= 2
    assert core.metric("pumice_sessions_skipped_total") >= 7
    await adapter.tell(*gang("job", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_nothing_is_decided_for_a_cluster_whose_stream_ended(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    await adapter.tell(*gang("job", 1))
    await adapter.close()
    core.clock.advance(5)
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
    assert (await again.connect()).mode == cluster_service_pb2.WELCOME_MODE_RESUME
    assert core.metric("pumice_sessions_total") == 1

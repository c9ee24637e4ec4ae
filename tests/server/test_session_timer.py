"""When sessions run: by period, early when it is quiet, and not for echoes or for nothing."""

from google.protobuf.duration_pb2 import Duration

from pumice.server.session_timer import (
    COMPLETE_QUIET_NS,
    LONGEST_WAIT_NS,
    QUIET_NS,
    SessionTimer,
)
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


def test_changes_that_never_stop_do_not_delay_it_without_end() -> None:
    timer = SessionTimer()
    timer.ran(0)
    period = 20 * QUIET_NS
    for ticks in range(5, 5 + LONGEST_WAIT_NS, QUIET_NS // 2):
        timer.changed(ticks)
    assert timer.due_ns(period, eager=True) == 5 + LONGEST_WAIT_NS
    # Nor beyond the period.
    assert timer.due_ns(QUIET_NS, eager=True) == QUIET_NS


def test_complete_gangs_wait_for_a_shorter_quiet() -> None:
    timer = SessionTimer()
    timer.ran(0)
    timer.changed(5)
    timer.changed(7, complete=True)
    assert timer.due_ns(20 * QUIET_NS, eager=True) == 7 + COMPLETE_QUIET_NS
    timer.changed(9)
    assert timer.due_ns(20 * QUIET_NS, eager=True) == 9 + QUIET_NS


def test_long_sessions_are_followed_by_a_rest_unless_it_is_quiet() -> None:
    timer = SessionTimer()
    timer.ran(0)
    # Four times as long as the session.
    for duration_ns, due_ns in (
        (1, COMPLETE_QUIET_NS + 100),
        (COMPLETE_QUIET_NS // 2, 5 * (COMPLETE_QUIET_NS // 2)),
        (COMPLETE_QUIET_NS, QUIET_NS + 100),
    ):
        assert timer.ended(duration_ns) == duration_ns
        timer.changed(100, complete=True)
        assert timer.due_ns(20 * QUIET_NS, eager=True) == due_ns


async def test_a_pod_that_comes_wakes_the_core_early(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    await adapter.tell(*gang("job", 1))
    core.clock.advance(0.06)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_gang_is_complete_when_its_last_pod_has_come(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    *most, last = gang("job", 3)
    await adapter.tell(*most)
    core.clock.advance(0.02)
    await barrier(adapter)
    assert core.metric("pumice_sessions_total") == 1
    await adapter.tell(last)
    core.clock.advance(0.02)
    names = [d.bind.name for d in await adapter.decisions()]
    assert sorted(names) == ["job-0", "job-1", "job-2"]
    # Decisions are sent before the session is counted.
    await core.session(2)
    assert core.metric("pumice_sessions_total") == 2


async def test_pods_without_their_group_are_waited_for(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.session(1)
    group, single = gang("job", 1)
    await adapter.tell(single)
    core.clock.advance(0.02)
    await barrier(adapter)
    assert core.metric("pumice_sessions_total") == 1
    await adapter.tell(group)
    core.clock.advance(0.02)
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

"""What becomes of decisions: outcomes, expiry, cool-downs, broken gangs and capabilities."""

from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from pumice.server.limits import Limits
from pumice.v1 import cluster_service_pb2, decision_pb2, object_pb2, pod_pb2, reason_pb2
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    group,
    node,
    outcome,
    pod,
    queue,
    running_core,
    tombstone,
)

EMPTY = [queue(), node("n1")]
APPLIED = decision_pb2.OUTCOME_CODE_APPLIED
RETRYING = decision_pb2.OUTCOME_CODE_RETRYING
FAILED = decision_pb2.OUTCOME_CODE_FAILED
RUNNING = pod_pb2.POD_PHASE_RUNNING


async def fail(adapter: ScriptedAdapter, decisions: list[decision_pb2.Decision]) -> None:
    await adapter.tell(*(outcome(decision.id, FAILED) for decision in decisions))


async def test_unknown_outcomes_are_no_ops(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    (made,) = await adapter.decisions()
    ack = await adapter.tell(outcome("1.0", FAILED), outcome("another-core-1.0", FAILED))
    assert not ack.rejected
    await adapter.tell(outcome(made.id, APPLIED), outcome(made.id, APPLIED))


async def test_a_failed_bind_frees_what_it_held(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("first", 1, 4000), *gang("second", 1, 4000)])
    (made,) = await adapter.decisions()
    assert made.bind.name == "first-0"
    await adapter.tell(outcome(made.id, FAILED), tombstone(object_pb2.KIND_POD, "pod-first-0"))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["second-0"]


async def test_what_is_being_tried_again_is_not_decided_anew(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    (made,) = await adapter.decisions()
    await adapter.tell(outcome(made.id, RETRYING), *gang("other", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["other-0"]


async def test_a_job_whose_binds_are_always_refused_starves_nobody(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("doomed", 1, 4000), *gang("patient", 1, 4000)])
    served = []
    for _ in range(3):
        (made,) = await adapter.decisions()
        served.append(made.bind.name)
        if made.bind.name == "patient-0":
            break
        await fail(adapter, [made])
        core.clock.advance(0.1)
    assert served == ["doomed-0", "doomed-0", "patient-0"]
    session = await core.session(3)
    (wait,) = [w for w in session.waits if w.job == "team/doomed"]
    assert [r.code for r in wait.reasons] == [reason_pb2.REASON_CODE_COOLING_DOWN]


async def test_a_job_comes_back_when_it_has_cooled_down(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("doomed", 1)])
    for _ in range(2):
        await fail(adapter, await adapter.decisions())
        core.clock.advance(0.1)
    for _ in range(3):
        core.clock.advance(1)
        await adapter.tell(outcome("none", APPLIED))
    assert [d.bind.name for d in await adapter.decisions()] == ["doomed-0"]


async def test_a_gang_that_is_refused_whole_fails_once(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 4)])
    await fail(adapter, await adapter.decisions())
    core.clock.advance(0.1)
    # Four refusals are one failure: no cool-down yet.
    assert len(await adapter.decisions()) == 4


async def test_a_decision_without_outcome_is_asked_after(core: RunningCore) -> None:
    timeout = Duration(seconds=10)
    adapter = await core.served([*EMPTY, *gang("job", 1)], configuration(apply_timeout=timeout))
    await adapter.decisions()
    core.clock.advance(21)
    resync = await adapter.next("resync")
    assert [(ref.kind, ref.uid) for ref in resync.objects] == [(object_pb2.KIND_POD, "pod-job-0")]
    assert core.metric("pumice_expired_decisions_total") == 1
    # The pod is sent again as it is, not bound: it is decided on anew.
    await adapter.tell(pod("job", 0))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_gang_larger_than_a_message_is_whole_or_nothing(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(batch_bytes=200)) as core:
        adapter = await core.served([queue(), node("n1", cpu=20_000), *gang("job", 20)])
        first = await adapter.next("decision_batch")
        assert first.gangs[0].size == 20 > len(first.decisions)
        # The stream is cut inside the gang: an adapter forgets what it has of it.
        adapter.cut()
        again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
        welcome = await again.connect()
        assert welcome.mode == cluster_service_pb2.WELCOME_MODE_RESUME
        core.clock.advance(1)
        seen: list[decision_pb2.Decision] = []
        gangs = set()
        while len(seen) < 20:
            batch = await again.next("decision_batch")
            seen += batch.decisions
            gangs |= {g.id for g in batch.gangs}
        assert len({d.bind.name for d in seen}) == 20
        assert gangs != {first.gangs[0].id}
        assert len(gangs) == 1


# Broken gangs.


async def broken_gang(core: RunningCore, **conf: Any) -> ScriptedAdapter:
    """Of three members two run, and the third could not be bound."""
    adapter = await core.served([*EMPTY, *gang("job", 3)], configuration(**conf))
    made = {d.bind.name: d.id for d in await adapter.decisions()}
    await adapter.tell(
        pod("job", 0, node_name="n1", phase=RUNNING),
        pod("job", 1, node_name="n1", phase=RUNNING),
        outcome(made["job-2"], FAILED),
    )
    return adapter


async def test_the_missing_members_of_a_broken_gang_come_first(core: RunningCore) -> None:
    adapter = await broken_gang(core)
    # One that would come first by age and priority, and leave no room.
    await adapter.tell(group("rival", 2), pod("rival", 0), pod("rival", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-2"]


async def test_a_gang_that_stays_short_is_evicted_after_its_deadline(core: RunningCore) -> None:
    adapter = await broken_gang(core, gang_bind_deadline=Duration(seconds=10))
    # The room of the third is taken by a pod of somebody else.
    await adapter.tell(pod("other", 0, 2000, node_name="n1", phase=RUNNING))
    core.clock.advance(5)
    await adapter.tell(queue("a"))
    core.clock.advance(6)
    evicted = await adapter.decisions()
    assert [(d.evict.name, d.evict.reason, d.gang_id) for d in evicted] == [
        ("job-0", "gang-broken", ""),
        ("job-1", "gang-broken", ""),
    ]


async def test_without_a_deadline_a_short_gang_stays(core: RunningCore) -> None:
    adapter = await broken_gang(core)
    await adapter.tell(pod("other", 0, 2000, node_name="n1", phase=RUNNING))
    for _ in range(3):
        core.clock.advance(1000)
        await adapter.tell(outcome("none", APPLIED))
    assert core.metric("pumice_evictions_total") == 0


async def test_a_gang_left_half_done_by_others_is_found(core: RunningCore) -> None:
    half = [group("job", 2), pod("job", 0, node_name="n1", phase=RUNNING), pod("job", 1, 4000)]
    adapter = await core.served(
        [*EMPTY, *half], configuration(gang_bind_deadline=Duration(seconds=10))
    )
    await core.session(1)
    await adapter.tell(queue("a"))
    core.clock.advance(11)
    assert [d.evict.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_job_waits_when_the_adapter_cannot_do_what_it_needs(core: RunningCore) -> None:
    text = (
        'actions: "enqueue, allocate, preempt"\n'
        "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: predicates\n"
    )
    high = object_pb2.ClusterObject()
    high.priority_class.uid = high.priority_class.name = "high"
    high.priority_class.value = 9
    rich = [group("rich", 1, priority_class_name="high"), pod("rich", 0, 4000, task_priority=9)]
    poor = [group("poor", 0), pod("poor", 0, 4000, node_name="n1", phase=RUNNING)]
    conf = configuration(text)
    able = await core.served([*EMPTY, high, *rich, *poor], conf, cluster="able")
    assert [d.evict.name for d in await able.decisions()] == ["poor-0"]
    await core.served([*EMPTY, high, *rich, *poor], conf, cluster="unable", capabilities=[])
    session = await core.session(1, cluster="unable")
    (wait,) = [w for w in session.waits if w.job == "team/rich"]
    assert reason_pb2.REASON_CODE_CAPABILITY_MISSING in [r.code for r in wait.reasons]
    assert not session.decisions


async def test_an_adapter_that_cannot_evict_is_not_asked_to(core: RunningCore) -> None:
    half = [group("job", 2), pod("job", 0, node_name="n1", phase=RUNNING), pod("job", 1, 4000)]
    await core.served(
        [*EMPTY, *half],
        configuration(gang_bind_deadline=Duration(seconds=10)),
        capabilities=[],
    )
    await core.session(1)
    core.clock.advance(11)
    session = await core.session(2)
    assert session.summary.evict_count == 0

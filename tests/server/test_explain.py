"""Explain: why a job or pod stands where it stands, stage by stage, and since when."""

from typing import Any

import grpc
import pytest

from pumice.client.details import read_status_details
from pumice.core.model.reasons import ReasonCode
from pumice.server.explaining.stages import STAGE_OF
from pumice.v1 import explanation_pb2, group_pb2, object_pb2, pod_pb2, reason_pb2
from pumice.v1.scheduling_service_pb2 import (
    ClusterSource,
    ExplainRequest,
    ExplainResponse,
    ObjectName,
    ScheduleRequest,
)
from tests.server.running import (
    START,
    RunningCore,
    configuration,
    gang,
    group,
    node,
    pod,
    queue,
    tombstone,
)

Code = grpc.StatusCode
HELD = explanation_pb2.STAGE_RESULT_HELD_BACK
PREEMPTING = configuration(
    'actions: "enqueue, allocate, preempt"\n'
    "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n"
    "- plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
)

# There is room enough in all, but for the last pod on no single node.
SHORT = [queue(), node("n1"), node("n2"), node("n3"), *gang("job", 4, cpu=3000)]


async def explain(
    core: RunningCore, *, job: str = "", pod_: str = "", **fields: Any
) -> explanation_pb2.Explanation:
    if job:
        fields["job"] = ObjectName(namespace="team", name=job)
    if pod_:
        fields["pod"] = ObjectName(namespace="team", name=pod_)
    response: ExplainResponse = await core.scheduling().Explain(ExplainRequest(**fields))
    return response.explanation


def held(explanation: explanation_pb2.Explanation) -> dict[str, list[int]]:
    return {
        explanation_pb2.Stage.Name(stage.stage).removeprefix("STAGE_"): [
            reason.code for reason in stage.reasons
        ]
        for stage in explanation.stages
        if stage.result == HELD
    }


def test_every_reason_belongs_to_a_stage() -> None:
    assert set(STAGE_OF) == set(ReasonCode)


async def test_a_gang_that_does_not_fit_names_its_blocking_pod(core: RunningCore) -> None:
    await core.served(SHORT)
    await core.session(1)
    found = await explain(core, job="job")
    assert found.job == "team/job"
    assert found.blocking_pod == "job-3"
    assert set(held(found)) == {"GANG", "NODES"}
    assert found.sentence.startswith("team/job waits: 3 of the 4 pods that must start together fit")
    assert "1 short" in found.sentence
    (counted,) = [
        reason.nodes
        for stage in found.stages
        for reason in stage.reasons
        if stage.stage == explanation_pb2.STAGE_NODES
    ]
    assert [(count.reason, count.node_count) for count in counted] == [("Insufficient cpu", 3)]


async def test_the_nearest_nodes_come_with_what_they_lack(core: RunningCore) -> None:
    tainted = node("n3", cpu=9000)
    tainted.node.unschedulable = True
    await core.served(
        [queue(), node("n1", cpu=2000), node("n2", cpu=3000), tainted, *gang("job", 1, cpu=4000)]
    )
    await core.session(1)
    found = await explain(core, job="job")
    assert [nearest.node for nearest in found.nearest_nodes] == ["n2", "n1", "n3"]
    (shortage,) = found.nearest_nodes[0].shortages
    assert (shortage.resource, shortage.need, shortage.have) == ("cpu", 4000, 3000)
    assert found.nearest_nodes[2].reasons
    assert "The nearest node for job-0 is n2, which lacks 1 cpu." in found.sentence
    fewer = await explain(core, job="job", nearest_node_count=1)
    assert len(fewer.nearest_nodes) == 1


async def test_a_missing_queue_is_the_stage_that_holds_back(core: RunningCore) -> None:
    lost = group("job", 1, queue="blue")
    await core.served([queue(), node("n1"), lost, pod("job", 0)])
    await core.session(1)
    found = await explain(core, job="job")
    assert list(held(found)) == ["QUEUE"]
    assert found.queue == "blue"
    assert "queue blue does not exist" in found.sentence
    after = [s.result for s in found.stages if s.stage != explanation_pb2.STAGE_QUEUE]
    assert HELD not in after
    assert explanation_pb2.STAGE_RESULT_PASSED not in after


async def test_a_misspelt_queue_comes_with_the_one_that_was_meant(core: RunningCore) -> None:
    lost = group("job", 1, queue="reserch")
    await core.served([queue("research"), node("n1"), lost, pod("job", 0)])
    await core.session(1)
    for found in (await explain(core, job="job"), await explain(core, pod_="job-0")):
        assert "queue reserch does not exist (there is research)." in found.sentence


async def test_a_gang_without_all_its_pods_says_so(core: RunningCore) -> None:
    await core.served([queue(), node("n1"), group("job", 3), pod("job", 0)])
    await core.session(1)
    found = await explain(core, job="job")
    assert list(held(found)) == ["GANG"]
    assert "only 1 of the 3 pods it needs exist" in found.sentence


async def test_stages_that_nothing_asks_for_are_not_configured(core: RunningCore) -> None:
    await core.served([queue(), node("n1"), *gang("job", 9)])
    await core.session(1)
    stages = {stage.stage: stage.result for stage in (await explain(core, job="job")).stages}
    expected = explanation_pb2.STAGE_RESULT_NOT_CONFIGURED
    assert stages[explanation_pb2.STAGE_PREEMPTION] == expected
    assert stages[explanation_pb2.STAGE_QUEUE] == explanation_pb2.STAGE_RESULT_PASSED


async def test_history_adds_up_and_is_never_overwritten(core: RunningCore) -> None:
    adapter = await core.served(SHORT)
    await core.session(1)
    await adapter.tell(node("n0", cpu=1000))
    core.clock.advance(1)
    await core.session(2)
    await adapter.tell(node("n4"))
    core.clock.advance(1)
    await adapter.decisions()
    found = await explain(core, job="job")
    assert found.history
    assert not any(period.current for period in found.history)
    assert all(period.session_count == 2 for period in found.history)
    first = found.history[0]
    assert first.first_seen_time.seconds == START // 10**9
    assert first.last_seen_time.seconds == START // 10**9 + 1


async def test_a_placed_pod_says_why_this_node(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), node("n2", cpu=16_000), *gang("job", 1)])
    (decision,) = await adapter.decisions()
    found = await explain(core, pod_="job-0")
    (placement,) = found.placements
    assert placement.node.node == decision.bind.node
    assert placement.decision_id == decision.id
    assert placement.session == 1
    assert placement.feasible_node_count == 2
    (runner_up,) = placement.runners_up
    assert placement.node.score > runner_up.score
    assert {part.plugin for part in placement.node.parts} >= {"nodeorder"}
    parts = sum(part.score for part in placement.node.parts)
    assert parts == pytest.approx(placement.node.score)
    assert placement.action == "allocate"
    told = f"is on {decision.bind.node}, where allocate put it in session 1."
    assert told in found.sentence


async def test_each_pod_is_put_down_to_the_action_that_placed_it(core: RunningCore) -> None:
    best_effort = pod("light", 0)
    best_effort.pod.spec.ClearField("requests")
    objects = [queue(), node("n1"), *gang("heavy", 2), group("light", 1), best_effort]
    adapter = await core.served(objects)
    assert len(await adapter.decisions()) == 3
    actions = {
        name: (await explain(core, pod_=name)).placements[0].action
        for name in ("heavy-0", "heavy-1", "light-0")
    }
    assert actions == {"heavy-0": "allocate", "heavy-1": "allocate", "light-0": "backfill"}


async def test_pods_of_a_role_that_fits_nowhere_are_said_not_to_be_tried(core: RunningCore) -> None:
    members = [pod("job", number, cpu=9000 if number else 1000) for number in range(4)]
    for number, member in enumerate(members):
        member.pod.role = "worker" if number else "master"
    nodes = [node(f"n{number}") for number in range(3)]
    await core.served([queue(), *nodes, group("job", 1), *members])
    await core.session(1)
    found = await explain(core, job="job")
    (about,) = [
        reason
        for stage in found.stages
        for reason in stage.reasons
        if reason.code == reason_pb2.REASON_CODE_ROLE_FAILED
    ]
    assert (about.author, about.task, list(about.subjects)) == ("allocate", "job-2", ["worker"])
    assert "more pods of role worker were not tried" in found.sentence


async def test_a_placed_job_says_how_many_pods_are_placed(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 2)])
    await adapter.decisions()
    found = await explain(core, job="job")
    assert found.sentence.startswith("team/job runs: 2 of 2 pods are placed.")
    assert not held(found)


async def test_an_evicted_pod_says_for_whom_even_when_it_is_gone(core: RunningCore) -> None:
    running = pod_pb2.POD_PHASE_RUNNING
    low = [group("low", 1, priority_class_name="low")]
    low += [pod("low", i, node_name="n1", phase=running, preemptable=True) for i in range(4)]
    classes = [
        object_pb2.ClusterObject(
            priority_class=group_pb2.PriorityClass(uid=name, name=name, value=value)
        )
        for name, value in (("low", 1), ("high", 100))
    ]
    high = [group("high", 1, priority_class_name="high"), pod("high", 0, task_priority=100)]
    adapter = await core.served([queue(), node("n1"), *classes, *low, *high], PREEMPTING)
    (decision,) = await adapter.decisions()
    victim = decision.evict
    assert victim.for_job == "team/high"
    await adapter.tell(tombstone(object_pb2.KIND_POD, victim.uid))
    found = await explain(core, pod_=victim.name)
    assert [e.for_job for e in found.evictions] == ["team/high"]
    assert found.evictions[0].reason == victim.reason
    assert found.job == "team/low"
    assert "to make room for team/high" in found.sentence
    whole = await explain(core, job="low")
    assert [e.pod for e in whole.evictions] == [victim.name]


async def test_a_pod_that_waits_for_others_is_not_blamed(core: RunningCore) -> None:
    await core.served(SHORT)
    await core.session(1)
    innocent = await explain(core, pod_="job-0")
    assert innocent.sentence.startswith("pod job-0 waits for its job: 3 of the 4 pods")
    assert "By itself job-0 would fit on n1." in innocent.sentence
    blocking = await explain(core, pod_="job-3")
    assert blocking.sentence.startswith("pod job-3 waits: no node takes job-3")


async def test_a_pod_without_its_group_says_so(core: RunningCore) -> None:
    await core.served([queue(), node("n1"), pod("job", 0)])
    await core.session(1)
    found = await explain(core, pod_="job-0")
    assert found.sentence == "pod job-0 waits: its PodGroup team/job does not exist."


async def test_a_volcano_job_is_found_by_its_own_name(core: RunningCore) -> None:
    name = "train-0b6cfa52-7d2e-4c5e-9d0c-0123456789ab"
    await core.served([queue(), node("n1"), group(name, 1), pod(name, 0)])
    await core.session(1)
    assert (await explain(core, job="train")).job == f"team/{name}"


async def test_a_job_that_is_gone_is_still_explained(core: RunningCore) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 6)])
    await core.session(1)
    pods = [tombstone(object_pb2.KIND_POD, f"pod-job-{i}") for i in range(6)]
    await adapter.tell(*pods, tombstone(object_pb2.KIND_POD_GROUP, "group-job"))
    found = await explain(core, job="job")
    assert found.sentence == "team/job is no longer in the cluster."
    assert found.history


@pytest.mark.parametrize(
    "request_",
    [
        ExplainRequest(),
        ExplainRequest(job=ObjectName(name="job")),
        ExplainRequest(pod=ObjectName(namespace="team")),
        ExplainRequest(job=ObjectName(namespace="a/team", name="job")),
        ExplainRequest(job=ObjectName(namespace="team", name="job"), nearest_node_count=-1),
        ExplainRequest(job=ObjectName(namespace="team", name="job"), nearest_node_count=101),
    ],
)
async def test_a_question_about_nobody_is_refused(
    core: RunningCore, request_: ExplainRequest
) -> None:
    await core.served([queue(), *gang("job", 1)])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await core.scheduling().Explain(request_)
    assert caught.value.code() is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("namespace", ["team", "taem"])
@pytest.mark.parametrize("subject", ["job", "pod"])
async def test_unknown_names_are_answered_with_near_ones(
    core: RunningCore, subject: str, namespace: str
) -> None:
    await core.served([queue(), *gang("training", 1)])
    name = "trainign" if subject == "job" else "training-9"
    near = "team/training" if subject == "job" else "team/training-0"
    request = ExplainRequest(**{subject: ObjectName(namespace=namespace, name=name)})  # type: ignore[arg-type]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await core.scheduling().Explain(request)
    assert caught.value.code() is Code.NOT_FOUND
    detail = read_status_details(caught.value.trailing_metadata())
    assert list(detail.nearest_names) == [near]


async def test_a_cluster_that_is_not_complete_is_unavailable(core: RunningCore) -> None:
    await core.adapter().connect()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await explain(core, job="job")
    assert caught.value.code() is Code.UNAVAILABLE


async def test_a_look_leaves_no_trace_in_what_is_decided(core: RunningCore) -> None:
    """Explain between two sessions, and the second decides as if nobody had asked."""
    adapter = await core.served([queue(), node("n1"), *gang("job", 6)])
    await core.session(1)
    for number in range(6):
        await explain(core, pod_=f"job-{number}")
    await adapter.tell(node("n2"))
    core.clock.advance(1)
    binds = {d.bind.name: d.bind.node for d in await adapter.decisions()}
    assert sorted(binds) == [f"job-{number}" for number in range(6)]
    assert sorted(binds.values()).count("n1") <= 4


async def test_owner_and_follower_explain_alike(core: RunningCore) -> None:
    adapter = await core.served([*SHORT, *gang("small", 1)])
    await adapter.decisions()
    names = ["job-0", "job-3", "small-0"]
    first = [await explain(core, job="job"), *[await explain(core, pod_=n) for n in names]]
    # From now on there is a follower, for sure.
    source = ClusterSource(cluster="c1")
    await core.scheduling().Schedule(ScheduleRequest(request_id="r", cluster=source))
    again = [await explain(core, job="job"), *[await explain(core, pod_=n) for n in names]]
    assert again == first

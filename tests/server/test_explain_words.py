"""Explanations as a user reads them: is it true, and does it name the one thing to change?"""

from typing import Any

import pytest

from pumice.core.model.node import Node
from pumice.core.model.pod import PodSpec
from pumice.core.model.reasons import NodeCount, Reason, ReasonCode
from pumice.core.model.selectors import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from pumice.server.core_environment import CoreEnvironment
from pumice.server.explaining.facts import Facts, Subject, gather_facts, nearest_names
from pumice.server.explaining.formatting import counted, of_one_node
from pumice.server.explaining.job_history import JobHistory
from pumice.server.explaining.node_details import with_details
from pumice.server.ops import OpReader
from pumice.server.state import ClusterState
from pumice.server.wire import write_upsert
from pumice.v1 import (
    delta_pb2,
    explanation_pb2,
    group_pb2,
    object_pb2,
    pod_pb2,
    reason_pb2,
    resource_pb2,
    selector_pb2,
)
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.inspection_service_pb2 import ListJobsRequest
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
from tests.server.test_explain import PREEMPTING, SHORT, explain, held

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNLIKE = "node(s) didn't match Pod's node affinity/selector"


async def test_a_closed_queue_is_called_closed_and_not_full(core: RunningCore) -> None:
    shut = queue("shut")
    shut.queue.state = group_pb2.QUEUE_STATE_CLOSED
    let_in = group("job", 1, queue="shut")
    let_in.pod_group.status.phase = group_pb2.POD_GROUP_PHASE_INQUEUE
    await core.served([queue(), shut, node("n1"), let_in, pod("job", 0)])
    await core.session(1)
    for found in (await explain(core, job="job"), await explain(core, pod_="job-0")):
        assert "queue shut is not open, so nothing in it starts" in found.sentence
        assert "QUEUE" in held(found)
        assert "QUOTA" not in held(found)


async def test_a_job_behind_gates_is_listed_with_them(core: RunningCore) -> None:
    held = [pod("job", number) for number in range(2)]
    for member in held:
        member.pod.spec.scheduling_gates.append("example.com/quota")
    await core.served([queue(), node("n1"), group("job", 2), *held])
    await core.session(1)
    (listed,) = (await core.inspection().ListJobs(ListJobsRequest())).jobs
    (why,) = listed.reasons
    assert (why.code, why.task) == (reason_pb2.REASON_CODE_GATED, "job-0")
    assert list(why.subjects) == ["example.com/quota"]
    assert (await explain(core, job="job")).history


@pytest.mark.parametrize("size", [1, 3])
async def test_a_pod_behind_a_gate_is_named_with_its_gate(core: RunningCore, size: int) -> None:
    members = [pod("job", number) for number in range(size)]
    members[-1].pod.spec.scheduling_gates.append("example.com/quota")
    await core.served([queue(), node("n1"), group("job", size), *members])
    await core.session(1)
    last = f"job-{size - 1}"
    for found in (await explain(core, job="job"), await explain(core, pod_=last)):
        assert f"{last} has a scheduling gate (example.com/quota)" in found.sentence
        assert "no session has" not in found.sentence
    assert (await explain(core, job="job")).blocking_pod in (last, "job-0")


async def test_what_nodes_lack_is_what_is_left_by_those_of_the_gang_that_fit(
    core: RunningCore,
) -> None:
    await core.served(SHORT)
    await core.session(1)
    found = await explain(core, job="job")
    told = "With 3 pods of its gang in place, the nearest node for job-3 is n1, which lacks 2 cpu."
    assert told in found.sentence
    assert all(nearest.shortages[0].have == 1000 for nearest in found.nearest_nodes)
    # It is only imagined: the same question again gets the same answer.
    assert await explain(core, job="job") == found
    blocking = await explain(core, pod_="job-3")
    assert "which lacks 2 cpu" in blocking.sentence


def test_a_gang_too_large_to_be_imagined_in_passing_has_no_nearest_nodes() -> None:
    state = ClusterState(CoreEnvironment().registry)
    state.configure(Configuration())
    upserts = [delta_pb2.Op(upsert=write_upsert(held, 1)) for held in SHORT]
    state.apply(OpReader().read_ops(1, upserts), START)
    state.engine.schedule(START)

    def seen(most: int) -> Facts:
        subject = Subject("team", "job", False, 5, blocking="job-3", waits=True, max_earlier=most)
        return gather_facts(state, subject, START)

    crowded, looked_at = seen(2), seen(3)
    assert (crowded.is_gang_too_large, crowded.nearest) == (True, [])
    assert (looked_at.ahead, len(looked_at.nearest)) == (3, 3)


async def test_a_cluster_without_nodes_says_so(core: RunningCore) -> None:
    await core.served([queue(), *gang("job", 2)])
    await core.session(1)
    assert (await explain(core, job="job")).sentence == (
        "team/job waits: the cluster has no nodes."
    )


async def test_the_nearest_node_names_its_taint_and_its_label(core: RunningCore) -> None:
    tainted = node("n1")
    tainted.node.taints.append(
        selector_pb2.Taint(key="gpu", value="yes", effect=selector_pb2.TAINT_EFFECT_NO_SCHEDULE)
    )
    picky = pod("picky", 0)
    picky.pod.spec.node_selector["zone"] = "b"
    await core.served([queue(), tainted, *gang("plain", 1), group("picky", 1), picky])
    await core.session(1)
    plain = await explain(core, job="plain")
    assert "1 node has taints that it does not tolerate" in plain.sentence
    assert "n1, which has the taint gpu=yes:NoSchedule, which it does not tolerate" in (
        plain.sentence
    )
    assert "fit, 1 short" not in plain.sentence
    assert "does not have zone=b" in (await explain(core, job="picky")).sentence


async def test_stages_before_the_one_that_held_pods_back_were_passed(core: RunningCore) -> None:
    full = queue("full", capability=resource_pb2.ResourceList(amounts={"cpu": 2000}))
    members = [pod("job", number) for number in range(3)]
    adapter = await core.served(
        [queue(), full, node("n1"), group("job", 1, queue="full"), *members]
    )
    assert len(await adapter.decisions()) == 2
    await adapter.tell(node("n2"))
    core.clock.advance(1)
    await core.session(2)
    found = await explain(core, job="job")
    assert list(held(found)) == ["QUOTA"]
    results = {stage.stage: stage.result for stage in found.stages}
    for stage in (explanation_pb2.STAGE_ENQUEUE, explanation_pb2.STAGE_GANG):
        assert results[stage] == explanation_pb2.STAGE_RESULT_PASSED


async def test_a_pod_that_no_node_could_ever_hold_is_said_to_be_too_large(
    core: RunningCore,
) -> None:
    exotic = pod("exotic", 0)
    exotic.pod.spec.requests["example.com/tpu"] = 1000
    objects = [queue(), node("n1"), node("n2"), *gang("huge", 2, cpu=5000)]
    await core.served([*objects, group("exotic", 1), exotic])
    await core.session(1)
    assert (await explain(core, job="huge")).sentence == (
        "team/huge waits: huge-0 asks for 5 cpu, and no node has more than 4 cpu."
    )
    assert (await explain(core, pod_="exotic-0")).sentence == (
        "pod exotic-0 waits: exotic-0 asks for 1 example.com/tpu, and no node has any "
        "example.com/tpu."
    )


async def test_members_that_the_queue_holds_back_are_not_imagined_anywhere(
    core: RunningCore,
) -> None:
    limit = resource_pb2.ResourceList(amounts={"cpu": 1000})
    objects = [queue(), queue("full", capability=limit), node("n1"), group("job", 3, queue="full")]
    await core.served([*objects, *(pod("job", number) for number in range(3))])
    await core.session(1)
    found = await explain(core, pod_="job-2")
    assert "queue full may have 1 cpu, of which 1 cpu is taken, and job-2 asks" in found.sentence


async def test_a_job_that_goes_on_says_that_pods_were_taken_from_it(core: RunningCore) -> None:
    low = [group("low", 1, priority_class_name="low")]
    state: dict[str, Any] = {
        "phase": pod_pb2.POD_PHASE_RUNNING,
        "node_name": "n1",
        "preemptable": True,
    }
    low += [pod("low", number, **state) for number in range(4)]
    classes = [
        object_pb2.ClusterObject(
            priority_class=group_pb2.PriorityClass(uid=name, name=name, value=value)
        )
        for name, value in (("low", 1), ("high", 100))
    ]
    high = [group("high", 1, priority_class_name="high"), pod("high", 0, task_priority=100)]
    adapter = await core.served([queue(), node("n1"), *classes, *low, *high], PREEMPTING)
    (decision,) = await adapter.decisions()
    await adapter.tell(tombstone(object_pb2.KIND_POD, decision.evict.uid))
    told = "1 pod of it was evicted, in session 1 to make room for team/high."
    assert told in (await explain(core, job="low")).sentence


@pytest.mark.parametrize(
    ("queues", "why"),
    [
        ([queue("kid", parent="up"), queue("up")], "the queue root does not exist"),
        (
            [queue("root"), queue("kid", parent="lost")],
            "queue kid: its parent lost does not exist, so nothing is scheduled",
        ),
        (
            [queue("root"), queue("kid", parent="root"), queue("baby", parent="kid")],
            "queue kid: it has jobs and a child queue (baby)",
        ),
        (
            [queue("root"), queue("kid", parent="up"), queue("up", parent="kid")],
            "queues are parents of each other (kid below up below kid)",
        ),
    ],
)
async def test_queues_that_form_no_tree_are_told_with_what_is_wrong(
    core: RunningCore, queues: list[object_pb2.ClusterObject], why: str
) -> None:
    tree = configuration(
        'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
        "  - name: predicates\n  - name: capacity\n    enableHierarchy: true\n"
    )
    let_in = group("job", 1, queue="kid")
    let_in.pod_group.status.phase = group_pb2.POD_GROUP_PHASE_INQUEUE
    await core.served([*queues, node("n1"), let_in, pod("job", 0)], tree)
    await core.session(1)
    assert why in (await explain(core, job="job")).sentence
    assert why in (await explain(core, pod_="job-0")).sentence


def test_names_are_near_where_they_were_looked_for() -> None:
    there = ["team/train", "team/orphan", "other/serve", "team/training"]
    assert nearest_names("team/trian", there) == ["team/train", "team/training"]
    assert nearest_names("team/serve", there) == ["other/serve"]
    assert nearest_names("taem/train", there) == ["team/train"]
    assert nearest_names("x/y", there) == []


async def test_a_pod_of_another_scheduler_names_it(core: RunningCore) -> None:
    foreign = pod("web", 0)
    foreign.pod.spec.scheduler_name = "default-scheduler"
    await core.served([queue(), node("n1"), foreign])
    await core.session(1)
    found = await explain(core, pod_="web-0")
    assert "(default-scheduler, by its schedulerName)" in found.sentence


async def test_a_pod_asks_for_what_it_asks_for_where_less_is_enough(core: RunningCore) -> None:
    """As with kube-batch, whose comparisons have a tolerance."""
    tolerant = configuration(compat=["kube-batch"], scheduler_names=["volcano"])
    await core.served([queue(), node("n1"), *gang("huge", 1, cpu=9000)], tolerant)
    await core.session(1)
    assert "huge-0 asks for 9 cpu, and no node has more than 4 cpu" in (
        (await explain(core, job="huge")).sentence
    )


def test_what_holds_for_many_pods_is_one_period() -> None:
    history = JobHistory()
    limits = [Reason("allocate", ReasonCode.QUEUE_QUOTA, task=f"job-{i}") for i in range(300)]
    short = Reason("gang", ReasonCode.GANG_SHORT, have=1, need=301)
    history.add_wait((*limits, short), 1)
    history.add_wait((*limits[1:], short), 2)
    told = {(period.reason.code, period.reason.task) for period in history.periods}
    assert told == {(ReasonCode.QUEUE_QUOTA, "job-1"), (ReasonCode.GANG_SHORT, "")}
    assert [period.sessions for period in history.periods] == [2, 2]
    history.add_wait((short,), 3)
    assert {period.reason.code for period in history.periods if period.current} == {
        ReasonCode.GANG_SHORT
    }


def test_nodes_are_counted_in_plain_language() -> None:
    counts = [NodeCount("Insufficient cpu", 3), NodeCount(CORDONED, 1), NodeCount(TAINTED, 2)]
    assert counted(counts) == (
        "3 nodes have too little cpu, 1 is cordoned, 2 have taints that it does not tolerate"
    )
    assert counted([NodeCount("own plugin says no", 2)]) == "2 own plugin says no"
    missing = 'persistentvolumeclaim "a" not found'
    everywhere = NodeCount(f"plugin VolumeZone pre-predicates failed {missing}", 5)
    assert counted([everywhere]) == missing


def test_what_a_node_has_against_a_pod_follows_its_name() -> None:
    assert of_one_node(CORDONED) == "is cordoned"
    assert of_one_node("own plugin says no") == "is refused: own plugin says no"


def test_only_what_is_missing_is_named() -> None:
    labels = {"zone": "a", "disk": "ssd"}
    taints = (
        Taint("gpu", "", TaintEffect.NO_SCHEDULE),
        Taint("soft", "", TaintEffect.PREFER_NO_SCHEDULE),
        Taint("known", "x", TaintEffect.NO_EXECUTE),
    )
    there = Node("u", "n1", labels=labels, taints=taints)
    terms = (
        NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),)),
        NodeSelectorTerm((Requirement("cores", Operator.GREATER_THAN, ("8",)),)),
    )
    spec = PodSpec(
        node_selector=(("disk", "ssd"), ("zone", "b")),
        tolerations=(Toleration("known", "x"),),
        required_node_terms=terms,
    )
    assert with_details(TAINTED, spec, there) == f"{TAINTED}: gpu:NoSchedule"
    assert with_details(UNLIKE, spec, there) == f"{UNLIKE}: zone=b"
    lacking = PodSpec(required_node_terms=terms[1:])
    assert with_details(UNLIKE, lacking, there) == f"{UNLIKE}: cores > 8"
    assert with_details(UNLIKE, lacking, None) == UNLIKE


@pytest.mark.parametrize(
    "reason", ["Insufficient example.com/taint", "plugin own: no taint wanted"]
)
def test_a_reason_that_only_has_a_word_in_common_gets_no_details(reason: str) -> None:
    tainted = Node("u", "n1", taints=(Taint("gpu", "", TaintEffect.NO_SCHEDULE),))
    assert with_details(reason, PodSpec(), tainted) == reason


def test_a_reason_of_kube_batch_gets_details_too() -> None:
    reason = "node(s) had taints that the pod didn't tolerate"
    tainted = Node("u", "n1", taints=(Taint("gpu", "", TaintEffect.NO_SCHEDULE),))
    found = with_details(reason, PodSpec(), tainted)
    assert of_one_node(found) == "has the taint gpu:NoSchedule, which it does not tolerate"

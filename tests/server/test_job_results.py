"""One answer to a manifest: what is placed, what waits and why, what is evicted, what is wrong."""

from typing import Any

import pytest

from pumice.server.errors import LimitError, ObjectsRejectedError
from pumice.v1 import job_result_pb2 as pb
from pumice.v1 import object_pb2
from pumice.v1.group_pb2 import Namespace
from pumice.v1.job_result_pb2 import Manifest
from pumice.v1.node_pb2 import Node
from pumice.v1.pod_pb2 import Pod, PodSpec
from pumice.v1.scheduling_service_pb2 import InlineSource, ObjectSet, ScheduleRequest
from tests.server import running
from tests.server.asking import answer, inline, job, live, node, queue, verdicts
from tests.server.running import RunningCore
from tests.server.trials import schedule

NODES = [node("n1"), node("n2")]
PREEMPTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
CAPACITY = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""


def problems(response: Any) -> list[tuple[str, str, str, str]]:
    return [(each.source, each.kind, each.key, each.field) for each in response.problems]


def test_a_job_that_fits_is_placed() -> None:
    response = answer(inline(*NODES, job("train", 2)))
    (found,) = response.jobs
    assert verdicts(response) == {"team/train": "PLACED"}
    assert {each.pod: each.node for each in found.placed} == {
        "team/train-w-0": "n1",
        "team/train-w-1": "n2",
    }
    assert found.sentence == "team/train would be placed: all of its 2 pods on n1, n2."
    assert not response.problems


def test_a_pod_that_no_empty_node_holds_never_fits() -> None:
    response = answer(inline(*NODES, job("big", requests={"nvidia.com/gpu": 16})))
    assert verdicts(response) == {"team/big": "NEVER_FITS"}
    lacks = [each for each in response.jobs[0].shortages if each.WhichOneof("place") != "queue"]
    (lack,) = lacks
    assert (lack.resource, lack.wanted, lack.free, lack.limit) == (
        "nvidia.com/gpu",
        16_000,
        8_000,
        8_000,
    )
    assert (lack.pod, lack.largest_node) == ("big-w-0", "n1")


@pytest.mark.parametrize(
    "never",
    [
        job("never", 9),
        job("never", requests={"google.com/tpu": 1}),
        job("never", nodeSelector={"zone": "b"}),
    ],
    ids=["more pods than the cluster holds", "a resource of no node", "a label of no node"],
)
def test_what_an_empty_cluster_does_not_hold_never_fits(never: dict[str, Any]) -> None:
    assert verdicts(answer(inline(*NODES, never))) == {"team/never": "NEVER_FITS"}


def test_a_full_cluster_means_not_now() -> None:
    response = answer(inline(*NODES, job("first", 6), job("second", 6)))
    assert verdicts(response) == {"team/first": "PLACED", "team/second": "NOT_NOW"}
    waiting = response.jobs[1]
    assert waiting.pending_count == 6
    assert waiting.explanation.blocking_pod == "second-w-2"
    assert {
        each.node: (each.wanted, each.free, each.limit) for each in waiting.shortages if each.node
    } == {"n1": (1000, 0, 4000)}


@pytest.mark.parametrize("conf", ["", CAPACITY])
def test_a_queue_at_its_limit_is_told_from_one_whose_limit_is_too_low(conf: str) -> None:
    items = [*NODES, queue("small", capability={"cpu": "2"})]
    jobs = [job("a", 2, "small"), job("b", 1, "small")]
    at = answer(with_conf(inline(*items, *jobs), conf))
    assert verdicts(at) == {"team/a": "PLACED", "team/b": "AT_LIMIT"}
    (lack,) = at.jobs[1].shortages
    assert (lack.queue, lack.resource, lack.wanted, lack.free, lack.limit) == (
        "small",
        "cpu",
        1000,
        0,
        2000,
    )
    above = answer(with_conf(inline(*items, job("c", 3, "small")), conf))
    assert verdicts(above) == {"team/c": "ABOVE_LIMIT"}


def with_conf(request: ScheduleRequest, conf: str) -> ScheduleRequest:
    if conf:
        request.configuration.scheduler_conf = conf
    return request


def test_evictions_for_a_job_are_told_with_it() -> None:
    low = job("low", 8, minimum=1, priorityClassName="low")
    high = job("high", 2, priorityClassName="high")
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in (("low", 1), ("high", 9))
    ]
    for each, name in ((low, "low"), (high, "high")):
        each["spec"]["priorityClassName"] = name
    running_low = expanded_on_nodes(low)
    request = with_conf(inline(*NODES, *classes, *running_low, high), PREEMPTING)
    response = answer(request)
    assert verdicts(response) == {"team/low": "PLACED", "team/high": "AFTER_EVICTIONS"}
    assert len(response.jobs[1].evictions) == 2
    assert {each.for_job for each in response.jobs[1].evictions} == {"team/high"}
    request.max_sessions = 4
    later = answer(request)
    assert verdicts(later)["team/high"] == "PLACED"


def expanded_on_nodes(low: dict[str, Any]) -> list[dict[str, Any]]:
    """A PodGroup and its running pods, four on each node."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "low", "namespace": "team"},
        "spec": {"minMember": 1, "queue": "default", "priorityClassName": "low"},
        "status": {"phase": "Running"},
    }
    spec = low["spec"]["tasks"][0]["template"]["spec"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"low-{number}",
                "namespace": "team",
                "annotations": {
                    "scheduling.k8s.io/group-name": "low",
                    "volcano.sh/preemptable": "true",
                },
            },
            "spec": {**spec, "nodeName": f"n{1 + number // 4}", "schedulerName": "volcano"},
            "status": {"phase": "Running"},
        }
        for number in range(8)
    ]
    return [group, *pods]


def test_enough_of_a_job_is_told_from_all_of_it() -> None:
    response = answer(inline(*NODES, job("web", 10, minimum=2)))
    assert verdicts(response) == {"team/web": "PARTLY_PLACED"}
    assert (len(response.jobs[0].placed), response.jobs[0].pending_count) == (8, 2)


@pytest.mark.parametrize(
    ("held", "word"),
    [
        (job("held", queue="nope"), "queue nope does not exist"),
        (job("held", schedulingGates=[{"name": "budget"}]), "scheduling gate (budget)"),
        (job("held", 1, minimum=3), "1 of the 3 pods"),
    ],
)
def test_what_somebody_must_change_is_held(held: dict[str, Any], word: str) -> None:
    response = answer(inline(*NODES, held))
    assert verdicts(response) == {"team/held": "HELD"}
    assert word in response.jobs[0].sentence


def test_a_closed_queue_holds_a_job() -> None:
    closed = {**queue("closed"), "status": {"state": "Closed"}}
    response = answer(inline(*NODES, closed, job("held", queue="closed")))
    assert verdicts(response) == {"team/held": "HELD"}


def test_what_is_wrong_with_a_manifest_is_named_once_for_all_pods() -> None:
    wrong = job("wrong", 50, requests={"cpu": "four"})
    response = answer(inline(*NODES, wrong, job("right")))
    assert verdicts(response) == {"team/right": "PLACED", "team/wrong": "INVALID"}
    assert problems(response) == [
        (
            response.problems[0].source,
            "Job",
            "team/wrong",
            "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]",
        )
    ]
    problem = response.problems[0]
    assert problem.severity == pb.PROBLEM_SEVERITY_ERROR
    assert problem.source.startswith("job.yaml:")
    assert "'four' is not a quantity" in problem.problem
    assert problem.allowed


def test_documents_that_have_no_effect_are_named() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes, namespace: team}\n"
    response = answer(inline(*NODES, job("train"), text, "# nothing\n"))
    assert [(each.kind, each.key, each.severity) for each in response.problems] == [
        ("ConfigMap", "team/notes", pb.PROBLEM_SEVERITY_WARNING)
    ]
    empty = answer(inline("# nothing\n"))
    assert [each.problem for each in empty.problems] == ["contains no objects"]


def test_a_pod_without_a_scheduler_is_this_schedulers_and_that_is_said() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"containers": [{"name": "main"}]},
    }
    response = answer(inline(*NODES, pod))
    assert verdicts(response) == {"team/podgroup-web": "PLACED"}
    assert problems(response) == [
        (response.problems[0].source, "Pod", "team/web", "spec.schedulerName")
    ]
    assert response.problems[0].severity == pb.PROBLEM_SEVERITY_WARNING
    other = answer(inline(*NODES, job("other", schedulerName="default-scheduler")))
    assert verdicts(other) == {"team/other": "NOT_EXAMINED"}
    assert "default-scheduler" in other.problems[0].problem
    assert other.problems[0].allowed == "volcano"


def messages(*pods: Pod, **fields: Any) -> ScheduleRequest:
    amounts = {"cpu": 4000, "memory": 2**34, "pods": 110, "nvidia.com/gpu": 8000}
    nodes = [Node(name="n1", allocatable=amounts, capacity=amounts)]
    objects = ObjectSet(nodes=nodes, pods=pods, pod_groups=fields.pop("pod_groups", ()))
    return ScheduleRequest(request_id="r", inline=InlineSource(objects=objects), **fields)


def test_over_the_raw_api_a_pod_without_a_scheduler_name_is_named() -> None:
    pods = [Pod(namespace="team", name=f"p{number}", group_name="g") for number in range(3)]
    response = answer(messages(*pods))
    assert verdicts(response) == {"team/g": "NOT_EXAMINED"}
    assert problems(response) == [("", "Pod", "team/p0", "spec.scheduler_name")]
    assert "(and 2 more)" in response.problems[0].problem
    alone = answer(messages(Pod(namespace="team", name="alone")))
    assert verdicts(alone) == {"team/alone": "NOT_EXAMINED"}


def test_over_the_raw_api_one_gpu_is_a_thousand() -> None:
    spec = PodSpec(scheduler_name="volcano", requests={"cpu": 1, "nvidia.com/gpu": 1})
    response = answer(messages(Pod(namespace="team", name="p", spec=spec)))
    assert ("", "Pod", "team/p", "spec.requests[nvidia.com/gpu]") in problems(response)
    assert "1 is 0.001 of a unit" in response.problems[0].problem


def test_invalid_messages_are_an_error_unless_they_are_to_be_skipped() -> None:
    spec = PodSpec(scheduler_name="volcano", requests={"cpu": 2**62})
    wrong = Pod(namespace="team", name="p", group_name="g", spec=spec)
    with pytest.raises(ObjectsRejectedError):
        answer(messages(wrong))
    response = answer(messages(wrong, skip_invalid=True))
    assert verdicts(response) == {"team/g": "INVALID"}
    assert problems(response)[0][1:3] == ("Pod", "team/p")


def test_an_object_of_no_kind_is_named() -> None:
    objects = ObjectSet(other_objects=[object_pb2.ClusterObject()])
    request = ScheduleRequest(request_id="r", inline=InlineSource(objects=objects))
    assert [each.field for each in answer(request).problems] == ["other_objects[0]"]


def test_the_answer_is_about_the_callers_jobs_only_on_request() -> None:
    others = [item for number in range(3) for item in running.gang(f"other-{number}", 9)]
    objects = ObjectSet(other_objects=[*others], manifests=[])
    text = inline(*NODES, job("mine", 1)).inline.objects.manifests
    objects.manifests.extend(text)
    request = ScheduleRequest(request_id="r", inline=InlineSource(objects=objects))
    assert len(answer(request).waits) == 3


def test_too_many_pods_are_a_limit() -> None:
    with pytest.raises(LimitError):
        answer(inline(*NODES, job("huge", 200)), max_objects=100)


async def test_a_live_cluster_answers_for_the_callers_jobs(core: RunningCore) -> None:
    waiting = [item for number in range(4) for item in running.gang(f"w{number}", 9)]
    await core.served([running.queue(), running.node("n1"), *waiting])
    await core.session(1)
    mine = await schedule(core, live(job("mine", 2), own_only=True))
    assert verdicts(mine) == {"team/mine": "PLACED"}
    assert not mine.waits
    assert [gang.job for gang in mine.gangs] == ["team/mine"]
    all_ = await schedule(core, live(job("mine", 2), request_id="r2"))
    assert verdicts(all_) == {"team/mine": "PLACED"}
    assert len(all_.waits) == 4


async def test_a_request_without_jobs_is_about_all_jobs(core: RunningCore) -> None:
    await core.served([running.queue(), running.node("n1"), *running.gang("waiting", 6)])
    await core.session(1)
    response = await schedule(core, live(node("n2"), own_only=True))
    assert verdicts(response) == {"team/waiting": "PLACED"}


async def test_objects_are_removed_by_name_and_unknown_ones_are_named(core: RunningCore) -> None:
    await core.served([running.queue(), running.node("n1"), running.node("n2")])
    kind = object_pb2.KIND_NODE
    keys = [pb.ObjectKey(kind=kind, name="n1"), pb.ObjectKey(kind=kind, name="n9")]
    refs = [object_pb2.ObjectRef(kind=kind, uid="u9")]
    response = await schedule(core, live(job("mine", 4), removed_keys=keys, removed=refs))
    assert {each.node for each in response.jobs[0].placed} == {"n2"}
    assert [(each.key, each.field) for each in response.problems] == [
        ("", "removed"),
        ("n9", "removed_keys"),
    ]
    gone = [pb.ObjectKey(kind=kind, name=name) for name in ("n1", "n2")]
    none = await schedule(core, live(job("mine", 4), removed_keys=gone, request_id="r2"))
    assert verdicts(none) == {"team/mine": "NEVER_FITS"}


async def test_a_queue_without_a_state_has_the_live_one(core: RunningCore) -> None:
    closed = running.queue("closed")
    closed.queue.state = 2  # type: ignore[assignment]
    await core.served([running.queue(), closed, running.node("n1")])
    items = [queue("closed"), queue("new"), job("a", queue="closed"), job("b", queue="new")]
    response = await schedule(core, live(*items))
    assert verdicts(response) == {"team/a": "HELD", "team/b": "PLACED"}


async def test_a_namespace_that_does_not_exist_is_named(core: RunningCore) -> None:
    there = object_pb2.ClusterObject(namespace=Namespace(uid="ns", name="other"))
    await core.served([running.queue(), running.node("n1"), there])
    response = await schedule(core, live(job("train")))
    assert verdicts(response) == {"team/train": "PLACED"}
    (found,) = problems(response)
    assert found[1:] == ("PodGroup", "team/train", "metadata.namespace")
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    with_own = await schedule(core, live(own, job("train"), request_id="r2"))
    assert not with_own.problems


async def test_objects_of_the_cluster_that_are_replaced_are_named(core: RunningCore) -> None:
    await core.served([running.queue(), running.node("n1"), *running.gang("train", 2)])
    text = Manifest(
        source="again.yaml", text=live(job("train")).cluster.hypothetical.manifests[0].text
    )
    request = live()
    request.cluster.hypothetical.manifests.append(text)
    response = await schedule(core, request)
    assert ("again.yaml:1", "PodGroup", "team/train", "metadata.name") in problems(response)

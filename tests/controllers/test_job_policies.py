"""Lifecycle events, policies, timeouts and what a gang needs."""

from typing import Any

import msgspec
import pytest

from pumice.controllers.job.defaults import with_defaults
from pumice.controllers.job.groups import group_body, group_patch, min_resources
from pumice.controllers.job.lifecycle import failing_pods, policy_actions
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.problems import policies_without_effect
from pumice.controllers.job.types import Eviction, Job, JobSpec, JobStatus, Pod
from pumice.controllers.podgroup.types import PodGroup
from tests.controllers.jobs import job, policy, task

CREATED = "2026-01-01T00:00:00Z"
CREATED_MS = 1_767_225_600_000


def spec_of(*tasks: dict[str, Any], **spec: Any) -> JobSpec:
    made = msgspec.json.decode(msgspec.json.encode(job("job", *tasks, **spec)), type=Job)
    return with_defaults(made.spec, "volcano")


def pod(name: str, phase: str = "Running", version: int = 0, **status: Any) -> Pod:
    task_name, _, index = name.rpartition("-")
    annotations = {
        "volcano.sh/task-spec": task_name,
        "volcano.sh/task-index": index,
        "volcano.sh/job-version": str(version),
    }
    body = {
        "metadata": {"name": name, "annotations": annotations, "creationTimestamp": CREATED},
        "status": {"phase": phase, **status},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def ended(*codes: int) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"terminated": {"exitCode": c}}} for c in codes]}


def observed(spec: JobSpec, *pods: Pod, version: int = 0, **more: Any) -> Observed:
    return Observed(Job(status=JobStatus(version=version)), spec, pods, **more)


def found(spec: JobSpec, *pods: Pod, version: int = 0, **more: Any) -> list[tuple[str, str]]:
    made = policy_actions(observed(spec, *pods, version=version, **more))
    return [(answer.event.name, answer.action.value) for answer in made]


def test_policies_of_a_task_come_first_and_the_first_match_counts() -> None:
    mine = [policy("RestartTask", "PodFailed"), policy("RestartPod", "PodFailed")]
    spec = spec_of(
        task("a", 1, policies=mine), task("b", 1), policies=[policy("AbortJob", "PodFailed")]
    )
    pods = (pod("a-0", "Failed"), pod("b-0", "Failed"))
    assert found(spec, *pods) == [("PodFailed", "RestartTask"), ("PodFailed", "AbortJob")]


def test_an_exit_code_of_any_container_matches() -> None:
    spec = spec_of(task("a", 1), policies=[policy("AbortJob", exitCode=3)])
    assert found(spec, pod("a-0", "Failed", **ended(0, 3))) == [("PodFailed", "AbortJob")]
    assert found(spec, pod("a-0", "Failed", **ended(1))) == []
    assert found(spec, pod("a-0", "Succeeded", **ended(3))) == []


def test_any_event_is_no_success() -> None:
    spec = spec_of(task("a", 1), policies=[policy("RestartJob", "*")])
    assert found(spec, pod("a-0", "Succeeded")) == []
    assert found(spec, pod("a-0", "Failed")) == [("PodFailed", "RestartJob")]
    assert found(spec, pod("a-0", "Pending")) == []


def test_pods_of_older_versions_and_those_that_go_raise_nothing() -> None:
    spec = spec_of(task("a", 2), policies=[policy("RestartJob", "PodFailed")])
    assert found(spec, pod("a-0", "Failed", version=1), version=2) == []
    marked = pod("a-0", "Failed")
    assert marked.metadata.annotations is not None
    marked.metadata.annotations["volcano.sh/controller-out-of-sync"] = "true"
    assert found(spec, marked) == []


def test_a_pod_that_stays_pending_is_answered_after_its_timeout() -> None:
    spec = spec_of(task("a", 1), policies=[policy("RestartPod", "PodPending", timeout="1m30s")])
    (answer,) = policy_actions(observed(spec, pod("a-0", "Pending")))
    assert answer.due_ms == CREATED_MS + 90_000
    assert policy_actions(observed(spec, pod("a-0", "Running"))) == []


def test_a_task_fails_when_its_containers_restart_too_often() -> None:
    spec = spec_of(task("a", 2, maxRetry=3), policies=[policy("RestartTask", "TaskFailed")])
    restarted: dict[str, Any] = {"containerStatuses": [{"restartCount": 2}]}
    assert found(spec, pod("a-0", **restarted)) == []
    pods = (pod("a-0", **restarted), pod("a-1", containerStatuses=[{"restartCount": 1}]))
    assert found(spec, *pods) == [("TaskFailed", "RestartTask")]


def test_a_task_completes_when_all_its_pods_have_succeeded() -> None:
    spec = spec_of(task("a", 2), policies=[policy("CompleteJob", "TaskCompleted")])
    assert found(spec, pod("a-0", "Succeeded"), pod("a-1")) == []
    both = (pod("a-0", "Succeeded"), pod("a-1", "Succeeded", version=1))
    assert found(spec, *both, version=1) == [("TaskCompleted", "CompleteJob")]
    # Pods that were kept over a resume complete nothing again.
    assert found(spec, *both, version=2) == []


def test_an_unknown_group_is_answered_in_every_version() -> None:
    spec = spec_of(task("a", 1), policies=[policy("RestartJob", "Unknown")])
    group = msgspec.convert({"status": {"phase": "Unknown"}}, PodGroup)
    assert found(spec, group=group, version=5) == [("Unknown", "RestartJob")]


def test_an_eviction_holds_until_the_pod_is_replaced() -> None:
    eviction = Eviction("a", "a-0", 0, "", 5)
    spec = spec_of(task("a", 1), policies=[policy("RestartJob", "PodEvicted")])
    assert found(spec, evictions=(eviction,)) == [("PodEvicted", "RestartJob")]
    assert found(spec, pod("a-0", "Pending"), evictions=(eviction,)) == []
    assert found(spec, evictions=(eviction,), version=1) == []
    late = spec_of(task("a", 1), policies=[policy("RestartJob", "PodEvicted", timeout="10s")])
    (answer,) = policy_actions(observed(late, pod("a-0", "Pending"), evictions=(eviction,)))
    assert answer.due_ms == 10_005
    assert found(late, pod("a-0", "Running"), evictions=(eviction,)) == []


@pytest.mark.parametrize("timeout", ["", "-5s", "0s"])
def test_a_timeout_that_is_none_acts_at_once(timeout: str) -> None:
    spec = spec_of(task("a", 1), policies=[policy("AbortJob", "PodFailed", timeout=timeout)])
    (answer,) = policy_actions(observed(spec, pod("a-0", "Failed")))
    assert answer.due_ms == 0


def test_a_timeout_that_cannot_be_read_does_nothing() -> None:
    spec = spec_of(task("a", 1), policies=[policy("AbortJob", "PodFailed", timeout="5 min")])
    assert found(spec, pod("a-0", "Failed")) == []


def test_a_task_that_restarts_all_the_time_is_answered_after_its_timeout() -> None:
    """Each restart changes the pod's conditions; the time counts from the first one too many."""
    spec = spec_of(task("a", 1), policies=[policy("RestartTask", "TaskFailed", timeout="60s")])
    status: dict[str, Any] = {"containerStatuses": [{"restartCount": 3}]}
    status["conditions"] = [{"type": "Ready", "lastTransitionTime": "2026-01-01T09:00:00Z"}]
    crashing = pod("a-0", **status)
    assert crashing.metadata.annotations is not None
    crashing.metadata.annotations["pumice.sh/failing-since"] = CREATED
    assert failing_pods(observed(spec, crashing)) == {"a": [crashing]}
    assert failing_pods(observed(spec, crashing, version=1)) == {}
    (answer,) = policy_actions(observed(spec, crashing, now_ms=CREATED_MS + 9_000))
    assert answer.due_ms == CREATED_MS + 60_000


def test_without_an_annotation_the_last_restart_counts_and_then_the_time_of_the_look() -> None:
    spec = spec_of(task("a", 2), policies=[policy("RestartTask", "TaskFailed", timeout="60s")])
    at = "2026-01-01T00:00:05Z"
    statuses = [{"restartCount": 3, "lastState": {"terminated": {"finishedAt": at}}}]
    pods = [pod("a-0", containerStatuses=statuses), pod("a-1")]
    (answer,) = policy_actions(observed(spec, *pods, now_ms=CREATED_MS + 9_000))
    assert answer.due_ms == CREATED_MS + 65_000
    bare = [pod("a-0", containerStatuses=[{"restartCount": 3}])]
    (answer,) = policy_actions(observed(spec, *bare, now_ms=CREATED_MS + 9_000))
    assert answer.due_ms == CREATED_MS + 69_000


@pytest.mark.parametrize(
    ("mine", "of_task", "text"),
    [
        (policy("AbortJob", "PodFailed", timeout="5 min"), False, "timeout is '5 min'; allowed"),
        (policy("ResumeJob", "PodFailed"), False, "ResumeJob acts on suspended jobs only"),
        (policy("RestartPartition", "PodFailed"), True, "needs a task with a partitionPolicy"),
        (policy("RestartPartition", exitCode=3), False, "needs a task with a partitionPolicy"),
        (policy("RestartJob", "JobUpdated"), False, "JobUpdated never happens"),
        (policy("RestartPod", "Unknown"), False, "names no task or pod, which RestartPod needs"),
        (policy("RestartJob", "Unknown"), True, "put the policy into spec.policies"),
        (policy("RestartJob", "Unknown"), False, ""),
        (policy("RestartPod", events=["Unknown", "PodFailed"]), False, ""),
        (policy("RestartTask", "TaskFailed"), True, ""),
        (policy("AbortJob", exitCode=3), True, ""),
    ],
)
def test_policies_that_can_never_act_are_told(mine: Any, of_task: bool, text: str) -> None:
    own = {"policies": [mine]}
    spec = spec_of(task("a", 1, **own)) if of_task else spec_of(task("a", 1), **own)
    told = list(policies_without_effect(spec))
    assert len(told) == bool(text)
    assert all(text in one and "policies[0]" in one for one in told)


def with_cpu(name: str, replicas: int, cpu: str, **more: Any) -> dict[str, Any]:
    made = task(name, replicas, **more)
    made["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def test_the_resources_of_a_gang_follow_priorities_and_minima() -> None:
    low = with_cpu("low", 3, "1")
    high = with_cpu("high", 2, "1500m", pod={"priorityClassName": "urgent"})
    spec = spec_of(low, high, minAvailable=3)
    assert min_resources(spec, {"urgent": 10})["cpu"] == "4"
    assert min_resources(spec, {})["cpu"] == "3"
    part = spec_of(with_cpu("a", 4, "1", minAvailable=1), with_cpu("b", 4, "2", minAvailable=1),
                   minAvailable=3)  # fmt: skip
    assert min_resources(part, {})["requests.cpu"] == "4"
    assert min_resources(part, {})["pods"] == "3"


def test_a_limit_without_a_request_counts_as_one() -> None:
    """So it does in the pods, whose requests the API server fills in."""
    made = task("a", 2)
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    made["template"]["spec"]["containers"][0]["resources"] = resources
    found = min_resources(spec_of(made), {})
    assert (found["cpu"], found["limits.cpu"]) == ("2", "4")
    assert (found["memory"], found["requests.memory"]) == (str(2**31), str(2**31))


def test_a_group_is_patched_only_where_it_differs() -> None:
    made = msgspec.json.decode(
        msgspec.json.encode(job("job", task("a", 2), networkTopology={"mode": "soft"})), type=Job
    )
    spec = with_defaults(made.spec, "volcano")
    body = group_body(made, spec, min_resources(spec, {}))
    assert body["spec"]["networkTopology"] == {"mode": "soft"}
    group = msgspec.json.decode(msgspec.json.encode(body), type=PodGroup)
    assert group_patch(spec, group, min_resources(spec, {})) is None
    assert group.spec.min_resources is not None
    group.spec.min_resources["cpu"] = "2000m"
    assert group_patch(spec, group, min_resources(spec, {})) is None
    # An amount that is too long to be read is compared as text.
    huge = spec_of(task("a", 2, pod={"overhead": {"cpu": "1e60"}}))
    patch = group_patch(huge, group, min_resources(huge, {}))
    assert patch is not None
    group.spec.min_resources |= patch["spec"]["minResources"]
    assert group_patch(huge, group, min_resources(huge, {})) is None
    bigger = spec_of(task("a", 3), task("b", 1))
    patch = group_patch(bigger, group, min_resources(bigger, {}))
    assert patch is not None
    assert patch["spec"]["minMember"] == 4
    assert patch["spec"]["minTaskMember"] == {"a": 3, "b": 1}
    renamed = group_patch(spec_of(task("c", 2)), group, min_resources(spec_of(task("c", 2)), {}))
    assert renamed is not None
    assert renamed["spec"]["minTaskMember"] == {"a": None, "c": 2}


def test_partitions_become_sub_groups() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1,
             "networkTopology": {"highestTierName": "rack"}}  # fmt: skip
    made = msgspec.json.decode(
        msgspec.json.encode(job("job", task("a", 4, partitionPolicy=parts))), type=Job
    )
    spec = with_defaults(made.spec, "volcano")
    body = group_body(made, spec, min_resources(spec, {}))["spec"]
    assert (body["minMember"], body["minTaskMember"]) == (2, {"a": 2})
    assert body["subGroupPolicy"] == [
        {
            "name": "a",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": {"mode": "hard", "highestTierName": "rack"},
        }
    ]

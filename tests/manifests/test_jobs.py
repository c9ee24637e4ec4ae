"""Workloads are written out as their controllers would."""

import io
from typing import Any

import pytest
import yaml

from pumice.manifests import Translation, translate_all

CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1"}}}


def expanded(*documents: dict[str, Any]) -> Translation:
    return translate_all(io.StringIO(yaml.safe_dump_all(documents)), expand_workloads=True)


def job(**spec: Any) -> dict[str, Any]:
    task = {"replicas": 2, "name": "worker", "template": {"spec": {"containers": [CONTAINER]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"tasks": [task], "queue": "blue", **spec},
    }


def test_a_volcano_job_becomes_a_group_and_its_pods() -> None:
    found = expanded(job(minAvailable=1, priorityClassName="high"))
    assert not found.errors
    group, first, second = found.objects
    assert (group.pod_group.name, group.pod_group.namespace) == ("train", "team")
    assert (group.pod_group.min_member, group.pod_group.queue) == (1, "blue")
    assert dict(group.pod_group.min_task_member) == {"worker": 2}
    assert group.pod_group.priority_class_name == "high"
    assert [first.pod.name, second.pod.name] == ["train-worker-0", "train-worker-1"]
    assert first.pod.group_name == "train"
    assert first.pod.spec.scheduler_name == "volcano"
    assert first.pod.spec.requests["cpu"] == 1000


def test_a_job_that_was_applied_has_its_uid_in_the_groups_name() -> None:
    applied = job()
    applied["metadata"]["uid"] = "u-1"
    assert expanded(applied).objects[0].pod_group.name == "train-u-1"


def test_without_a_minimum_all_pods_are_needed() -> None:
    assert expanded(job()).objects[0].pod_group.min_member == 2


def test_partitions_become_gangs_of_their_own() -> None:
    parted = job()
    parted["spec"]["tasks"][0] |= {
        "replicas": 4,
        "partitionPolicy": {"partitionSize": 2, "minPartitions": 1},
    }
    group, *pods = expanded(parted).objects
    (policy,) = group.pod_group.sub_group_policies
    assert (policy.name, policy.sub_group_size, policy.min_sub_groups) == ("worker", 2, 1)
    assert dict(group.pod_group.min_task_member) == {"worker": 2}
    assert [pod.pod.labels["volcano.sh/partition-id"] for pod in pods] == ["0", "0", "1", "1"]


def test_what_a_job_says_of_preemption_reaches_its_pods() -> None:
    held = job()
    held["metadata"]["annotations"] = {"volcano.sh/preemptable": "true", "other": "x"}
    group, pod, _ = expanded(held).objects
    assert pod.pod.preemptable
    assert group.pod_group.preemptable
    assert "other" not in pod.pod.annotations


@pytest.mark.parametrize(
    ("api", "kind", "field"),
    [("batch/v1", "Job", "parallelism"), ("apps/v1", "Deployment", "replicas")],
)
def test_kubernetes_own_workloads_get_a_group_of_one(api: str, kind: str, field: str) -> None:
    template = {"spec": {"containers": [CONTAINER]}}
    workload = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {field: 3, "template": template},
    }
    group, *pods = expanded(workload).objects
    assert (group.pod_group.name, group.pod_group.min_member) == ("podgroup-web", 1)
    assert {pod.pod.group_name for pod in pods} == {"podgroup-web"}
    assert len(pods) == 3


def test_a_pod_without_a_group_gets_one_and_a_bound_pod_does_not() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    pod["spec"] = {"containers": [CONTAINER]}
    group, held = expanded(pod).objects
    assert held.pod.group_name == group.pod_group.name == "podgroup-p"
    bound = {**pod, "spec": {"containers": [CONTAINER], "nodeName": "n1"}}
    (only,) = expanded(bound).objects
    assert not only.pod.group_name


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tasks": []}, "spec.tasks"),
        ({"tasks": "x"}, "spec.tasks"),
        ({"tasks": [7]}, "spec.tasks[0]"),
        ({"tasks": [{"replicas": -1}]}, "spec.tasks[0].replicas"),
        ({"tasks": [{"replicas": 10**9}]}, "spec.tasks[0].replicas"),
        ({"tasks": [{"template": 3}]}, "spec.tasks[0].template"),
        ({"minAvailable": "many"}, "spec.minAvailable"),
    ],
)
def test_what_makes_no_sense_is_named(change: dict[str, Any], field: str) -> None:
    (error,) = expanded(job(**change)).errors
    assert field in str(error)
    assert "train" in str(error)


def test_a_job_without_a_name_is_named_by_its_place() -> None:
    nameless = job()
    del nameless["metadata"]["name"]
    (error,) = expanded(nameless).errors
    assert "metadata.name" in str(error)

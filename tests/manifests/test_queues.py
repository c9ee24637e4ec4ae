"""Queues, priority classes, quotas, namespaces, disruption budgets and workloads."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import group_pb2
from tests.manifests.manifest import VOLCANO, manifest, problem_of, said, translated


def queue(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return manifest(VOLCANO, "Queue", {"spec": spec or {}, "status": status or {}}, **metadata)


def to_queue(document: dict[str, Any]) -> group_pb2.Queue:
    return translated(document).queue


def test_a_queue_with_everything_said() -> None:
    groups = "DuringSchedulingIgnoredDuringExecution"
    found = to_queue(
        queue(
            {
                "weight": 3,
                "priority": 7,
                "parent": "root",
                "reclaimable": False,
                "capability": {"cpu": "8", "deviceclass/gpu": "2"},
                "deserved": {"memory": "1Gi"},
                "guarantee": {"resource": {"cpu": "1"}},
                "affinity": {
                    "nodeGroupAffinity": {f"required{groups}": ["a"], f"preferred{groups}": ["b"]},
                    "nodeGroupAntiAffinity": {
                        f"required{groups}": ["c"],
                        f"preferred{groups}": ["d"],
                    },
                },
            },
            {"state": "Closing", "allocated": {"cpu": "2", "pods": "3"}},
            uid="u",
            creationTimestamp="1970-01-01T00:00:01Z",
            annotations={"volcano.sh/hierarchy": "root/a"},
        )
    )
    assert (found.uid, found.name, found.creation_time.ToNanoseconds()) == ("u", "x", 10**9)
    assert (found.weight, found.priority, found.parent) == (3, 7, "root")
    assert found.HasField("reclaimable")
    assert not found.reclaimable
    assert dict(found.capability.amounts) == {"cpu": 8000, "deviceclass/gpu": 2000}
    assert dict(found.deserved.amounts) == {"memory": 2**30}
    assert dict(found.guarantee.amounts) == {"cpu": 1000}
    assert found.affinity == group_pb2.NodeGroupAffinity(
        required=["a"], preferred=["b"], anti_required=["c"], anti_preferred=["d"]
    )
    assert found.state == group_pb2.QUEUE_STATE_CLOSING
    assert dict(found.allocated) == {"cpu": 2000, "pods": 3}
    assert dict(found.annotations) == {"volcano.sh/hierarchy": "root/a"}


def test_absent_is_not_the_same_as_empty() -> None:
    nothing = to_queue(queue())
    empty = to_queue(queue({"capability": {}, "deserved": {}, "guarantee": {"resource": {}},
                            "affinity": {}, "reclaimable": True}))  # fmt: skip
    for field in ("capability", "deserved", "guarantee", "affinity", "reclaimable"):
        assert not nothing.HasField(field)
        assert empty.HasField(field)
    assert not nothing.HasField("weight")
    assert not to_queue(queue({"guarantee": {}})).HasField("guarantee")


def test_a_weight_of_zero_is_one() -> None:
    assert to_queue(queue({"weight": 0})).weight == 1


@pytest.mark.parametrize(
    "api_version", ["scheduling.incubator.k8s.io/v1alpha1", "scheduling.sigs.dev/v1alpha2"]
)
def test_queues_of_kube_batch_are_queues(api_version: str) -> None:
    document = {**queue({"weight": 2}), "apiVersion": api_version}
    assert to_queue(document).weight == 2


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (queue({"weight": 70000}), "Queue x: spec.weight: 70000 given; allowed: 1 to 65535"),
        (queue({"deserved": {"cpu": "-1"}}),
         "Queue x: spec.deserved[cpu]: -1 is negative; allowed: zero or more"),
        (queue(status={"state": "Ajar"}),
         "Queue x: status.state: 'Ajar' is unknown; allowed: Open, Closed, Closing, Unknown"),
        (queue({"reclaimable": "no"}),
         "Queue x: spec.reclaimable: expected bool | null, got str"),
    ],
)  # fmt: skip
def test_bad_queues_are_set_aside_with_one_line(document: dict[str, Any], problem: str) -> None:
    assert problem_of(document) == problem


def test_priority_classes() -> None:
    body = {"value": -7, "globalDefault": True}
    found = translated(manifest("scheduling.k8s.io/v1", "PriorityClass", body)).priority_class
    assert (found.name, found.value, found.global_default) == ("x", -7, True)


def test_quotas_are_what_their_status_says() -> None:
    body = {
        "spec": {"hard": {"pods": "99"}},
        "status": {
            "hard": {"requests.cpu": "4", "requests.memory": "1Gi", "count/pods": "5"},
            "used": {"requests.cpu": "1500m"},
        },
    }
    found = translated(manifest("v1", "ResourceQuota", body, namespace="a")).resource_quota
    assert (found.namespace, found.name) == ("a", "x")
    assert dict(found.hard_milli) == {
        "requests.cpu": 4000,
        "requests.memory": 2**30 * 1000,
        "count/pods": 5000,
    }
    assert dict(found.used_milli) == {"requests.cpu": 1500}


def test_namespaces_carry_their_own_name_as_a_label() -> None:
    found = translated(manifest("v1", "Namespace", labels={"team": "red"})).namespace
    assert dict(found.labels) == {"team": "red", "kubernetes.io/metadata.name": "x"}
    assert found.uid == "Namespace/x"


def budget(spec: dict[str, Any], **metadata: Any) -> group_pb2.PodDisruptionBudget:
    body = {"spec": spec, "status": {"disruptionsAllowed": 2, "disruptedPods": {"b": "t", "a": 1}}}
    document = manifest("policy/v1", "PodDisruptionBudget", body, **metadata)
    return translated(document).pod_disruption_budget


def test_disruption_budgets() -> None:
    owner = {"uid": "o", "kind": "Job", "name": "j", "controller": True}
    found = budget(
        {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 3}, ownerReferences=[owner]
    )
    assert said(found.selector) == ["a in 1"]
    assert (found.disruptions_allowed, found.min_available) == (2, 3)
    assert list(found.disrupted_pods) == ["a", "b"]
    assert found.controller_uid == "o"
    assert budget({"selector": {}}).HasField("selector")
    assert not budget({}).HasField("selector")
    assert budget({"minAvailable": "50%"}).min_available == 0


@pytest.mark.parametrize(
    ("api_version", "kind", "field", "selector", "expected"),
    [
        ("v1", "Service", "service", {"b": "2", "a": "1"}, ["a in 1", "b in 2"]),
        ("v1", "ReplicationController", "replication_controller", {"a": "1"}, ["a in 1"]),
        ("apps/v1", "ReplicaSet", "replica_set", {"matchLabels": {"a": "1"}}, ["a in 1"]),
        ("apps/v1", "StatefulSet", "stateful_set",
         {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, ["a exists"]),
    ],
)  # fmt: skip
def test_workloads(
    api_version: str, kind: str, field: str, selector: dict[str, Any], expected: list[str]
) -> None:
    document = manifest(api_version, kind, {"spec": {"selector": selector}}, namespace="a")
    found = translated(document)
    assert found.WhichOneof("object") == field
    workload: group_pb2.Workload = getattr(found, field)
    assert (workload.namespace, workload.name, workload.uid) == ("a", "x", f"{kind}/a/x")
    assert said(workload.selector) == expected
    without = translated(manifest(api_version, kind, {"spec": {}}))
    assert not getattr(without, field).HasField("selector")

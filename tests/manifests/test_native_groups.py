"""PodGroups of Kubernetes itself become jobs."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.manifests import ManifestError, translate
from pumice.v1.group_pb2 import (
    POD_GROUP_PHASE_RUNNING,
    POD_GROUP_PHASE_UNSPECIFIED,
    PodGroup,
)


def group(status: dict[str, Any] | None = None, **spec: Any) -> PodGroup:
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "ns",
            "uid": "u",
            "annotations": {"scheduling.volcano.sh/queue-name": "research"},
        },
        "spec": spec,
        "status": status or {},
    }
    found = translate(body)
    assert found is not None
    return found.pod_group


def test_a_gang_has_its_minimum_queue_and_priority() -> None:
    made = group(schedulingPolicy={"gang": {"minCount": 4}}, priorityClassName="high")
    assert (made.min_member, made.queue, made.priority_class_name) == (4, "research", "high")
    other = group(schedulingPolicy={"gang": {"minCount": 5}}, priorityClassName="high")
    assert made.spec_hash != other.spec_hash


def test_a_topology_is_a_label_of_nodes() -> None:
    made = group(schedulingConstraints={"topology": [{"key": "rack"}]})
    assert made.topology_key == "rack"
    assert made.spec_hash != group().spec_hash
    assert group(schedulingConstraints={}).topology_key == ""


def test_pods_of_a_group_without_a_gang_start_each_by_itself() -> None:
    assert group(schedulingPolicy={"basic": {}}).min_member == 1


@pytest.mark.parametrize(
    ("word", "phase"),
    [("True", POD_GROUP_PHASE_RUNNING), ("False", POD_GROUP_PHASE_UNSPECIFIED)],
)
def test_the_condition_tells_the_phase(word: str, phase: int) -> None:
    condition = {"type": "PodGroupScheduled", "status": word, "reason": "R", "message": "m"}
    assert group({"conditions": [condition]}).status.phase == phase


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            {"schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "row"}]}},
            "schedulingConstraints",
        ),
        ({"resourceClaims": [{"name": "c", "resourceClaimName": "d"}]}, "resourceClaims"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(ManifestError, match=field):
        group(**spec)


@pytest.mark.parametrize(
    ("annotated", "name"), [({}, "g"), ({"scheduling.k8s.io/group-name": "v"}, "v")]
)
def test_a_pod_names_its_group_and_an_annotation_comes_first(
    annotated: dict[str, str], name: str
) -> None:
    found = translate(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": annotated},
            "spec": {
                "containers": [{"name": "main"}],
                "schedulingGroup": {"podGroupName": "g"},
            },
        }
    )
    assert found is not None
    assert found.pod.group_name == name

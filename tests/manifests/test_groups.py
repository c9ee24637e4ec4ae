"""PodGroups of Volcano and of kube-batch."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.v1 import condition_pb2, group_pb2
from tests.manifests.manifest import VOLCANO, manifest, problem_of, said, to_group

HOUR = 3600 * 10**9


def group(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    body = {"spec": spec or {}, "status": status or {}}
    return manifest(VOLCANO, "PodGroup", body, **{"namespace": "a", **metadata})


def test_a_group_with_everything_said() -> None:
    found = to_group(
        group(
            {
                "minMember": 3,
                "minTaskMember": {"ps": 1, "worker": 2},
                "queue": "q",
                "priorityClassName": "high",
                "minResources": {"cpu": "2500m", "memory": "1Gi", "requests.cpu": "3"},
                "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
                "subGroupPolicy": [
                    {
                        "name": "pp",
                        "subGroupSize": 4,
                        "minSubGroups": 2,
                        "matchLabelKeys": ["rank"],
                        "labelSelector": {"matchLabels": {"r": "w"}},
                        "networkTopology": {"highestTierName": "rack"},
                    },
                    {"name": "rest"},
                ],
            },
            {
                "phase": "Inqueue",
                "running": 1,
                "succeeded": 2,
                "failed": 3,
                "conditions": [
                    {
                        "type": "Unschedulable",
                        "status": "True",
                        "reason": "NotEnoughResources",
                        "message": "no",
                        "transitionID": "s-1",
                        "lastTransitionTime": "1970-01-01T00:00:02Z",
                    }
                ],
            },
            uid="u",
            creationTimestamp="1970-01-01T00:00:01Z",
            labels={"l": "1"},
            annotations={"any": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        )
    )
    assert (found.uid, found.namespace, found.name) == ("u", "a", "x")
    assert found.creation_time.ToNanoseconds() == 10**9
    assert (found.min_member, found.queue, found.priority_class_name) == (3, "q", "high")
    assert dict(found.min_task_member) == {"ps": 1, "worker": 2}
    assert dict(found.min_resources.amounts) == {"cpu": 2500, "memory": 2**30}
    assert dict(found.min_resources_milli) == {
        "cpu": 2500,
        "memory": 2**30 * 1000,
        "requests.cpu": 3000,
    }
    assert found.network_topology == group_pb2.NetworkTopology(hard=False, highest_tier=2)
    first, second = found.sub_group_policies
    assert (first.name, first.sub_group_size, first.min_sub_groups) == ("pp", 4, 2)
    assert list(first.match_label_keys) == ["rank"]
    assert said(first.selector) == ["r in w"]
    assert first.network_topology == group_pb2.NetworkTopology(hard=True, highest_tier_name="rack")
    assert second == group_pb2.SubGroupPolicy(name="rest")
    assert found.status == group_pb2.PodGroupStatus(
        phase=group_pb2.POD_GROUP_PHASE_INQUEUE,
        running=1,
        succeeded=2,
        failed=3,
        conditions=[
            group_pb2.PodGroupCondition(
                type="Unschedulable",
                status=condition_pb2.CONDITION_STATUS_TRUE,
                reason="NotEnoughResources",
                message="no",
                transition_id="s-1",
                transition_time=Timestamp(seconds=2),
            )
        ],
    )
    assert dict(found.annotations) == {"any": "1"}
    assert dict(found.labels) == {"l": "1"}


def test_a_group_with_nothing_said() -> None:
    found = to_group(group())
    assert (found.queue, found.min_member, found.preemptable) == ("", 0, False)
    for field in ("min_resources", "network_topology", "sla_waiting_time"):
        assert not found.HasField(field)
    assert found.status.phase == group_pb2.POD_GROUP_PHASE_UNSPECIFIED


def test_an_empty_list_of_resources_is_not_the_same_as_none() -> None:
    assert to_group(group({"minResources": {}})).HasField("min_resources")


@pytest.mark.parametrize(
    "api_version",
    [
        "scheduling.volcano.sh/v1beta1",
        "scheduling.incubator.k8s.io/v1alpha1",
        "scheduling.sigs.dev/v1alpha2",
    ],
)
def test_groups_of_kube_batch_are_groups(api_version: str) -> None:
    document = group({"minMember": 2, "queue": "q"}, {"phase": "Running"})
    found = to_group({**document, "apiVersion": api_version})
    assert (found.min_member, found.queue) == (2, "q")
    assert found.status.phase == group_pb2.POD_GROUP_PHASE_RUNNING


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable", "zone"),
    [
        ({}, {}, False, ""),
        ({"volcano.sh/preemptable": "true"}, {}, True, "*"),
        ({"volcano.sh/preemptable": "maybe"}, {}, False, ""),
        ({}, {"volcano.sh/preemptable": "true"}, True, ""),
        ({"volcano.sh/revocable-zone": "*"}, {}, False, "*"),
        ({"volcano.sh/revocable-zone": "rz1", "volcano.sh/preemptable": "true"}, {}, True, ""),
    ],
)
def test_preemptable_and_revocable_zone(
    annotations: dict[str, str], labels: dict[str, str], preemptable: bool, zone: str
) -> None:
    found = to_group(group(annotations=annotations, labels=labels))
    assert (found.preemptable, found.revocable_zone) == (preemptable, zone)


@pytest.mark.parametrize(
    ("annotations", "nanoseconds"),
    [
        ({"volcano.sh/sla-waiting-time": "1h"}, HOUR),
        ({"sla-waiting-time": "1000000h"}, 1_000_000 * HOUR),
        ({"volcano.sh/sla-waiting-time": "1h", "sla-waiting-time": "2h"}, HOUR),
        ({"volcano.sh/sla-waiting-time": "soon", "sla-waiting-time": "2h"}, 2 * HOUR),
        ({"volcano.sh/sla-waiting-time": "0", "sla-waiting-time": "2h"}, 2 * HOUR),
        ({"volcano.sh/sla-waiting-time": "-1h"}, None),
        ({"volcano.sh/sla-waiting-time": ""}, None),
        ({}, None),
    ],
)
def test_waiting_time(annotations: dict[str, str], nanoseconds: int | None) -> None:
    found = to_group(group(annotations=annotations))
    read = found.sla_waiting_time.ToNanoseconds() if found.HasField("sla_waiting_time") else None
    assert read == nanoseconds


SPEC = {"minMember": 2, "minTaskMember": {"a": 1, "b": 1}, "minResources": {"cpu": 1}}


@pytest.mark.parametrize(
    "other",
    [
        group({**SPEC, "minMember": 3}),
        group({**SPEC, "minTaskMember": {"a": 2, "b": 1}}),
        group({**SPEC, "queue": "q"}),
        group({**SPEC, "priorityClassName": "high"}),
        group({**SPEC, "minResources": {"cpu": 2}}),
        group({**SPEC, "networkTopology": {"mode": "soft"}}),
        group({**SPEC, "subGroupPolicy": [{"name": "s"}]}),
        group(SPEC, annotations={"volcano.sh/preemptable": "true"}),
        group(SPEC, labels={"volcano.sh/preemptable": "true"}),
        group(SPEC, annotations={"sla-waiting-time": "1h"}),
        group(SPEC, annotations={"volcano.sh/jdb-min-available": "1"}),
    ],
)
def test_the_hash_changes_with_what_scheduling_reads(other: dict[str, Any]) -> None:
    assert to_group(other).spec_hash != to_group(group(SPEC)).spec_hash


@pytest.mark.parametrize(
    "other",
    [
        group(SPEC, {"phase": "Running", "running": 2}),
        group(SPEC, resourceVersion="7", generation=3),
        group(SPEC, labels={"app": "x"}),
        group(SPEC, annotations={"note": "x"}),
        group(SPEC, annotations={"volcano.sh/job-allocated-hypernode": "h1"}),
        group({**SPEC, "minTaskMember": {"b": 1, "a": 1}}),
        group({**SPEC, "minResources": {"cpu": "1000m"}}),
    ],
)
def test_the_hash_does_not_change_with_anything_else(other: dict[str, Any]) -> None:
    assert to_group(other).spec_hash == to_group(group(SPEC)).spec_hash != ""


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (group({"minMember": -1}), "PodGroup a/x: spec.minMember: expected int >= 0"),
        (group({"minMember": "3"}), "PodGroup a/x: spec.minMember: expected int, got str"),
        (group({"minResources": {"cpu": "-1"}}),
         "PodGroup a/x: spec.minResources[cpu]: -1 is negative; allowed: zero or more"),
        (group({"networkTopology": {"mode": "firm"}}),
         "PodGroup a/x: spec.networkTopology.mode: 'firm' is unknown; allowed: hard, soft"),
        (group(status={"phase": "Done"}),
         "PodGroup a/x: status.phase: 'Done' is unknown; "
         "allowed: Pending, Inqueue, Running, Unknown, Completed"),
    ],
)  # fmt: skip
def test_bad_groups_are_set_aside_with_one_line(document: dict[str, Any], problem: str) -> None:
    assert problem_of(document) == problem

"""Pods: everything but what they ask for."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.v1 import condition_pb2, pod_pb2, topology_pb2
from pumice.v1.pod_pb2 import PortProtocol
from tests.manifests.manifest import container, pod, problem_of, to_pod, to_spec


def test_a_pod_says_who_and_where_it_is() -> None:
    found = to_pod(
        pod(
            {
                "nodeName": "n1",
                "schedulerName": "volcano",
                "priority": 10,
                "priorityClassName": "high",
                "preemptionPolicy": "Never",
                "schedulingGates": [{"name": "wait"}],
            },
            {
                "phase": "Running",
                "startTime": "2026-01-01T00:00:10Z",
                "nominatedNodeName": "n2",
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no",
                        "lastTransitionTime": "2026-01-01T00:00:09Z",
                    },
                ],
            },
            name="web-0",
            namespace="shop",
            uid="abc",
            creationTimestamp="2026-01-01T00:00:08Z",
            deletionTimestamp="2026-01-01T00:00:30Z",
            labels={"app": "x"},
            ownerReferences=[
                {"kind": "Other", "name": "o", "uid": "1"},
                {"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True},
            ],
        )
    )
    second = 1767225600 * 10**9
    assert (found.uid, found.namespace, found.name) == ("abc", "shop", "web-0")
    assert found.creation_time.ToNanoseconds() == second + 8 * 10**9
    assert found.start_time.ToNanoseconds() == second + 10 * 10**9
    assert found.terminating
    assert (found.node_name, found.nominated_node_name) == ("n1", "n2")
    assert dict(found.labels) == {"app": "x"}
    assert (found.controller_kind, found.controller_name, found.controller_uid) == (
        "ReplicaSet",
        "web",
        "2",
    )
    assert list(found.conditions) == [
        pod_pb2.PodCondition(
            type="PodScheduled",
            status=condition_pb2.CONDITION_STATUS_FALSE,
            reason="Unschedulable",
            message="no",
            transition_time=Timestamp(seconds=1767225609),
        )
    ]
    assert found.priority == 10
    assert found.spec.scheduler_name == "volcano"
    assert found.spec.priority_class_name == "high"
    assert found.spec.never_preempts
    assert list(found.spec.scheduling_gates) == ["wait"]


def test_a_pod_that_was_never_in_a_cluster_is_known_by_its_name() -> None:
    found = to_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                    "spec": {"containers": [{"name": "c"}]}})  # fmt: skip
    assert (found.namespace, found.name, found.uid) == ("default", "p", "Pod/default/p")
    assert not found.terminating
    assert not found.HasField("creation_time")


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("", pod_pb2.POD_PHASE_UNSPECIFIED),
        ("Pending", pod_pb2.POD_PHASE_PENDING),
        ("Running", pod_pb2.POD_PHASE_RUNNING),
        ("Succeeded", pod_pb2.POD_PHASE_SUCCEEDED),
        ("Failed", pod_pb2.POD_PHASE_FAILED),
        ("Unknown", pod_pb2.POD_PHASE_UNKNOWN),
        ("Napping", pod_pb2.POD_PHASE_UNKNOWN),
    ],
)
def test_phases(phase: str, expected: int) -> None:
    assert to_pod(pod(status={"phase": phase})).phase == expected


@pytest.mark.parametrize(
    ("annotations", "labels", "group", "role"),
    [
        ({"scheduling.k8s.io/group-name": "g"}, {}, "g", ""),
        ({"scheduling.volcano.sh/group-name": "g"}, {}, "", ""),
        ({"volcano.sh/task-spec": "ps"}, {"volcano.sh/task-spec": "worker"}, "", "ps"),
        ({"volcano.sh/task-spec": ""}, {"volcano.sh/task-spec": "worker"}, "", "worker"),
        ({}, {"volcano.sh/task-spec": "worker"}, "", "worker"),
    ],
)
def test_job_and_role(
    annotations: dict[str, str], labels: dict[str, str], group: str, role: str
) -> None:
    found = to_pod(pod(annotations=annotations, labels=labels))
    assert (found.group_name, found.role) == (group, role)


KEY = "volcano.sh/preemptable"
ZONE = "volcano.sh/revocable-zone"


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable", "zone"),
    [
        ({}, {}, True, ""),
        ({KEY: "true"}, {}, True, "*"),
        ({KEY: "T"}, {}, True, "*"),
        ({KEY: "false"}, {}, False, ""),
        ({KEY: "yes"}, {}, False, ""),
        ({KEY: "yes"}, {KEY: "true"}, False, ""),
        ({}, {KEY: "false"}, False, ""),
        # The label alone does not open revocable zones.
        ({}, {KEY: "true"}, True, ""),
        ({ZONE: "*"}, {}, True, "*"),
        ({ZONE: "rz1"}, {}, True, ""),
        ({ZONE: "rz1", KEY: "true"}, {}, True, ""),
        ({ZONE: "*", KEY: "false"}, {}, False, "*"),
    ],
)
def test_preemptable_and_revocable_zone(
    annotations: dict[str, str], labels: dict[str, str], preemptable: bool, zone: str
) -> None:
    found = to_pod(pod(annotations=annotations, labels=labels))
    assert (found.preemptable, found.revocable_zone) == (preemptable, zone)
    assert found.HasField("preemptable")


@pytest.mark.parametrize(
    ("priority", "annotation", "task_priority"),
    [
        (None, None, 1),
        (0, None, 0),
        (-5, None, -5),
        (7, "9", 9),
        (7, "-9", -9),
        (7, "high", 7),
        (7, "2147483648", 7),
        (None, "", 1),
    ],
)
def test_task_priority(priority: int | None, annotation: str | None, task_priority: int) -> None:
    spec = {} if priority is None else {"priority": priority}
    annotations = {} if annotation is None else {"volcano.sh/task-priority": annotation}
    found = to_pod(pod(spec, annotations=annotations))
    assert found.HasField("task_priority")
    assert (found.task_priority, found.priority) == (task_priority, priority or 0)


def test_only_annotations_that_matter_to_scheduling_travel() -> None:
    kept = {
        "volcano.sh/cooldown-time": "10m",
        "scheduling.volcano.sh/queue-allocation-gate": "true",
        "scheduling.k8s.io/group-name": "g",
        "nvidia.com/use-gputype": "A100",
        "hami.io/vgpu-node": "n",
        "pumice.example/hint": "x",
    }
    dropped = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "cni.projectcalico.org/podIP": "10.0.0.1",
        "note": "secret",
        "example.com/volcano.sh": "x",
    }
    assert dict(to_pod(pod(annotations={**kept, **dropped})).annotations) == kept


@pytest.mark.parametrize(
    ("image", "with_tag"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("host:5000/busybox", "host:5000/busybox:latest"),
        ("host:5000/busybox:1", "host:5000/busybox:1"),
        ("busybox@sha256:abc", "busybox@sha256:abc"),
    ],
)
def test_images_have_a_tag_or_a_digest(image: str, with_tag: str) -> None:
    assert list(to_spec({"containers": [container(image=image)]}).images) == [with_tag]


def test_images_of_init_containers_containers_and_volumes() -> None:
    found = to_spec(
        {
            "containers": [container(image="a:1"), container(image="a:1")],
            "initContainers": [container(image="b:1")],
            "volumes": [{"name": "v", "image": {"reference": "c"}}],
        }
    )
    assert list(found.images) == ["b:1", "a:1", "a:1", "c:latest"]
    assert found.container_count == 3


def ports_of(spec: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (PortProtocol.Name(port.protocol)[14:], port.ip, port.port)
        for port in to_spec(spec).host_ports
    ]


def test_host_ports_of_containers_and_sidecars() -> None:
    spec = {
        "containers": [
            container(ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]),
            container(ports=[{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]),
        ],
        "initContainers": [
            container(ports=[{"hostPort": 1}]),
            container(ports=[{"hostPort": 2}], restartPolicy="Always"),
        ],
    }
    assert ports_of(spec) == [
        ("TCP", "0.0.0.0", 8080),
        ("UDP", "10.0.0.1", 53),
        ("TCP", "0.0.0.0", 2),
    ]


def test_on_the_network_of_the_node_every_port_is_the_nodes() -> None:
    spec = {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}
    assert ports_of(spec) == [("TCP", "0.0.0.0", 80)]


def test_volumes_with_a_claim_behind_them() -> None:
    found = to_spec(
        {
            "volumes": [
                {"name": "token", "projected": {"sources": []}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            ]
        },
        name="web-0",
    )
    assert [(one.claim_name, one.ephemeral) for one in found.volumes] == [
        ("c", False),
        ("web-0-tmp", True),
    ]


def test_device_claims_are_named_once_they_exist() -> None:
    found = to_pod(
        pod(
            {
                "resourceClaims": [
                    {"name": "shared", "resourceClaimName": "claim-1"},
                    {"name": "made", "resourceClaimTemplateName": "t"},
                    {"name": "waiting", "resourceClaimTemplateName": "t"},
                    {"name": "needless", "resourceClaimTemplateName": "t"},
                ]
            },
            {
                "resourceClaimStatuses": [
                    {"name": "made", "resourceClaimName": "p-made-x"},
                    {"name": "needless"},
                ]
            },
        )
    )
    assert [(one.name, one.claim_name) for one in found.spec.resource_claims] == [
        ("shared", "claim-1"),
        ("made", "p-made-x"),
        ("waiting", ""),
    ]


def test_numa_policy_and_node_selector() -> None:
    found = to_spec(
        {"nodeSelector": {"disk": "ssd"}},
        annotations={"volcano.sh/numa-topology-policy": "restricted"},
    )
    assert found.numa_policy == topology_pb2.TOPOLOGY_POLICY_RESTRICTED
    assert dict(found.node_selector) == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (pod({"containers": []}),
         "Pod a/p: spec.containers: is missing; allowed: at least one container"),
        (pod(name=""), "Pod: metadata.name: is missing"),
        (pod(creationTimestamp="yesterday"),
         "Pod a/p: metadata.creationTimestamp: 'yesterday' is not a time; "
         "allowed: RFC 3339, such as 2026-01-31T12:00:00Z"),
        (pod({"priority": "high"}), "Pod a/p: spec.priority: expected int | null, got str"),
        (pod({"priority": 2**31}), "Pod a/p: spec.priority: expected int <= 2147483647"),
        (pod({"containers": [container(ports=[{"hostPort": 70000}])]}),
         "Pod a/p: spec.containers[0].ports[0].hostPort: 70000 given; allowed: 1 to 65535"),
        (pod({"containers": [container(ports=[{"hostPort": 1, "protocol": "ICMP"}])]}),
         "Pod a/p: spec.containers[0].ports[0].protocol: 'ICMP' is unknown; "
         "allowed: TCP, UDP, SCTP"),
        (pod({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}),
         "Pod a/p: spec.volumes[0].persistentVolumeClaim.claimName: is missing"),
        (pod({"nodeSelector": {"a": 1}}),
         "Pod a/p: spec.nodeSelector[...]: expected str, got int"),
        (pod({"overhead": {"cpu": "lots"}}),
         "Pod a/p: spec.overhead[cpu]: 'lots' is not a quantity; allowed: a number with an "
         "optional suffix n u m k M G T P E Ki Mi Gi Ti Pi Ei or exponent such as e3"),
        (pod(labels={"a": 5}), "Pod a/p: metadata.labels[...]: expected str, got int"),
    ],
)  # fmt: skip
def test_bad_pods_are_set_aside_with_one_line(document: dict[str, Any], problem: str) -> None:
    assert problem_of(document) == problem

"""Kubernetes objects for tests, with no more in them than they need."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object

NAMESPACE = "team"
_VOLCANO = "scheduling.volcano.sh/v1beta1"
GROUP_NAME = "scheduling.k8s.io/group-name"


def node_body(name: str, cpu: str = "4") -> Object:
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def queue_body(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": _VOLCANO,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
    }


def pod_group_body(name: str, minimum: int, queue: str = "default", priority: str = "") -> Object:
    spec: dict[str, Any] = {"minMember": minimum, "queue": queue}
    if priority:
        spec["priorityClassName"] = priority
    return {
        "apiVersion": _VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def pod_body(job: str, number: int, cpu: str = "1", priority: str = "", **spec: Any) -> Object:
    container = {
        "name": "main",
        "image": "work",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    more: dict[str, Any] = {"priorityClassName": priority} if priority else {}
    annotations = {GROUP_NAME: job, "volcano.sh/preemptable": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job}-{number}",
            "namespace": NAMESPACE,
            "labels": {"job": job},
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **more,
            **spec,
        },
    }

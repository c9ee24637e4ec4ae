"""Kubernetes objects for tests."""

from typing import Any

from pumice.v1.decision_pb2 import Bind
from tests.adapters.kubernetes.fake_api import FakeApi

PODGROUPS = "podgroups.scheduling.volcano.sh"
QUEUES = "queues.scheduling.volcano.sh"


def pod(
    name: str, *, node: str = "", scheduler: str = "volcano", group: str = "g", **metadata: Any
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    }
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "annotations": {"scheduling.k8s.io/group-name": group},
            **metadata,
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}},
    }


def group(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name, **metadata},
        "spec": {"minMember": 1, "queue": "default"},
    }


def queue(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"weight": 1}}


def claim(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name, "annotations": annotations},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    }


def volume(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"},
    }


def order(uid: str, node: str = "n1", **fields: Any) -> Bind:
    return Bind(namespace="ns", name="p", uid=uid, node=node, **fields)


def put_pod(api: FakeApi, **fields: Any) -> str:
    uid: str = api.put("pods", pod("p", **fields))["metadata"]["uid"]
    return uid

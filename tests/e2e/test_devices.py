"""Pods whose ResourceClaims get devices with the bind."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"
CLAIMS = f"/apis/{API}/namespaces/{NAMESPACE}/resourceclaims"
FINALIZER = "resource.kubernetes.io/delete-protection"


def class_body() -> Object:
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}],
        },
    }


def slice_body(node: str, *models: str) -> Object:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}},
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for number, model in enumerate(models)
    ]
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def claim_body(name: str, model: str) -> Object:
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
    }
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "req", "exactly": exactly}]}},
    }


def uses(claim: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "dev", "resourceClaimName": claim}]}


async def test_claims_are_allocated_and_reserved_before_their_pods_are_bound(
    cluster: Cluster,
) -> None:
    nodes = await cluster.add_nodes(2)
    for body in (class_body(), slice_body(nodes[0], "t4"), slice_body(nodes[1], "t4", "a100")):
        await cluster.client.create(body)
    await cluster.client.create(pod_group_body("train", 2))
    for number, model in enumerate(("a100", "t4")):
        await cluster.client.create(claim_body(f"claim-{number}", model))
        await cluster.client.create(pod_body("train", number, **uses(f"claim-{number}")))
    cluster.run_scheduler()
    placed = await cluster.until_placed({"train": 2})
    assert placed["train-0"] == nodes[1]
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await cluster.pods()}
    for number in range(2):
        claim = await cluster.client.get(f"{CLAIMS}/claim-{number}")
        name = f"train-{number}"
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": name, "uid": pods[name]}
        ]
        allocation = claim["status"]["allocation"]
        [result] = allocation["devices"]["results"]
        assert (result["request"], result["driver"]) == ("req", DRIVER)
        assert result["pool"] == placed[name]
        [config] = allocation["devices"]["config"]
        assert (config["source"], config["requests"]) == ("FromClass", ["req"])
        assert config["opaque"]["parameters"] == {"mode": "fast"}
        [term] = allocation["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"][0]["values"] == [placed[name]]
        assert FINALIZER in claim["metadata"]["finalizers"]
    # Only one device has this model.
    await cluster.client.create(claim_body("too-many", "a100"))
    await cluster.client.create(pod_group_body("late", 1))
    await cluster.client.create(pod_body("late", 0, **uses("too-many")))
    await cluster.until_waiting("late")
    waiting = await cluster.client.get(f"{CLAIMS}/too-many")
    assert "allocation" not in waiting.get("status", {})

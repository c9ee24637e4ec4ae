"""Pods whose ResourceClaims get devices with the bind."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tests.controlplane.client import Object
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"
CLAIMS = f"/apis/{API}/namespaces/{NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
FINALIZER = "resource.kubernetes.io/delete-protection"


def class_body(resource: str = "") -> Object:
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}],
            **({"extendedResourceName": resource} if resource else {}),
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


RESOURCE = "example.com/gpu"


def asks_for(count: int, resource: str = RESOURCE) -> dict[str, Any]:
    limits = {"limits": {resource: str(count)}}
    return {"containers": [{"name": "main", "image": "x", "resources": limits}]}


async def claims_of(cluster: Cluster) -> dict[str, Object]:
    """Claims by the pods that own them."""
    found = await cluster.client.get(CLAIMS)
    return {claim["metadata"]["ownerReferences"][0]["name"]: claim for claim in found["items"]}


async def test_extended_resources_get_devices_through_claims_of_the_scheduler(
    cluster: Cluster,
) -> None:
    nodes = await cluster.add_nodes(2)
    for body in (class_body(RESOURCE), *(slice_body(node, "t4", "t4") for node in nodes)):
        await cluster.client.create(body)
    await cluster.client.create(pod_group_body("train", 2))
    await cluster.client.create(pod_body("train", 0, **asks_for(2)))
    implicit = "deviceclass.resource.kubernetes.io/gpu"
    await cluster.client.create(pod_body("train", 1, **asks_for(1, implicit)))
    cluster.run_scheduler()
    placed = await cluster.until_placed({"train": 2})
    assert set(placed.values()) == set(nodes)
    pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
    claims = await claims_of(cluster)
    for name, count in (("train-0", 2), ("train-1", 1)):
        claim = claims[name]
        annotations = claim["metadata"]["annotations"]
        assert annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
        [owner] = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"]) == ("Pod", True)
        [request] = claim["spec"]["devices"]["requests"]
        assert request["exactly"]["count"] == count
        results = claim["status"]["allocation"]["devices"]["results"]
        assert {held["pool"] for held in results} == {placed[name]}
        assert len(results) == count
        status = pods[name]["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
        [mapping] = status["requestMappings"]
        assert (mapping["containerName"], mapping["requestName"]) == ("main", request["name"])
    # One device is left; two come back with the pod that had them.
    await cluster.client.create(pod_group_body("late", 1))
    await cluster.client.create(pod_body("late", 0, **asks_for(2)))
    await cluster.until_waiting("late")
    assert set(await claims_of(cluster)) == {"train-0", "train-1"}
    await cluster.client.delete(f"{PODS}/train-0", grace_seconds=0)
    await give_up(cluster, claims["train-0"])
    assert (await cluster.until_placed({"late": 1}))["late-0"] == placed["train-0"]


async def give_up(cluster: Cluster, claim: Object) -> None:
    """Does what Kubernetes' controllers do to a claim whose pod is gone."""
    path = f"{CLAIMS}/{claim['metadata']['name']}"
    await cluster.client.merge(
        f"{path}/status", {"status": {"allocation": None, "reservedFor": None}}
    )
    await cluster.client.merge(path, {"metadata": {"finalizers": None}})
    await cluster.client.delete(path)


async def test_a_claim_that_an_adapter_left_when_it_ended_is_replaced(cluster: Cluster) -> None:
    [node] = await cluster.add_nodes(1)
    for body in (
        class_body(RESOURCE),
        slice_body(node, "t4", "t4", "t4"),
        pod_group_body("train", 1),
    ):
        await cluster.client.create(body)
    pod = await cluster.client.create(pod_body("train", 0, **asks_for(2)))
    left = await leave_claim(cluster, pod, node)
    cluster.run_scheduler()
    await cluster.until_placed({"train": 1})
    claim = (await claims_of(cluster))["train-0"]
    assert claim["metadata"]["uid"] != left["metadata"]["uid"]
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    status = (await cluster.client.get(f"{PODS}/train-0"))["status"]
    [mapping] = status["extendedResourceClaimStatus"]["requestMappings"]
    assert mapping["requestName"] == claim["spec"]["devices"]["requests"][0]["name"]


async def leave_claim(cluster: Cluster, pod: Object, node: str) -> Object:
    """A claim with the last two devices of three, and its name in the status of the pod."""
    pod_name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    name = f"{pod_name}-extended-resources-{sha256(uid.encode()).hexdigest()[:5]}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": uid, "controller": True}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    left = await cluster.client.create(
        {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
                "finalizers": [FINALIZER],
            },
            "spec": {"devices": {"requests": [{"name": "old", "exactly": exactly}]}},
        }
    )
    results = [
        {"request": "old", "driver": DRIVER, "pool": node, "device": f"gpu-{number}"}
        for number in (1, 2)
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": pod_name, "uid": uid}],
    }
    await cluster.client.merge(f"{CLAIMS}/{name}/status", {"status": status})
    mapping = {"containerName": "main", "resourceName": RESOURCE, "requestName": "old"}
    named = {"resourceClaimName": name, "requestMappings": [mapping]}
    await cluster.client.merge(
        f"{PODS}/{pod_name}/status", {"status": {"extendedResourceClaimStatus": named}}
    )
    return left

"""Devices that claims share, that bind under conditions and that queues limit; locks of nodes."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object
from tests.controlplane.manifests import DEPLOY, documents
from tests.e2e.cluster import GROUPS, PODS, Cluster
from tests.e2e.objects import node_body, pod_body, pod_group_body
from tests.e2e.test_devices import API, CLAIMS, DRIVER, claim_body, class_body, uses

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity
"""
LOCKING = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.NodeLockEnable: true}
"""
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
REGISTER = "volcano.sh/node-vgpu-register"


def slice_of(node: str, *devices: Object) -> Object:
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def wants(name: str, model: str, **capacity: str) -> Object:
    body = claim_body(name, model)
    exactly = body["spec"]["devices"]["requests"][0]["exactly"]
    exactly["selectors"][0]["cel"]["expression"] = (
        f'device.attributes["{DRIVER}"].model.matches("^{model}$")'
    )
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return body


async def add_pod(cluster: Cluster, claim: Object) -> None:
    name = claim["metadata"]["name"]
    await cluster.client.create(claim)
    await cluster.client.create(pod_group_body(name, 1, "research"))
    await cluster.client.create(pod_body(name, 0, **uses(name)))


async def test_parts_of_devices_conditions_and_limits_of_queues(cluster: Cluster) -> None:
    client = cluster.client
    (node,) = await cluster.add_nodes(1)
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    shared = {
        "name": "shared",
        "attributes": {"model": {"string": "part"}},
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}},
        "allowMultipleAllocations": True,
    }
    later = {
        "name": "later",
        "attributes": {"model": {"string": "later"}},
        "bindingConditions": ["example.com/ready"],
        "bindingFailureConditions": ["example.com/broken"],
    }
    for body in (class_body(), slice_of(node, shared, later)):
        await client.create(body)
    await cluster.add_queue("research", capability={"memory.deviceclass/gpu": "45Gi"})
    cluster.run_scheduler(cluster.configuration(CONFIGURATION))
    for number in range(2):
        await add_pod(cluster, wants(f"part-{number}", "part", memory="15500Mi"))
    await cluster.until_placed({"part-0": 1, "part-1": 1})
    results = [
        (await client.get(f"{CLAIMS}/part-{number}"))["status"]["allocation"]["devices"]["results"]
        for number in range(2)
    ]
    assert [one["consumedCapacity"] for [one] in results] == [{"memory": str(16 << 30)}] * 2
    assert len({one["shareID"] for [one] in results}) == 2

    async def is_counted() -> bool:
        queue = await client.get(f"{GROUPS}/queues/research")
        held = queue.get("status", {}).get("allocated", {})
        return bool(held.get("deviceclass/gpu") == "2")

    await cluster.until("the queue shows its devices", is_counted)
    # The device has room for a part of 8 GiB, but the queue may have 45 GiB: 31 GiB are requested.
    await add_pod(cluster, wants("third", "part", memory="15Gi"))
    await cluster.until_waiting("third")

    await add_pod(cluster, wants("later", "later"))

    async def is_allocated() -> bool:
        return "allocation" in (await client.get(f"{CLAIMS}/later")).get("status", {})

    await cluster.until("a claim is allocated", is_allocated)
    assert not await cluster.placed("later")
    ready = {
        "type": "example.com/ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    device = {"driver": DRIVER, "pool": node, "device": "later", "conditions": [ready]}
    await client.merge(f"{CLAIMS}/later/status", {"status": {"devices": [device]}})
    await cluster.until_placed({"later": 1})


def vgpu_node(name: str) -> Object:
    body = node_body(name)
    body["metadata"]["annotations"] = {
        REGISTER: f"{name}-0,10,8000,NVIDIA-A100,true,hami-core:",
    }
    amounts = {f"volcano.sh/vgpu-{kind}": "100" for kind in ("number", "memory", "cores")}
    for part in ("allocatable", "capacity"):
        body["status"][part] = {**body["status"][part], **amounts}
    return body


def vgpu_pod(number: int) -> Object:
    body = pod_body("share", number)
    limits: dict[str, Any] = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10"}
    resources = body["spec"]["containers"][0]["resources"]
    resources["limits"] = limits
    resources["requests"].update(limits)
    return body


async def test_a_node_is_locked_for_one_pod_after_the_other(cluster: Cluster) -> None:
    client = cluster.client
    for one in documents(DEPLOY / "node-locks" / "rbac.yaml"):
        await client.apply(one)
    await client.create(vgpu_node("card"))
    await client.create(pod_group_body("share", 1))
    for number in range(2):
        await client.create(vgpu_pod(number))
    try:
        await _see_the_lock(cluster)
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            await client.delete(f"{RIGHTS}/{kind}/pumice-adapter-node-locks")


async def _see_the_lock(cluster: Cluster) -> None:
    client = cluster.client
    cluster.run_scheduler(cluster.configuration(LOCKING))
    (first,) = await cluster.until_placed({"share": 1})

    async def lock() -> str:
        node = await client.get("/api/v1/nodes/card")
        return str(node["metadata"]["annotations"].get("hamivgpu", ""))

    assert await lock()
    # A job that takes no part shows that sessions go on.
    await cluster.add_gang("after", 1)
    await cluster.until_placed({"after": 1})
    assert list(await cluster.placed("share")) == [first]
    # The device plugin has served the pod.
    await client.merge("/api/v1/nodes/card", {"metadata": {"annotations": {"hamivgpu": None}}})
    await cluster.until_placed({"share": 2})
    assert await lock()


NPUS = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments: {deviceshare.AscendHAMiVNPUEnable: true}
"""
NPU = "huawei.com/Ascend910B3"
NPU_CONFIG = """
vnpus:
- chipName: 910B3
  commonWord: Ascend910B3
  resourceName: huawei.com/Ascend910B3
  resourceMemoryName: huawei.com/Ascend910B3-memory
  memoryAllocatable: 65536
  memoryCapacity: 65536
  templates:
  - {name: vir05_1c_16g, memory: 16384}
  - {name: vir10_3c_32g, memory: 32768}
"""
MAPS = "/api/v1/namespaces/kube-system/configmaps"


def npu_objects() -> list[Object]:
    """A ConfigMap, a node with one card, and a gang of a pod that asks for a part of it."""
    name = "volcano-vgpu-device-config"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {"device-config.yaml": NPU_CONFIG},
    }
    node = node_body("npu")
    card = '[{"id":"npu-0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3"}]'
    node["metadata"]["annotations"] = {"hami.io/node-register-Ascend910B3": card}
    for part in ("allocatable", "capacity"):
        node["status"][part] = {**node["status"][part], NPU: "4"}
    pod = pod_body("part", 0)
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = {NPU: "1", f"{NPU}-memory": "20000"}
    resources["requests"].update(resources["limits"])
    return [config, node, pod_group_body("part", 1), pod]


async def test_npus_are_those_of_the_device_configuration(cluster: Cluster) -> None:
    client = cluster.client
    for one in documents(DEPLOY / "device-config" / "rbac.yaml"):
        await client.apply(one)
    for body in npu_objects():
        await client.create(body)
    try:
        cluster.run_scheduler(cluster.configuration(NPUS))
        (name,) = await cluster.until_placed({"part": 1})
        pod = await client.get(f"{PODS}/{name}")
        told = pod["metadata"]["annotations"]
        assert told["hami.io/Ascend910B3-devices-allocated"] == "npu-0,Ascend910B3,32768,0:;"
        assert told[NPU] == '[{"UUID":"npu-0","temp":"vir10_3c_32g"}]'
    finally:
        await client.delete(f"{MAPS}/volcano-vgpu-device-config")
        for kind in ("rolebindings", "roles"):
            place = f"{RIGHTS}/namespaces/kube-system/{kind}"
            await client.delete(f"{place}/pumice-adapter-device-config")

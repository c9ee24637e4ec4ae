"""Several schedulers on one real cluster: NodeShards, a hash ring, and gates of queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.credentials import ADMIN
from tests.controlplane.scheduler import Child
from tests.e2e.cluster import GROUPS, PODS, Cluster, assert_fits
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body

SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"
GATE = "scheduling.volcano.sh/queue-allocation-gate"
NAMES = ("red", "green", "blue")


def shard_body(name: str, nodes: list[str]) -> Object:
    return {
        "apiVersion": "shard.volcano.sh/v1alpha1",
        "kind": "NodeShard",
        "metadata": {"name": name},
        "spec": {"nodesDesired": nodes},
    }


def gated_pod_body(job: str, cpu: str) -> Object:
    body = pod_body(job, 0, cpu, schedulingGates=[{"name": GATE}])
    body["metadata"]["annotations"][GATE] = "true"
    return body


async def desire(cluster: Cluster, name: str, nodes: list[str]) -> None:
    patch = {"spec": {"nodesDesired": nodes}}
    await cluster.client.merge(f"{SHARDS}/{name}", patch)


def start_shard(cluster: Cluster, name: str) -> Child:
    return cluster.start_adapter(
        f"--scheduler-name={name}",
        "--scheduler-sharding-mode=hard",
        f"--scheduler-sharding-name={name}",
        user=ADMIN,
    )


async def add_gangs(cluster: Cluster, round_: int) -> dict[str, int]:
    gangs = {f"{name}-{round_}": name for name in NAMES}
    for gang, name in gangs.items():
        await cluster.add_gang(gang, 4, schedulerName=name)
    return dict.fromkeys(gangs, 4)


async def test_nodes_move_between_shards_and_a_scheduler_dies(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(6, cpu="12")
    parts = dict(zip(NAMES, (nodes[:2], nodes[2:4], nodes[4:]), strict=True))
    for name, part in parts.items():
        await cluster.client.create(shard_body(name, part))
    try:
        cluster.scheduler.start_core()
        running = {name: start_shard(cluster, name) for name in NAMES}
        placed = await cluster.until_placed(await add_gangs(cluster, 0))
        for pod, node in placed.items():
            assert node in parts[pod.split("-")[0]]

        # A node goes round while gangs arrive, and a scheduler is killed and started again.
        jobs: dict[str, int] = {}
        for round_ in range(1, 4):
            jobs |= await add_gangs(cluster, round_)
            giver, taker = NAMES[round_ % 3], NAMES[(round_ + 1) % 3]
            parts[taker] = [*parts[taker], parts[giver].pop()]
            await desire(cluster, giver, parts[giver])
            await desire(cluster, taker, parts[taker])
            if round_ == 2:
                running["green"].kill()
        start_shard(cluster, "green")
        assert_fits(await cluster.until_placed(jobs), 12, nodes)

        async def are_settled() -> bool:
            shards = await cluster.client.list(SHARDS)
            return all(
                set(shard.get("status", {}).get("nodesInUse", [])) == set(parts[name])
                for shard in shards
                for name in [shard["metadata"]["name"]]
            )

        await cluster.until("every shard uses the nodes that it should", are_settled)
    finally:
        await asyncio.to_thread(cluster.scheduler.stop)
        for name in NAMES:
            await cluster.client.delete(f"{SHARDS}/{name}")


def owned(body: Object, owner: str) -> Object:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner}
    body["metadata"]["ownerReferences"] = [reference]
    return body


async def test_replicas_share_a_cluster_by_hash(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add_nodes(12, cpu="12")
    monkeypatch.setenv("MULTI_SCHEDULER_ENABLE", "true")
    monkeypatch.setenv("SCHEDULER_NUM", "3")
    cluster.scheduler.start_core()
    running = []
    for number in range(3):
        monkeypatch.setenv("SCHEDULER_POD_NAME", f"volcano-{number}")
        running.append(cluster.start_adapter(user=ADMIN))
    jobs: dict[str, int] = {}
    for number in range(8):
        name = f"job-{number}"
        await cluster.client.create(owned(pod_group_body(name, 3, "default"), name))
        bodies = [owned(pod_body(name, index), name) for index in range(3)]
        await cluster.client.create_all(bodies)
        jobs[name] = 3
        if number == 3:
            running[2].kill()
            cluster.start_adapter(user=ADMIN)
    assert_fits(await cluster.until_placed(jobs), 12, [f"node-{n:04}" for n in range(12)])


CAPACITY = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""


async def test_gates_are_lifted_when_the_queue_has_room(cluster: Cluster) -> None:
    await cluster.add_nodes(2)
    await cluster.add_queue("small", capability={"cpu": "2"})
    for name in ("first", "second"):
        await cluster.client.create(pod_group_body(name, 1, "small"))
        await cluster.client.create(gated_pod_body(name, "2"))
    cluster.run_scheduler(
        cluster.configuration(CAPACITY), "--feature-gates=SchedulingGatesQueueAdmission=true"
    )
    placed = await cluster.until_placed({"first": 1})

    async def gates(name: str) -> Any:
        return (await cluster.client.get(f"{PODS}/{name}-0"))["spec"].get("schedulingGates")

    assert not await gates("first")
    assert set(placed) == {"first-0"}
    assert await gates("second") == [{"name": GATE}]
    await cluster.client.delete(f"{PODS}/first-0")
    await cluster.client.delete(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups/first")
    await cluster.until_placed({"second": 1})


SHARDING = """
shardSyncPeriod: 1h
schedulerConfigs:
- name: volcano
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}]
- name: agent-scheduler
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}]
"""


async def test_the_sharding_controller_gives_a_scheduler_its_nodes(cluster: Cluster) -> None:
    client = cluster.client
    nodes = await cluster.add_nodes(3, cpu="4")
    full = pod_body("load", 0, "3", nodeName=nodes[0])
    await client.create(full)
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-sharding-configmap", "namespace": "volcano-system"},
        "data": {"sharding.yaml": SHARDING},
    }
    await client.create(configuration)
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-sharding-configmap"
    try:
        cluster.run_scheduler("--scheduler-sharding-mode=hard", user=ADMIN)
        cluster.start_controllers("--controllers=sharding-controller")

        async def desired() -> dict[str, set[str]]:
            return {
                one["metadata"]["name"]: set(one["spec"]["nodesDesired"])
                for one in await client.list(SHARDS)
            }

        async def until_desired(*shares: list[str]) -> None:
            wanted = dict(zip(("volcano", "agent-scheduler"), map(set, shares), strict=True))

            async def is_so() -> bool:
                return await desired() == wanted

            await cluster.until(f"NodeShards {wanted}", is_so)

        await until_desired(nodes[1:], nodes[:1])
        await cluster.add_gang("train", 8, "500m")
        placed = await cluster.until_placed({"train": 8})
        assert set(placed.values()) <= set(nodes[1:])
        # The scheduler's own pods count: their nodes are half full, and stay.
        await client.delete(f"{PODS}/load-0", 0)
        await until_desired(nodes, [])
        await client.delete(f"{SHARDS}/volcano")
        await until_desired(nodes, [])
        await client.merge(path, {"data": {"sharding.yaml": SHARDING.replace("0.6", "0.2")}})
        await until_desired(nodes[:1], [])
    finally:
        cluster.scheduler.stop()
        await client.delete(path)
        await client.call("DELETE", SHARDS)

"""Network topology on a real API server: Jobs in HyperNodes, hard and soft, whole and in parts."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object
from tests.e2e.cluster import PODS, Cluster
from tests.e2e.objects import NAMESPACE, pod_body
from tests.e2e.test_jobs import Jobs, job, task

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
# The configuration that Volcano's own end-to-end tests run with.
CONFIGURATION = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
    arguments:
      predicate.DynamicResourceAllocationEnable: true
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""
# Racks r0 to r3 of two nodes with four cores each, zones z0 and z1 of two racks, and a root.
RACKS = {f"r{i}": (f"node-{2 * i:04}", f"node-{2 * i + 1:04}") for i in range(4)}


def hyper_node(name: str, tier: int, kind: str, *members: str) -> Object:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": chosen},
    }


def sized(replicas: int, cpu: str, **more: Any) -> Object:
    found = task("work", replicas, **more)
    found["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return found


def topology_job(name: str, work: Object, **topology: Any) -> Object:
    return job(name, work, minAvailable=work["replicas"], networkTopology=topology)


async def fill(cluster: Cluster, **cpu: str) -> None:
    """Pods of another scheduler, by the number of their node."""
    for node, amount in cpu.items():
        body = pod_body("other", int(node[1:]), amount, nodeName=f"node-{int(node[1:]):04}")
        body["spec"]["schedulerName"] = "other"
        del body["metadata"]["annotations"]
        await cluster.client.create(body)


async def nodes_of(jobs: Jobs, name: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in (await jobs.pods(name)).values())


async def test_jobs_stay_within_their_domains(cluster: Cluster) -> None:
    client = cluster.client
    await cluster.add_nodes(8)
    await client.create_all(hyper_node(n, 1, "Node", *nodes) for n, nodes in RACKS.items())
    await client.create(hyper_node("z0", 2, "HyperNode", "r0", "r1"))
    await client.create(hyper_node("z1", 2, "HyperNode", "r2", "r3"))
    await client.create(hyper_node("root", 3, "HyperNode", "z0", "z1"))
    # One node of every rack but r1 is half full, so that r1 alone has room for two large pods.
    await fill(cluster, n0="2", n4="2", n6="2", n2="500m")
    cluster.run_scheduler(cluster.configuration(CONFIGURATION))
    cluster.start_controllers()
    jobs = Jobs(cluster)
    try:
        # Hard: a rack, or nothing.
        await client.create(topology_job("rack", sized(2, "3"), mode="hard", highestTierAllowed=1))
        await jobs.until_running("rack", 2)
        assert await nodes_of(jobs, "rack") == list(RACKS["r1"])
        await client.create(topology_job("none", sized(2, "3"), mode="hard", highestTierAllowed=1))
        (group,) = await _group_of(cluster, "none")
        await cluster.until_waiting(group)
        # Hard, two tiers: the racks have no room, a zone has.
        await client.create(topology_job("zone", sized(2, "3"), mode="hard", highestTierAllowed=2))
        await jobs.until_running("zone", 2)
        assert await nodes_of(jobs, "zone") == ["node-0005", "node-0007"]
        # Soft: the rest of the cluster; a rack where one has room for both.
        await client.create(topology_job("soft", sized(2, "2"), mode="soft"))
        await jobs.until_running("soft", 2)
        assert await nodes_of(jobs, "soft") == ["node-0000", "node-0001"]
        # Parts of a task, each in a rack of its own.
        policy = {
            "totalPartitions": 2,
            "partitionSize": 2,
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
        parts = sized(4, "500m", partitionPolicy=policy)
        await client.create(topology_job("parts", parts, mode="hard", highestTierAllowed=3))
        await jobs.until_running("parts", 4)
        found: dict[str, set[str]] = {}
        for pod in (await jobs.pods("parts")).values():
            rack = next(n for n, nodes in RACKS.items() if pod["spec"]["nodeName"] in nodes)
            part = pod["metadata"]["labels"]["volcano.sh/partition-id"]
            found.setdefault(part, set()).add(rack)
        assert sorted(found) == ["0", "1"]
        assert all(len(racks) == 1 for racks in found.values())

        # A pod that is made again returns to the domain of its job.
        victim = sorted(await jobs.pods("rack"))[0]
        uid = (await jobs.uids("rack"))[victim]
        await client.merge(f"{PODS}/{victim}", {"metadata": {"finalizers": None}})
        await client.delete(f"{PODS}/{victim}")
        await jobs.gone("the pod", lambda: _is_uid(jobs, "rack", uid))
        await jobs.until_running("rack", 2)
        assert await nodes_of(jobs, "rack") == list(RACKS["r1"])
        assert await nodes_of(jobs, "none") == ["", ""]
    finally:
        await client.call("DELETE", HYPER_NODES)


async def _group_of(cluster: Cluster, name: str) -> list[str]:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
    found: list[str] = []

    async def is_there() -> bool:
        names = [one["metadata"]["name"] for one in await cluster.client.list(path)]
        found[:] = [one for one in names if one.startswith(f"{name}-")]
        return bool(found)

    await cluster.until(f"PodGroup of {name}", is_there)
    return found


async def _is_uid(jobs: Jobs, name: str, uid: str) -> bool:
    return uid in (await jobs.uids(name)).values()

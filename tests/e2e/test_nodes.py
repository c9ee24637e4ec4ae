"""Nodes that come, are drained, and go."""

from __future__ import annotations

from tests.controlplane.client import Object
from tests.e2e.cluster import PODS, Cluster, assert_fits
from tests.e2e.objects import node_body, pod_body

NODES = "/api/v1/nodes"


async def test_a_node_that_is_added_is_used(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    await cluster.add_gang("train", 8)
    await cluster.add_gang("first", 1)
    cluster.run_scheduler()
    await cluster.until_placed({"first": 1})
    assert not await cluster.placed("train")
    nodes = await cluster.add_nodes(2, prefix="new")
    placed = await cluster.until_placed({"train": 8})
    assert_fits(placed, 4, ["node-0000", *nodes])


async def test_a_drained_node_gets_no_more_pods(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(3)
    await cluster.add_gang("train", 6, minimum=1)
    cluster.run_scheduler()
    placed = await cluster.until_placed({"train": 6})
    drained = placed["train-0"]
    await cluster.client.merge(f"{NODES}/{drained}", {"spec": {"unschedulable": True}})
    lost = [name for name, node in placed.items() if node == drained]
    for name in lost:
        await cluster.client.delete(f"{PODS}/{name}")

    async def are_gone() -> bool:
        return not set(lost) & {pod["metadata"]["name"] for pod in await cluster.pods()}

    await cluster.until("the drained pods are gone", are_gone)
    # Whoever owns them makes new ones of the same name.
    await cluster.client.create_all(pod_body("train", int(name.split("-")[1])) for name in lost)
    after = await cluster.until_placed({"train": 6})
    assert_fits(after, 4, set(nodes) - {drained})


async def test_a_node_that_vanishes_takes_no_gang_with_it(cluster: Cluster) -> None:
    """Nodes are deleted while gangs are being bound; each is whole in the end all the same."""
    await cluster.add_nodes(6)
    jobs = {f"train-{number}": 4 for number in range(4)}
    cluster.run_scheduler()
    for name, size in jobs.items():
        await cluster.add_gang(name, size)

    async def has_begun() -> bool:
        return len(await cluster.placed()) >= 4

    await cluster.until("pods are being placed", has_begun)
    for name in ("node-0000", "node-0001"):
        await cluster.client.delete(f"{NODES}/{name}")

    async def make_again() -> bool:
        """As a controller does with pods that are gone."""
        there = {pod["metadata"]["name"] for pod in await cluster.pods()}
        lost: list[Object] = [
            pod_body(job, number)
            for job, size in jobs.items()
            for number in range(size)
            if f"{job}-{number}" not in there
        ]
        await cluster.client.create_all(lost)
        placed = await cluster.placed()
        return len(placed) == 16 and not {"node-0000", "node-0001"} & set(placed.values())

    await cluster.until("all gangs are on nodes that are left", make_again)
    assert_fits(await cluster.placed(), 4, [f"node-{number:04}" for number in range(2, 6)])


async def test_a_node_that_is_not_ready_is_left_alone(cluster: Cluster) -> None:
    broken = node_body("broken")
    # The reference goes by the taint that the node controller sets, not by the condition.
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    broken["spec"] = {"taints": [taint]}
    await cluster.client.create(broken)
    (good,) = await cluster.add_nodes(1)
    await cluster.add_gang("train", 3)
    cluster.run_scheduler()
    assert set((await cluster.until_placed({"train": 3})).values()) == {good}

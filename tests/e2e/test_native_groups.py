"""PodGroups of Kubernetes itself are jobs like those of Volcano."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object
from tests.e2e.cluster import Cluster
from tests.e2e.objects import GROUP_NAME, NAMESPACE, pod_body

NATIVE = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"


def group_body(name: str, minimum: int, queue: str = "") -> Object:
    annotations = {"scheduling.volcano.sh/queue-name": queue} if queue else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def member_body(group: str, number: int, cpu: str = "1") -> Object:
    body = pod_body(group, number, cpu, schedulingGroup={"podGroupName": group})
    del body["metadata"]["annotations"][GROUP_NAME]
    return body


async def scheduled(cluster: Cluster, name: str) -> dict[str, Any]:
    status = (await cluster.client.get(f"{NATIVE}/{name}")).get("status", {})
    return next((c for c in status.get("conditions", []) if c["type"] == "PodGroupScheduled"), {})


async def test_a_gang_of_kubernetes_is_placed_whole_or_waits_and_says_why(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(2)
    await cluster.add_queue("research")
    for name, size in (("large", 9), ("small", 3)):
        await cluster.client.create(group_body(name, size, "research"))
        await cluster.client.create_all(member_body(name, number) for number in range(size))
    cluster.run_scheduler()
    try:
        await cluster.until_placed({"small": 3})

        async def are_told() -> bool:
            small, large = await scheduled(cluster, "small"), await scheduled(cluster, "large")
            # Beside the small group four members of the large one find no place.
            is_newest = "4 Unschedulable" in large.get("message", "")
            return (small.get("status"), large.get("status")) == ("True", "False") and is_newest

        await cluster.until("conditions say which group is scheduled", are_told)
        large = await scheduled(cluster, "large")
        assert large["reason"] == "Unschedulable"
        assert "tasks in gang unschedulable: pod group is not ready, 9 Pending" in large["message"]
        assert not await cluster.placed("large")

        # A restarted adapter has nothing new to say.
        told = [await scheduled(cluster, name) for name in ("small", "large")]
        cluster.scheduler.children[-1].stop()
        cluster.start_adapter()
        # A job that takes no part in the sharing of the cluster shows that a session has run.
        await cluster.add_gang("after", 1, queue="missing")
        await cluster.until_waiting("after")
        assert told == [await scheduled(cluster, name) for name in ("small", "large")]

        await cluster.add_nodes(1, prefix="new")
        await cluster.until_placed({"small": 3, "large": 9})
    finally:
        for name in ("small", "large"):
            await cluster.client.delete(f"{NATIVE}/{name}")


async def test_a_gang_of_kubernetes_stays_within_one_value_of_a_label(cluster: Cluster) -> None:
    nodes = await cluster.add_nodes(4)
    for number, name in enumerate(nodes):
        labels = {"example.com/rack": f"rack-{number // 2}"}
        await cluster.client.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    for name, size in (("near", 5), ("wide", 9)):
        body = group_body(name, size)
        body["spec"]["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
        await cluster.client.create(body)
        await cluster.client.create_all(member_body(name, number) for number in range(size))
    cluster.run_scheduler()
    try:
        placed = await cluster.until_placed({"near": 5})
        assert set(placed.values()) in (set(nodes[:2]), set(nodes[2:]))

        async def is_told() -> bool:
            told = await scheduled(cluster, "wide")
            return "same value of label example.com/rack" in told.get("message", "")

        await cluster.until("the condition names the label", is_told)
        assert not await cluster.placed("wide")
    finally:
        for name in ("near", "wide"):
            await cluster.client.delete(f"{NATIVE}/{name}")

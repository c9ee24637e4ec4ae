"""The Queue and PodGroup controllers on a real API server, with the rights that are shipped."""

from tests.controlplane.client import Object
from tests.e2e.cluster import GROUPS, PODS, Cluster
from tests.e2e.objects import NAMESPACE, queue_body

SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
ONLY = "--controllers=queue-controller,pg-controller"


def command(action: str, queue: Object) -> Object:
    target = {
        "apiVersion": queue["apiVersion"],
        "kind": "Queue",
        "name": queue["metadata"]["name"],
        "uid": queue["metadata"]["uid"],
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "order-", "namespace": "default"},
        "action": action,
        "target": target,
    }


async def test_queues_are_closed_and_opened(cluster: Cluster) -> None:
    client = cluster.client
    await client.create(queue_body("mid"))
    await client.create(queue_body("low", parent="mid"))
    cluster.start_controllers(ONLY)

    async def states() -> list[str]:
        found = [await client.get(f"{GROUPS}/queues/{name}") for name in ("mid", "low")]
        return [one.get("status", {}).get("state", "") for one in found]

    async def are(*wanted: str) -> None:
        async def holds() -> bool:
            return await states() == list(wanted)

        await cluster.until(f"queues are {wanted}", holds)

    await are("Open", "Open")
    mid = await client.get(f"{GROUPS}/queues/mid")
    assert mid["spec"]["parent"] == "root"
    await client.create(command("CloseQueue", mid))
    await are("Closed", "Closed")
    await client.create(command("OpenQueue", mid))
    await are("Open", "Open")

    async def commands_are_gone() -> bool:
        return not await client.list("/apis/bus.volcano.sh/v1alpha1/commands")

    await cluster.until("Commands are removed", commands_are_gone)

    # What no policy can tell is a condition and an event.
    await client.create(queue_body("lost", parent="nowhere"))

    async def is_told() -> bool:
        status = (await client.get(f"{GROUPS}/queues/lost")).get("status", {})
        reasons = [one["reason"] for one in status.get("conditions", [])]
        selector = "involvedObject.name=lost,reason=ParentMissing"
        found = await client.list("/api/v1/namespaces/default/events", fieldSelector=selector)
        return reasons == ["ParentMissing"] and len(found) == 1

    await cluster.until("the missing parent is told", is_told)


async def test_pods_of_a_replica_set_get_a_group(cluster: Cluster) -> None:
    client = cluster.client
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    made = await client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": "web",
                "namespace": NAMESPACE,
                "annotations": {"scheduling.volcano.sh/group-min-member": "2"},
            },
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        }
    )
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid}
    metadata: Object = {"name": "web-1", "namespace": NAMESPACE, "labels": {"app": "web"}}
    metadata |= {"ownerReferences": [{**owner, "controller": True}]}
    await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.start_controllers(ONLY)

    async def has_group() -> bool:
        pod = await client.get(f"{PODS}/web-1")
        annotations = pod["metadata"].get("annotations", {})
        return bool(annotations.get("scheduling.k8s.io/group-name") == f"podgroup-{uid}")

    await cluster.until("the pod has a group", has_group)
    group = await cluster.group(f"podgroup-{uid}")
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "default")
    await client.merge(f"{SETS}/web", {"spec": {"replicas": 0}})

    async def is_gone() -> bool:
        return not await client.list(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups")

    await cluster.until("the group is gone", is_gone)
    await client.delete(f"{SETS}/web")

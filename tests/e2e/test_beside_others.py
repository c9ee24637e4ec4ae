"""What a real API server does with namespaces that go, and with conditions that others write."""

from __future__ import annotations

import secrets

from tests.controlplane.client import Object
from tests.e2e.cluster import GROUPS, Cluster
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body


def moved(body: Object, namespace: str) -> Object:
    body["metadata"]["namespace"] = namespace
    return body


async def test_a_terminating_namespace_is_left_alone_without_a_word(cluster: Cluster) -> None:
    dying = f"dying-{secrets.token_hex(3)}"
    await cluster.client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": dying}}
    )
    await cluster.client.create(moved(pod_group_body("old", 2), dying))
    await cluster.client.create_all(moved(pod_body("old", number), dying) for number in range(2))
    proxy = await cluster.add_proxy()
    cluster.scheduler.start_core()
    adapter = cluster.start_adapter(server=proxy.url)
    path = f"{GROUPS}/namespaces/{dying}/podgroups/old"

    async def waits() -> bool:
        return bool((await cluster.client.get(path)).get("status", {}).get("conditions"))

    await cluster.until("the gang waits", waits)
    # Nobody here empties the namespace, so it stays as it is.
    await cluster.client.delete(f"/api/v1/namespaces/{dying}")
    since = len(adapter.said)
    await cluster.add_gang("new", 2)
    await cluster.add_nodes(3)
    await cluster.until_placed({"new": 2})
    binds = [call for call in proxy.calls if call.resource == "pods/binding"]
    # Pods of the other gang have other names; at most one call left before the watch told.
    assert sum(call.name.startswith("old-") for call in binds) <= 1
    lines = [line for line in adapter.said[since:].splitlines() if dying in line]
    assert [line for line in lines if "WARNING" in line or "ERROR" in line] == []
    await cluster.client.call(
        "DELETE", f"/api/v1/namespaces/{dying}/pods", {"gracePeriodSeconds": 0}
    )
    await cluster.client.delete(path)


async def test_a_condition_of_somebody_else_on_a_pod_group_stays(cluster: Cluster) -> None:
    await cluster.add_gang("train", 2)
    cluster.run_scheduler()
    await cluster.until_waiting("train")
    path = f"{GROUPS}/namespaces/{NAMESPACE}/podgroups/train"
    held = (await cluster.group("train"))["status"]
    theirs = {"type": "Audited", "status": "True", "reason": "Checked", "message": "by hand"}
    await cluster.client.merge(path, {"status": {"conditions": [*held["conditions"], theirs]}})
    await cluster.add_nodes(1)
    await cluster.until_placed({"train": 2})

    async def is_scheduled() -> bool:
        conditions = (await cluster.group("train"))["status"]["conditions"]
        found = {condition["type"]: condition for condition in conditions}
        assert {key: found["Audited"][key] for key in theirs} == theirs
        return "Scheduled" in found

    await cluster.until("the PodGroup is scheduled", is_scheduled)

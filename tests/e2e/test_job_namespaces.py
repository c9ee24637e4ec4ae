"""A namespace that is deleted while its Job restarts."""

from __future__ import annotations

import asyncio

from tests.controlplane.client import STRATEGIC, Object
from tests.controlplane.credentials import CONTROLLERS
from tests.e2e.cluster import Cluster
from tests.e2e.test_jobs import job, task

NAME = "leaving"
BASE = f"/api/v1/namespaces/{NAME}"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAME}/jobs"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAME}/podgroups"


async def test_the_controllers_stay_calm_when_a_namespace_goes(cluster: Cluster) -> None:
    client = cluster.client
    await cluster.add_nodes(2)
    proxy = await cluster.add_proxy()
    cluster.run_scheduler()
    kubeconfig = cluster.kubeconfig(CONTROLLERS, proxy.url)
    child = cluster.scheduler.start_controllers(kubeconfig)
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    body = job("one", task("w", 2), policies=policies)
    body["metadata"]["namespace"] = NAME
    await client.create(body)

    async def status() -> Object:
        found: Object = (await client.get(f"{JOBS}/one")).get("status", {})
        return found

    async def runs() -> bool:
        return (await status()).get("running") == 2

    await cluster.until("the job runs", runs)
    await client.delete(BASE)
    failed = {"status": {"phase": "Failed"}}
    await client.call("PATCH", f"{BASE}/pods/one-w-0/status", failed, content_type=STRATEGIC)

    async def is_left() -> bool:
        return not await client.list(f"{BASE}/pods") and (await status()).get("retryCount") == 1

    try:
        await cluster.until("the pods of the job go", is_left)

        # Nothing can be made in the namespace any more, and nobody tries it without an end.
        async def is_calm() -> bool:
            before = len(proxy.writes())
            await asyncio.sleep(3)
            return len(proxy.writes()) - before <= 2

        await cluster.until("few writes are left", is_calm)
        assert "Traceback" not in child.said
    finally:
        cluster.scheduler.stop()
        for path in (JOBS, GROUPS, f"{BASE}/pods", f"{BASE}/events"):
            await client.call("DELETE", path, {"gracePeriodSeconds": 0})
        # In a cluster, the namespace controller ends the deletion.
        held = await client.get(BASE)
        held["spec"] = {"finalizers": []}
        await client.call("PUT", f"{BASE}/finalize", held)

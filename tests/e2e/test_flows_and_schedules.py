"""CronJobs and JobFlows on a real API server, with the rights that are shipped."""

from tests.controlplane.client import Object
from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.objects import NAMESPACE
from tests.e2e.test_jobs import task

ONLY = "--controllers=cronjob-controller,jobflow-controller,jobtemplate-controller"
BATCH, FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
TEMPLATES = f"/apis/{FLOW}/namespaces/{NAMESPACE}/jobtemplates"
FLOWS = f"/apis/{FLOW}/namespaces/{NAMESPACE}/jobflows"
CRONS = f"/apis/{BATCH}/namespaces/{NAMESPACE}/cronjobs"


def thing(version: str, kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


async def test_a_schedule_and_a_flow(cluster: Cluster) -> None:
    client = cluster.client
    spec = {"tasks": [task("work", 1)]}
    schedule = {"schedule": "@every 1s", "jobTemplate": {"spec": spec}}
    await client.create(thing(BATCH, "CronJob", "tick", schedule))
    for name in ("a", "b"):
        await client.create(thing(FLOW, "JobTemplate", name, spec))
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    await client.create(thing(FLOW, "JobFlow", "flow", {"flows": flows}))
    cluster.start_controllers(ONLY)

    async def is_there(name: str) -> bool:
        return await client.find(f"{JOBS}/{name}") is not None

    for name in ("flow-a", "flow-b"):
        await cluster.until(f"{name} is made", lambda name=name: is_there(name))  # type: ignore[misc]
        ended = {"state": {"phase": "Completed"}}
        await client.merge(f"{JOBS}/{name}/status", {"status": ended})

    async def has_succeeded() -> bool:
        status = (await client.get(f"{FLOWS}/flow")).get("status", {})
        listed = (await client.get(f"{TEMPLATES}/a")).get("status", {})
        return status.get("state", {}).get("phase") == "Succeed" and bool(listed)

    await cluster.until("the flow has succeeded", has_succeeded)

    async def has_ticked() -> bool:
        status = (await client.get(f"{CRONS}/tick")).get("status", {})
        return bool(status.get("active") and status.get("lastScheduleTime"))

    await cluster.until("a Job was made by the schedule", has_ticked)
    cluster.scheduler.stop()
    for path in (CRONS, FLOWS, TEMPLATES, JOBS):
        await client.call("DELETE", path)

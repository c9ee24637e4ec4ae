"""Definitions that an operator changes or deletes while adapter and controllers run."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import RefusedError
from tests.controlplane.credentials import CONTROLLERS
from tests.controlplane.manifests import apply_crds
from tests.e2e.cluster import GROUPS, JOBS, PODS, Cluster
from tests.e2e.objects import NAMESPACE
from tests.e2e.test_jobs import Jobs, job, task

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD_GROUPS = f"{DEFINITIONS}/podgroups.scheduling.volcano.sh"


async def start(cluster: Cluster) -> Jobs:
    await cluster.add_nodes(2)
    cluster.run_scheduler()
    cluster.scheduler.start_controllers(cluster.kubeconfig(CONTROLLERS))
    return Jobs(cluster)


async def run(jobs: Jobs, name: str) -> None:
    await jobs.client.create(job(name, task("w", 2)))
    await jobs.until_running(name, 2)


async def test_a_status_subresource_that_comes_and_goes_stops_no_job(cluster: Cluster) -> None:
    """Volcano's definitions of PodGroups and pumice's differ in it."""
    jobs = await start(cluster)
    shipped = (await cluster.client.get(POD_GROUPS))["spec"]["versions"]
    subresources: tuple[Any, ...] = ({"status": {}}, None, {"status": {}})
    try:
        await run(jobs, "before")
        for number, one in enumerate(subresources):
            versions = [{**version, "subresources": one} for version in shipped]
            await cluster.client.merge(POD_GROUPS, {"spec": {"versions": versions}})
            await run(jobs, f"job-{number}")
    finally:
        await cluster.client.merge(POD_GROUPS, {"spec": {"versions": shipped}})
    await run(jobs, "after")


async def test_definitions_that_are_deleted_and_created_again(cluster: Cluster) -> None:
    jobs = await start(cluster)
    client = cluster.client
    await run(jobs, "before")
    try:
        for name in ("podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"):
            await client.delete(f"{DEFINITIONS}/{name}")

        async def are_gone() -> bool:
            try:
                await client.get(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups")
                await client.get(JOBS)
            except RefusedError as error:
                return error.status == 404
            return False

        await cluster.until("the definitions are gone", are_gone)
        # The cluster of the tests has no garbage collector.
        for name in await jobs.pods("before"):
            await client.delete(f"{PODS}/{name}", 0)
    finally:
        await apply_crds(client)
    await run(jobs, "before")
    await run(jobs, "after")

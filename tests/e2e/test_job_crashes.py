"""Controllers that are killed, and an API server that restarts, while Jobs restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.controlplane.client import Object
from tests.e2e.cluster import Cluster
from tests.e2e.test_jobs import Jobs, job, task

ACTIONS = ("RestartJob", "RestartTask", "RestartPod")
NAMES = [action.lower() for action in ACTIONS]
SIZE = 5
# Processes start several times here, which takes long on a busy machine.
_SECONDS = 120.0


def is_running(status: Object, retries: int) -> bool:
    runs = status.get("state", {}).get("phase") == "Running" and status.get("running") == SIZE
    return runs and status.get("retryCount", 0) == retries


@pytest.mark.timeout(600)
async def test_jobs_are_whole_after_a_crash_and_a_restart_of_the_api_server(
    cluster: Cluster,
) -> None:
    client, jobs = cluster.client, Jobs(cluster)
    await cluster.add_nodes(4)
    cluster.run_scheduler()
    for name, action in zip(NAMES, ACTIONS, strict=True):
        policies = [{"event": "PodFailed", "action": action}]
        tasks = (task("w", 3), task("x", SIZE - 3))
        await client.create(job(name, *tasks, policies=policies, maxRetry=100))

    async def until_whole(retries: int) -> None:
        async def are_whole() -> bool:
            return all([is_running(await jobs.status(name), retries) for name in NAMES])

        await cluster.until(f"all jobs run, {retries} retries", are_whole, _SECONDS)
        for name in NAMES:
            wanted = {f"{name}-w-{index}" for index in range(3)}
            wanted |= {f"{name}-x-{index}" for index in range(SIZE - 3)}
            assert set(await jobs.pods(name)) == wanted

    async def fail(then: Callable[[], Awaitable[object]]) -> None:
        """A pod of each job fails, and the next thing happens while the jobs restart."""
        for name in NAMES:
            await jobs.end(f"{name}-w-1", "Failed", 1)
        await then()

    # Without an election, a process begins at once.
    child = cluster.start_controllers("--leader-elect=false")
    await until_whole(0)

    async def crash() -> None:
        child.kill()
        cluster.start_controllers("--leader-elect=false")

    await fail(crash)
    # Neither is a restart lost, nor does it count twice.
    await until_whole(1)

    async def restart_api_server() -> None:
        await asyncio.to_thread(cluster.plane.stop_apiserver)
        await asyncio.to_thread(cluster.plane.start_apiserver)

    await fail(restart_api_server)
    await until_whole(2)
    assert "Traceback" not in cluster.scheduler.said(10**6)

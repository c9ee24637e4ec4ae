"""The phases of Jobs as clients see them on a watch: what Volcano's own tests wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controllers.jobs import pass_through
from tests.controlplane.client import STRATEGIC, Object
from tests.e2e.cluster import JOBS, PODS, Cluster
from tests.e2e.test_jobs import Jobs, job, started, task

FAILED, EVICTED = "PodFailed", "PodEvicted"
RUN = ("Pending", "Running")
AGAIN = ("Restarting", "Pending", "Running")


@asynccontextmanager
async def statuses(cluster: Cluster) -> AsyncIterator[dict[str, list[Object]]]:
    """Every status of every Job, in the order of a watch."""
    seen: dict[str, list[Object]] = {}

    async def follow() -> None:
        async for _, found in cluster.client.watch(JOBS):
            seen.setdefault(found["metadata"]["name"], []).append(found.get("status", {}))

    watch = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def until_passed(
    cluster: Cluster, seen: dict[str, list[Object]], name: str, *phases: str
) -> None:
    async def is_so() -> bool:
        return pass_through(seen.get(name, ()), *phases)

    try:
        await cluster.until(f"{name}: {phases}", is_so)
    except AssertionError as error:
        raise AssertionError(f"{name}: {seen.get(name)}\n{error}") from None


async def restart_container(jobs: Jobs, pod: str, count: int) -> None:
    """The status that a kubelet writes when a container was restarted."""
    state = {"name": "main", "image": "work", "imageID": "", "ready": True, "restartCount": count}
    patch = {"status": {"containerStatuses": [state]}}
    await jobs.client.call("PATCH", f"{PODS}/{pod}/status", patch, content_type=STRATEGIC)


async def test_watchers_see_every_phase(cluster: Cluster) -> None:
    cluster.kubelets.ending_seconds = 0.2
    jobs = await started(cluster)
    client = cluster.client
    ends = {
        "AbortJob": ("Aborting", "Aborted"),
        "TerminateJob": ("Terminating", "Terminated"),
        "CompleteJob": ("Completing", "Completed"),
        "RestartJob": AGAIN,
        "RestartPod": AGAIN,
    }
    # Name of the job: policies of the job, the pod that fails or goes, and the phases that follow.
    cases: dict[str, tuple[list[Object], str, tuple[str, ...]]] = {
        f"{event.lower()}-{action.lower()}": ([{"event": event, "action": action}], event, phases)
        for event in (FAILED, EVICTED)
        for action, phases in ends.items()
        if (event, action) != (EVICTED, "RestartPod")
    }
    cases["any-restart"] = ([{"event": "*", "action": "RestartJob"}], EVICTED, AGAIN)
    cases["code-restart"] = ([{"exitCode": 3, "action": "RestartJob"}], FAILED, AGAIN)
    several = {"events": [EVICTED, FAILED, EVICTED], "action": "TerminateJob"}
    cases["several"] = ([several], EVICTED, ends["TerminateJob"])
    late = {"event": EVICTED, "action": "TerminateJob", "timeout": "5m"}
    cases["late"] = ([{"event": FAILED, "action": "RestartPod"}, late], FAILED, AGAIN)
    async with statuses(cluster) as seen:
        for name, (policies, _, _) in cases.items():
            await client.create(job(name, task("w", 2), task("x", 1), policies=policies))
        done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        await client.create(job("done", task("w", 1, policies=done), task("x", 2)))
        often = [{"event": "TaskFailed", "action": "TerminateJob"}]
        await client.create(job("often", task("w", 1, maxRetry=3), task("x", 1), policies=often))
        resume = [{"event": FAILED, "action": "ResumeJob"}]
        await client.create(job("resume", task("w", 2), minAvailable=1, policies=resume))
        for name, (_, event, _) in cases.items():
            await until_passed(cluster, seen, name, *RUN)
            if event == FAILED:
                await jobs.end(f"{name}-w-0", "Failed", 3)
            else:
                await client.delete(f"{PODS}/{name}-w-0")
        for name, (_, _, phases) in cases.items():
            await until_passed(cluster, seen, name, *RUN, *phases)

        await until_passed(cluster, seen, "done", *RUN)
        await jobs.end("done-w-0", "Succeeded")
        await until_passed(cluster, seen, "done", *RUN, "Completing", "Completed")
        assert set(await jobs.pods("done")) == {"done-w-0"}
        await until_passed(cluster, seen, "often", *RUN)
        await restart_container(jobs, "often-w-0", 4)
        await until_passed(cluster, seen, "often", *RUN, *ends["TerminateJob"])
        # Nothing is suspended, so there is nothing to resume: the job goes on with what it has.
        await jobs.until_running("resume", 2)
        await jobs.end("resume-w-0", "Failed", 1)
        await jobs.until("resume", "a failed pod", lambda s: s.get("failed") == 1)
        await jobs.end("resume-w-1", "Succeeded")
        await until_passed(cluster, seen, "resume", *RUN, "Completed")
        assert (await jobs.status("resume")).get("retryCount", 0) == 0
        await _last_retry(cluster, jobs, seen)
        await client.call("DELETE", JOBS)
        await client.call("DELETE", PODS, {"gracePeriodSeconds": 0})
        await _unknown(cluster, jobs, seen)


async def _last_retry(cluster: Cluster, jobs: Jobs, seen: dict[str, list[Object]]) -> None:
    """The pod that failed last stays, and those that ran go."""
    policies = [{"event": FAILED, "action": "RestartJob"}]
    body = job("retries", task("w", 1), task("x", 1), policies=policies, maxRetry=2)
    await cluster.client.create(body)
    await jobs.until_running("retries", 2)
    await jobs.end("retries-w-0", "Failed", 1)
    await until_passed(cluster, seen, "retries", *RUN, *AGAIN)
    await jobs.until_running("retries", 2)
    await jobs.end("retries-w-0", "Failed", 1)
    await jobs.until_phase("retries", "Failed")
    assert (await jobs.status("retries"))["retryCount"] == 2

    async def is_only_evidence() -> bool:
        return set(await jobs.pods("retries")) == {"retries-w-0"}

    await cluster.until("only the failed pod is left", is_only_evidence)


async def _unknown(cluster: Cluster, jobs: Jobs, seen: dict[str, list[Object]]) -> None:
    """A job that loses a pod which finds no place is restarted, and runs when there is place."""
    client, nodes = cluster.client, [f"node-{number:04}" for number in range(4)]
    policies = [{"event": "Unknown", "action": "RestartJob"}]
    await client.create(job("unknown", task("w", 3), policies=policies))
    await jobs.until_running("unknown", 3)
    taint = {"key": "closed", "value": "yes", "effect": "NoSchedule"}
    for name in nodes:
        await client.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
    await client.delete(f"{PODS}/unknown-w-0")
    await until_passed(cluster, seen, "unknown", *RUN, "Restarting", "Pending")
    for name in nodes:
        await client.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    await until_passed(cluster, seen, "unknown", *RUN, *AGAIN)

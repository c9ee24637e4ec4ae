"""Jobs on a real API server, from submission to Running, compared with the bare writes.

Both kinds of run have the same API server and admission policies, the same objects, the same
background, and the same kubelets with their pod watch. They differ by the processes of the
scheduler and the controllers, their watches, and their writes beyond the bare writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.shutdown import run
from pumice.bench import api_background, api_server, bare_jobs
from pumice.bench.api_server import EVENTS, GROUPS, NODES, PODS
from pumice.bench.bare_jobs import JOBS, job_bodies
from pumice.bench.clusters import Size
from pumice.bench.kubelets import kubelets
from pumice.bench.pairs import run_pair, sizes, summary
from pumice.bench.processes import PROGRAM, cpu_seconds
from pumice.bench.results import Result
from pumice.bench.scheduler import scheduling

PAIRS = 3
_RANGES = ("times_bare",)


def controllers(size: Size, kubeconfig: str, pairs: int = PAIRS) -> list[Result]:
    """Measures pairs of runs: with bare writes, and with scheduler and controllers."""
    return run(_measure(size, kubeconfig, pairs))


async def _measure(size: Size, kubeconfig: str, pairs: int) -> list[Result]:
    async with api_server.opened(kubeconfig) as api:
        await api_server.create_missing(api, "/api/v1/namespaces", [api_server.namespace()])
        try:
            async with api_background.with_nodes(api, size, kubeconfig):
                results = [await _pair(api, size, kubeconfig, number) for number in range(pairs)]
        finally:
            await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS, NODES)
        return [*results, summary("controllers", size, results, _RANGES)]


async def _pair(api: ApiSession, size: Size, kubeconfig: str, number: int) -> Result:
    bare, figures = await run_pair(
        number,
        lambda: _bare(api, size, f"bare-{number}"),
        lambda: _controlled(api, size, kubeconfig, f"job-{number}"),
    )
    shown: dict[str, object] = {
        **sizes(size),
        "times_bare": round(figures["seconds"] / bare["bare_seconds"], 3),
        "cpu_times_bare": round(_cpu(figures) / _cpu(bare), 3),
        **bare,
        **figures,
    }
    return Result("controllers pair", "first Job created to all Jobs Running", shown)


def _cpu(figures: dict[str, float]) -> float:
    """CPU time per pod of all processes except etcd; it hardly depends on other load."""
    return sum(value for name, value in figures.items() if name.endswith("cpu_ms_per_pod"))


async def _bare(api: ApiSession, size: Size, prefix: str) -> dict[str, float]:
    """Writes Jobs, PodGroups and their two phases, pods, bindings, pod statuses and Job phases."""
    jobs, count = bare_jobs.bare_jobs(size, prefix), size.jobs * size.size
    async with kubelets(api, JOBS) as running:
        before, server = await api_server.writes(api), await api_server.cpu_seconds(api)
        own, began = time.process_time(), time.perf_counter()
        await bare_jobs.create_jobs(api, jobs)
        await api_server.all_of(bare_jobs.group_calls(api, jobs))
        await api_server.all_of(bare_jobs.group_phases(api, jobs, {"phase": "Inqueue"}))
        await api_server.all_of(bare_jobs.pod_calls(api, jobs))
        await api_server.all_of(bare_jobs.bindings(api, jobs, size.nodes))
        await api_server.all_of(bare_jobs.group_phases(api, jobs, bare_jobs.RUNNING_GROUP))
        await running.until(0, count)
        await api_server.all_of(bare_jobs.job_phases(api, jobs, size.size))
        await running.until(size.jobs, count)
        spent = time.perf_counter() - began
        own = time.process_time() - own
        written = await api_server.writes(api) - before
        server = await api_server.cpu_seconds(api) - server
    await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS)
    return {
        "bare_seconds": round(spent, 2),
        "bare_writes_per_pod": round(written / count, 2),
        "bare_api_server_cpu_ms_per_pod": round(1000 * server / count, 3),
        "bare_client_cpu_ms_per_pod": round(1000 * own / count, 3),
    }


@asynccontextmanager
async def _controlling(kubeconfig: str) -> AsyncIterator[int]:
    """Runs the controllers in a process; yields its id."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *("controllers", "--kubeconfig", kubeconfig, "--leader-elect=false"),
        *("--log-level", "error"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


async def _controlled(
    api: ApiSession, size: Size, kubeconfig: str, prefix: str
) -> dict[str, float]:
    count = size.jobs * size.size
    jobs = list(job_bodies(size, prefix))
    async with (
        scheduling(kubeconfig) as scheduler,
        _controlling(kubeconfig) as pid,
        kubelets(api, JOBS) as running,
    ):
        await api_server.create(api, JOBS, job_bodies(Size(1, 1, 1), f"first-{prefix}"))
        await running.until(1, 1)
        await api_server.until_quiet(api)
        written, server = await api_server.writes(api), await api_server.cpu_seconds(api)
        spent, own = scheduler.cpu_times(), cpu_seconds(pid)
        client, began = time.process_time(), time.perf_counter()
        await api_server.create(api, JOBS, jobs)
        await running.until(size.jobs + 1, count + 1)
        seconds = time.perf_counter() - began
        client = time.process_time() - client
        spent, own = scheduler.cpu_times() - spent, cpu_seconds(pid) - own
        server = await api_server.cpu_seconds(api) - server
        at_once = await api_server.writes(api) - written
        written = await api_server.until_quiet(api) - written
    await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS)
    return {
        "seconds": round(seconds, 2),
        "pods_per_second": round(count / seconds, 1),
        "writes_per_pod": round(written / count, 2),
        # Other writes, such as events, follow when the more urgent ones are done.
        "writes_per_pod_until_running": round(at_once / count, 2),
        "controllers_cpu_ms_per_pod": round(1000 * own / count, 3),
        "adapter_cpu_ms_per_pod": round(1000 * spent.adapter / count, 3),
        "core_cpu_ms_per_pod": round(1000 * spent.core / count, 3),
        "api_server_cpu_ms_per_pod": round(1000 * server / count, 3),
        "client_cpu_ms_per_pod": round(1000 * client / count, 3),
    }

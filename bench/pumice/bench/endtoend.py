"""Core and adapter with a real API server, compared with the server's rate of bare bindings."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.adapters.kubernetes.session import ApiSession
from pumice.bench import api_server
from pumice.bench.api_server import EVENTS, GROUPS, NODES, PODS, Binds
from pumice.bench.clusters import Size
from pumice.bench.processes import PROGRAM, cpu_seconds
from pumice.bench.results import Result

_PAIRS = 3
# Gangs for the time from pending to bound, one after the other.
_ARRIVALS = 60
_ARRIVALS_PER_SECOND = 10


@dataclass(slots=True)
class Scheduler:
    """The processes of core and adapter."""

    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    began: float = 0.0

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes)


@asynccontextmanager
async def scheduling(kubeconfig: str) -> AsyncIterator[Scheduler]:
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        core = f"unix:{Path(folder) / 'core.sock'}"
        adapter = ("adapter", "kubernetes", "--core", core, "--kubeconfig", kubeconfig)
        commands = (("core", "--listen", core), adapter)
        scheduler = Scheduler(began=time.perf_counter())
        try:
            for command in commands:
                process = await asyncio.create_subprocess_exec(
                    *PROGRAM,
                    *command,
                    *("--log-level", "error"),
                    stdout=asyncio.subprocess.DEVNULL,
                )
                scheduler.processes.append(process)
            yield scheduler
        finally:
            for process in reversed(scheduler.processes):
                process.terminate()
                await process.wait()


def endtoend(size: Size, kubeconfig: str, pairs: int = _PAIRS) -> list[Result]:
    """Pairs of runs with bare bindings and with the scheduler, then single gangs."""
    return asyncio.run(_measure(size, kubeconfig, pairs))


async def _measure(size: Size, kubeconfig: str, pairs: int) -> list[Result]:
    async with api_server.opened(kubeconfig) as api:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        await api_server.create(api, "/api/v1/namespaces", [namespace])
        await api_server.create(api, NODES, api_server.nodes(size))
        results = [await _pair(api, size, kubeconfig, number) for number in range(pairs)]
        results.append(_summary(size, results))
        results.append(await _arrivals(api, kubeconfig, size))
        await api_server.clear(api, NODES)
        return results


async def _pair(api: ApiSession, size: Size, kubeconfig: str, number: int) -> Result:
    bare = await _bare(api, size, f"bare-{number}")
    figures = await _scheduled(api, size, kubeconfig, f"gang-{number}")
    rate = figures["binds_per_second"]
    figures = {"bare_binds_per_second": bare, "share_of_bare": round(rate / bare, 3), **figures}
    shown = {"nodes": size.nodes, "pods": size.jobs * size.size, **figures}
    return Result("endtoend pair", "first to last bind on a real API server", shown)


async def _bare(api: ApiSession, size: Size, prefix: str) -> float:
    await api_server.create(api, PODS, api_server.pods(size, prefix, "nobody"))
    binds = Binds()
    following = asyncio.create_task(binds.follow(api))
    try:
        await asyncio.sleep(1.0)
        await api_server.all_of(api_server.bindings(api, size, prefix))
        await binds.until(size.jobs * size.size)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await api_server.clear(api, PODS)
    return round(len(binds.at) / binds.seconds, 1)


async def _scheduled(api: ApiSession, size: Size, kubeconfig: str, prefix: str) -> dict[str, float]:
    await api_server.create(api, GROUPS, api_server.groups(size, prefix))
    await api_server.create(api, PODS, api_server.pods(size, prefix, "volcano"))
    count = size.jobs * size.size
    binds = Binds()
    following = asyncio.create_task(binds.follow(api))
    try:
        await asyncio.sleep(1.0)
        written = await api_server.writes(api)
        async with scheduling(kubeconfig) as scheduler:
            await binds.until(1)
            started = scheduler.cpu_seconds()
            await binds.until(count)
            bound = scheduler.cpu_seconds()
            written = await api_server.until_quiet(api) - written
            settled = scheduler.cpu_seconds()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await api_server.clear(api, PODS, GROUPS, EVENTS)
    return {
        "binds_per_second": round(count / binds.seconds, 1),
        "start_to_first_bind_seconds": round(min(binds.at.values()) - scheduler.began, 2),
        "writes_per_pod": round(written / count, 2),
        "cpu_ms_per_bind": round(1000 * (bound - started) / count, 3),
        "cpu_ms_per_pod_settled": round(1000 * (settled - started) / count, 3),
        "cpu_seconds_to_first_bind": round(started, 2),
    }


def _summary(size: Size, pairs: list[Result]) -> Result:
    names = [name for name in pairs[0].figures if name not in ("nodes", "pods")]
    medians = {
        name: statistics.median(float(str(pair.figures[name])) for pair in pairs) for name in names
    }
    shown = {"nodes": size.nodes, "pods": size.jobs * size.size, **medians}
    return Result("endtoend", f"median of {len(pairs)} interleaved pairs", shown)


async def _arrivals(api: ApiSession, kubeconfig: str, size: Size) -> Result:
    one = Size(size.nodes, 1, size.size)
    binds = Binds()
    following = asyncio.create_task(binds.follow(api))
    pending: dict[str, float] = {}
    try:
        async with scheduling(kubeconfig):
            await _arrive(api, one, "first", {})
            await binds.until(one.size)
            for number in range(_ARRIVALS):
                began = time.perf_counter()
                await _arrive(api, one, f"next-{number:03}", pending)
                spent = time.perf_counter() - began
                await asyncio.sleep(max(0.0, 1 / _ARRIVALS_PER_SECOND - spent))
            await binds.until(one.size * (_ARRIVALS + 1))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await api_server.clear(api, PODS, GROUPS, EVENTS)
    times = sorted(binds.at[name] - created for name, created in pending.items())
    figures = {
        "nodes": size.nodes,
        "pods": len(times),
        "pods_per_second": _ARRIVALS_PER_SECOND * size.size,
        "p50_ms": round(1000 * times[len(times) // 2], 1),
        "p99_ms": round(1000 * times[len(times) * 99 // 100], 1),
    }
    return Result("endtoend arrivals", "from a pod's creation until it is bound", figures)


async def _arrive(api: ApiSession, one: Size, prefix: str, pending: dict[str, float]) -> None:
    await api_server.create(api, GROUPS, api_server.groups(one, prefix))
    await api_server.create(api, PODS, api_server.pods(one, prefix, "volcano"))
    # The gang is there when its last pod is.
    now = time.perf_counter()
    for pod in api_server.pods(one, prefix, "volcano"):
        pending[pod["metadata"]["name"]] = now

"""Core and adapter with a real API server, compared with the server's rate of bare bindings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.shutdown import run
from pumice.bench import api_background, api_server
from pumice.bench.api_server import EVENTS, GROUPS, NODES, PODS, Binds
from pumice.bench.arrivals import ARRIVALS, Arrivals, arrivals
from pumice.bench.clusters import Size
from pumice.bench.pairs import run_pair, sizes, summary
from pumice.bench.processes import control_plane_pids, cpu_seconds
from pumice.bench.results import Result
from pumice.bench.scheduler import scheduling

PAIRS = 5
# Figures whose minimum and maximum are shown, too.
_RANGES = ("share_of_bare", "cpu_share_of_bare", "cpu_ms_per_bind")


def endtoend(
    size: Size, kubeconfig: str, pairs: int = PAIRS, rates: Iterable[Arrivals] = ARRIVALS
) -> list[Result]:
    """Measures pairs of runs with bare bindings and with the scheduler, then arriving gangs."""
    return run(_measure(size, kubeconfig, pairs, rates))


async def _measure(
    size: Size, kubeconfig: str, pairs: int, rates: Iterable[Arrivals]
) -> list[Result]:
    async with api_server.opened(kubeconfig) as api:
        await api_server.create_missing(api, "/api/v1/namespaces", [api_server.namespace()])
        try:
            async with api_background.with_nodes(api, size, kubeconfig):
                results = [await _pair(api, size, kubeconfig, number) for number in range(pairs)]
                results.append(summary("endtoend", size, results, _RANGES))
                results += await arrivals(api, size, kubeconfig, rates)
        finally:
            await api_server.clear(api, PODS, GROUPS, EVENTS, NODES)
        return results


async def _pair(api: ApiSession, size: Size, kubeconfig: str, number: int) -> Result:
    bare, figures = await run_pair(
        number,
        lambda: _bare(api, size, f"bare-{number}"),
        lambda: _scheduled(api, size, kubeconfig, f"gang-{number}"),
    )
    share = figures["binds_per_second"] / bare["bare_binds_per_second"]
    cpu_share = bare["bare_all_cpu_ms_per_bind"] / figures["all_cpu_ms_per_bind"]
    # The share on a machine without other load and without idle CPUs.
    shares = {"cpu_share_of_bare": round(cpu_share, 3)} if control_plane_pids() else {}
    shown = {
        **sizes(size),
        "share_of_bare": round(share, 3),
        **shares,
        **bare,
        **figures,
    }
    return Result("endtoend pair", "first to last bind on a real API server", shown)


def _client_and_control_plane_cpu_seconds() -> float:
    """CPU time of this process, and of the control plane if it runs on this machine."""
    return time.process_time() + sum(cpu_seconds(pid) for pid in control_plane_pids())


@asynccontextmanager
async def _following(api: ApiSession) -> AsyncIterator[Binds]:
    binds = Binds()
    task = asyncio.create_task(binds.follow(api))
    try:
        await asyncio.sleep(1.0)
        yield binds
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _bare(api: ApiSession, size: Size, prefix: str) -> dict[str, float]:
    count = size.jobs * size.size
    await api_server.create(api, PODS, api_server.pods(size, prefix, "nobody"))
    async with _following(api) as binds:
        before = await api_server.cpu_seconds(api)
        calls = api_server.bindings(api, size, prefix)
        posting = asyncio.create_task(api_server.all_of(calls))
        await binds.until(1)
        whole = _client_and_control_plane_cpu_seconds()
        await posting
        await binds.until(count)
        whole = _client_and_control_plane_cpu_seconds() - whole
        spent = await api_server.cpu_seconds(api) - before
    await api_server.clear(api, PODS)
    return {
        "bare_binds_per_second": round(count / binds.seconds, 1),
        "bare_api_server_cpu_ms_per_pod": round(1000 * spent / count, 3),
        "bare_all_cpu_ms_per_bind": round(1000 * whole / count, 3),
    }


async def _scheduled(api: ApiSession, size: Size, kubeconfig: str, prefix: str) -> dict[str, float]:
    if size.has_background:
        await api_background.add_services(api, size, prefix)
    await api_server.create(api, GROUPS, api_server.groups(size, prefix))
    await api_server.create(api, PODS, api_server.pods(size, prefix, "volcano"))
    count = size.jobs * size.size
    async with _following(api) as binds:
        written, server = await api_server.writes(api), await api_server.cpu_seconds(api)
        async with scheduling(kubeconfig) as scheduler:
            await binds.until(1)
            started, whole = scheduler.cpu_times(), _client_and_control_plane_cpu_seconds()
            await binds.until(count)
            spent = scheduler.cpu_times() - started
            whole = _client_and_control_plane_cpu_seconds() - whole + spent.both
            written = await api_server.until_quiet(api) - written
            settled = scheduler.cpu_times() - started
            server = await api_server.cpu_seconds(api) - server
    await api_server.clear(api, PODS, GROUPS, EVENTS)
    if size.has_background:
        await api_background.clear_services(api)
    return {
        "binds_per_second": round(count / binds.seconds, 1),
        "start_to_first_bind_seconds": round(min(binds.at.values()) - scheduler.began, 2),
        "writes_per_pod": round(written / count, 2),
        "cpu_ms_per_bind": round(1000 * spent.both / count, 3),
        "adapter_cpu_ms_per_bind": round(1000 * spent.adapter / count, 3),
        "core_cpu_ms_per_bind": round(1000 * spent.core / count, 3),
        # Control plane, client, adapter and core, from the first to the last bind.
        "all_cpu_ms_per_bind": round(1000 * whole / count, 3),
        "cpu_ms_per_pod_settled": round(1000 * settled.both / count, 3),
        # Includes lists and all writes; read before and after the binds, so that it delays none.
        "api_server_cpu_ms_per_pod": round(1000 * server / count, 3),
        "api_server_share_of_cpu": round(server / (server + settled.both), 3),
        "cpu_seconds_to_first_bind": round(started.both, 2),
    }

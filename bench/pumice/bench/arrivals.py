"""Latency from a pod's creation to its bind on a real API server, at a given rate of arrivals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pumice.adapters.kubernetes.session import ApiSession
from pumice.bench import api_server
from pumice.bench.api_server import EVENTS, GROUPS, PODS, Binds
from pumice.bench.clusters import Size
from pumice.bench.results import Result, spread
from pumice.bench.scheduler import scheduling


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A rate of arriving pods, and the total number of gangs."""

    pods_per_second: int
    gangs: int


ARRIVALS = (Arrivals(10, 15), Arrivals(100, 150), Arrivals(500, 300))
QUICK_ARRIVALS = (Arrivals(100, 40),)


@dataclass(frozen=True, slots=True)
class _Created:
    """Creation times by pod name: of the pod itself, and of the last pod of its gang."""

    pods: dict[str, float]
    gangs: dict[str, float]


async def arrivals(
    api: ApiSession, size: Size, kubeconfig: str, rates: Iterable[Arrivals]
) -> list[Result]:
    results: list[Result] = []
    binds = Binds()
    following = asyncio.create_task(binds.follow(api))
    one = replace(size, jobs=1)
    try:
        async with scheduling(kubeconfig):
            await _arrive(api, one, "first", _Created({}, {}))
            await binds.until(one.size)
            for rate in rates:
                created = await _arrive_at(api, one, rate)
                await binds.until(len(binds.at) + len(created.pods.keys() - binds.at.keys()))
                results.append(_result(size, rate, created, binds))
                await api_server.clear(api, PODS, GROUPS)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await api_server.clear(api, PODS, GROUPS, EVENTS)
    return results


async def _arrive_at(api: ApiSession, size: Size, rate: Arrivals) -> _Created:
    """Creates gangs at equal intervals, without waiting for earlier creations to finish."""
    created = _Created({}, {})
    began = time.perf_counter()
    tasks: list[asyncio.Task[None]] = []
    for number in range(rate.gangs):
        due = began + number * size.size / rate.pods_per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        name = f"at-{rate.pods_per_second}-{number:04}"
        tasks.append(asyncio.create_task(_arrive(api, size, name, created)))
    await asyncio.gather(*tasks)
    return created


async def _arrive(api: ApiSession, size: Size, prefix: str, created: _Created) -> None:
    await api_server.create(api, GROUPS, api_server.groups(size, prefix))
    pods = list(api_server.pods(size, prefix, "volcano"))

    async def create(pod: dict[str, dict[str, str]]) -> None:
        await api_server.create(api, PODS, [pod])
        created.pods[pod["metadata"]["name"]] = time.perf_counter()

    await asyncio.gather(*(create(pod) for pod in pods))
    # A gang can be scheduled once its last pod exists.
    now = time.perf_counter()
    created.gangs.update((pod["metadata"]["name"], now) for pod in pods)


def _result(size: Size, rate: Arrivals, created: _Created, binds: Binds) -> Result:
    gangs = sorted(binds.at[name] - when for name, when in created.gangs.items())
    pods = [binds.at[name] - when for name, when in created.pods.items()]
    figures = {
        "nodes": size.nodes,
        "pods": len(gangs),
        **size.background_figures,
        "gang_size": size.size,
        "pods_per_second": rate.pods_per_second,
        "p50_ms": round(1000 * gangs[len(gangs) // 2], 1),
        "p99_ms": round(1000 * gangs[len(gangs) * 99 // 100], 1),
        **spread("since_own_creation", pods),
    }
    measured = "from the creation of a gang's last pod until a pod is bound"
    return Result("endtoend arrivals", measured, figures)

"""Duration of a snapshot between processes, and of the first session as a client sees it."""

from __future__ import annotations

import asyncio
import statistics
import time

from pumice.bench.clusters import Size
from pumice.bench.processes import core_process, cpu_seconds
from pumice.bench.results import Result
from pumice.bench.wire_adapter import Snapshot, connected, snapshot_of
from pumice.bench.wire_clusters import labelled, pending_cluster, running_cluster, single_pod

_RUNS = 2


def snapshot(size: Size, runs: int = _RUNS) -> Result:
    """Streams a running cluster, until the decision for its pending pod."""
    held = snapshot_of([*running_cluster(size), *labelled(single_pod(size.jobs))])
    times = [asyncio.run(_streamed(held)) for _ in range(runs)]
    whole, streamed, cpu, sender = min(times)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "deltas": held.count,
        "runs": runs,
        "stream_s": round(streamed, 3),
        "seconds_with_first_session": round(whole, 3),
        "median_s": round(statistics.median(found[0] for found in times), 3),
        "core_cpu_s": round(cpu, 2),
        "sender_cpu_s": round(sender, 2),
    }
    measured = (
        "between processes, from the first marker to the decision of the first session; a new core "
        "for each run; the best run"
    )
    return Result("snapshot", measured, figures)


async def _streamed(held: Snapshot) -> tuple[float, float, float, float]:
    """Seconds until the decision and until the last acknowledgement; CPU seconds of core and sender."""
    async with core_process() as core, connected(core.address) as adapter:
        idle_cpu, began = cpu_seconds(core.pid), time.perf_counter()
        own_cpu = time.process_time()
        streamed = await held.send(adapter)
        await held.end(adapter)
        await adapter.until_decided(1)
        whole, sender = time.perf_counter() - began, time.process_time() - own_cpu
        return whole, streamed, cpu_seconds(core.pid) - idle_cpu, sender


def client_view(size: Size, scheduler_conf: str = "", runs: int = 1) -> dict[str, object]:
    """Figures from the last acknowledged delta to the last received decision; the best run."""
    held = snapshot_of(pending_cluster(size), scheduler_conf)
    seconds, sessions = min(asyncio.run(_decided(held, size.pending_pods)) for _ in range(runs))
    return {
        "client_s": round(seconds, 4),
        "client_pods_per_s": round(size.pending_pods / seconds),
        "client_sessions": sessions,
    }


async def _decided(held: Snapshot, pods: int) -> tuple[float, int]:
    """Seconds until the last decision, and the number of its session."""
    async with core_process() as core, connected(core.address) as adapter:
        await held.send(adapter)
        began = time.perf_counter()
        await held.end(adapter)
        await adapter.until_decided(pods)
        return time.perf_counter() - began, adapter.session

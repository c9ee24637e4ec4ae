"""Measures the stream between an adapter and a core, process to process."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pumice.bench.clusters import Size
from pumice.bench.results import Result
from pumice.bench.wire_adapter import connected, core_process, snapshot_of
from pumice.bench.wire_clusters import group, pending_cluster, pod, running_cluster

_ROUNDS = 30


def stream(size: Size) -> list[Result]:
    """How fast a snapshot is, a delta is decided on, and a core answers while it decides."""
    return asyncio.run(_measure(size.nodes, size.jobs * size.size))


async def _measure(nodes: int, pods: int) -> list[Result]:
    few_nodes, few_pods = min(nodes, 1000), min(pods, 10_000)
    return [
        await measure_snapshot(nodes, pods),
        await measure_latency(few_nodes, few_pods, _ROUNDS),
        await measure_health(few_nodes, few_pods),
    ]


async def measure_snapshot(nodes: int, pods: int) -> Result:
    """Deltas per second through the stream, and the whole snapshot with its first session."""
    pending = [group(99_999, 1, 4), pod(99_999, 0)]
    snapshot = snapshot_of([*running_cluster(nodes, pods), *pending])
    async with core_process() as address, connected(address) as adapter:
        began = time.perf_counter()
        seconds = await snapshot.send(adapter)
        await snapshot.end(adapter)
        await adapter.until(lambda: adapter.decided)
        whole = time.perf_counter() - began
    figures = {
        "nodes": nodes,
        "pods": pods,
        "deltas_per_second": round(snapshot.count / seconds),
        "seconds_with_first_session": round(whole, 3),
    }
    return Result("stream snapshot", "a whole snapshot, process to process", figures)


async def measure_latency(nodes: int, pods: int, rounds: int) -> Result:
    """From a delta to its decision at rest; 50 ms of it are the wait for quiet."""
    snapshot = snapshot_of(list(running_cluster(nodes, pods)))
    times = []
    async with core_process() as address, connected(address) as adapter:
        await snapshot.send(adapter)
        await snapshot.end(adapter)
        await asyncio.sleep(2)
        for number in range(rounds):
            before = adapter.decided
            began = time.perf_counter()
            await adapter.send_objects(group(90_000 + number, 1, 4), pod(90_000 + number, 0))
            await adapter.until(lambda before=before: adapter.decided > before)
            times.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.2)
    figures = {
        "nodes": nodes,
        "pods": pods,
        "rounds": rounds,
        "median_ms": round(statistics.median(times), 1),
        "p99_ms": round(quantile(times, 0.99), 1),
    }
    return Result("stream latency", "from a delta to its decision at rest", figures)


async def measure_health(nodes: int, pods: int) -> Result:
    """Health checks, one after the other, while a session places all pods."""
    snapshot = snapshot_of(list(pending_cluster(nodes, pods)))
    async with core_process() as address, connected(address) as adapter:
        await snapshot.send(adapter)
        channel = grpc.aio.insecure_channel(
            address, options=(("grpc.use_local_subchannel_pool", 1),)
        )
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        await stub.Check(request)
        times = []
        began = time.perf_counter()
        await snapshot.end(adapter)
        while not adapter.decided:
            start = time.perf_counter()
            await stub.Check(request)
            times.append((time.perf_counter() - start) * 1000)
        whole = time.perf_counter() - began
        await channel.close()
    figures = {
        "nodes": nodes,
        "pods": pods,
        "checks": len(times),
        "median_ms": round(statistics.median(times), 2),
        "p99_ms": round(quantile(times, 0.99), 2),
        "max_ms": round(max(times), 2),
        "session_seconds": round(whole, 3),
    }
    return Result("stream health", "health checks while a session places all pods", figures)


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]

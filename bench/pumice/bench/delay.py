"""Mutual delay of decoding and sessions, measured between processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count, cycle
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.processes import core_process
from pumice.bench.results import Result, spread
from pumice.bench.wire_adapter import BATCH_OPS, BenchAdapter, batches_of, connected, snapshot_of
from pumice.bench.wire_clusters import (
    labelled,
    pending_cluster,
    running_cluster,
    single_pod,
    upsert,
)
from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod
from pumice.v1 import delta_pb2, object_pb2

_ROUNDS = 30
_PROBES = 200
_ARRIVALS = 3
_ARRIVING_GANGS = 50
_ARRIVALS_EVERY_SECONDS = 0.25
_HEAD_START_SECONDS = 0.2
_STEADY_OPS = 100
# Seconds between two messages with changes of pods.
_LOADS = (("steady", 0.02), ("flood", 0.0))
# Maximum duration of a measurement; no round begins after it.
_ENOUGH_SECONDS = 10.0


def delay(
    size: Size, rounds: int = _ROUNDS, probes: int = _PROBES, arrivals: int = _ARRIVALS
) -> list[Result]:
    """Latency of decisions under load, of deltas during sessions, and of health checks."""
    return asyncio.run(_delay(size, rounds, probes, arrivals))


async def _delay(size: Size, rounds: int, probes: int, arrivals: int) -> list[Result]:
    running = snapshot_of(running_cluster(size))
    async with core_process() as core, connected(core.address) as adapter:
        await running.send(adapter)
        await running.end(adapter)
        await asyncio.sleep(1.0)
        jobs = _JobNumbers(size.jobs)
        results = [
            await _decision_delay(adapter, size, jobs, rounds),
            await _delta_delay(adapter, size, jobs, probes, arrivals),
        ]
    return [*results, await _health(size)]


async def _decision_delay(
    adapter: BenchAdapter, size: Size, jobs: _JobNumbers, rounds: int
) -> Result:
    """Latency of a single pod: when idle, under steady changes, and at full load."""
    times = {"idle": await _decisions(adapter, rounds, jobs)}
    rates, ops = {}, _changes(size)
    for when, pause_seconds in _LOADS:
        pour = partial(_send_changes, adapter, ops, pause_seconds)
        async with _running(pour):
            before, began = adapter.acknowledged, time.perf_counter()
            times[when] = await _decisions(adapter, rounds, jobs)
            passed = time.perf_counter() - began
            rates[f"{when}_deltas_per_s"] = round((adapter.acknowledged - before) / passed)
    figures: dict[str, object] = {"nodes": size.nodes, "pods": size.pods, **rates}
    for when, taken in times.items():
        figures |= spread(when, taken)
    measured = (
        "from a delta to its decision, including 50 ms of debouncing: when idle, under steady changes "
        "of pods, and under changes as fast as the core accepts them, so that queued changes ahead "
        "of the delta count too"
    )
    return Result("delay decision", measured, figures)


async def _delta_delay(
    adapter: BenchAdapter, size: Size, jobs: _JobNumbers, probes: int, arrivals: int
) -> Result:
    """Latency of small changes while sessions place gangs."""
    figures: dict[str, object] = {"nodes": size.nodes, "pods": size.pods}
    figures |= spread("idle", await _deltas(adapter, size, probes, lambda: True))
    arriving = partial(_arrivals, adapter, size, jobs)
    before = adapter.decided
    least = before + arrivals * _ARRIVING_GANGS * size.size
    async with _running(arriving):
        times = await _deltas(adapter, size, probes, lambda: adapter.decided >= least)
    figures |= spread("placing", times) | {"placed": adapter.decided - before}
    measured = "from a delta to its acknowledgement, when idle and while sessions place gangs"
    return Result("delay delta", measured, figures)


class _JobNumbers:
    """Generates unused job numbers."""

    def __init__(self, first: int) -> None:
        self._next = first

    def next(self) -> int:
        self._next += 1
        return self._next


@asynccontextmanager
async def _running(work: Callable[[asyncio.Event], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs a coroutine in this context; an event stops it, because cancelling would end the stream."""
    enough = asyncio.Event()

    async def go_on() -> None:
        await work(enough)

    task = asyncio.create_task(go_on())
    try:
        await asyncio.sleep(_HEAD_START_SECONDS)
        yield
    finally:
        enough.set()
        await task


async def _decisions(adapter: BenchAdapter, rounds: int, jobs: _JobNumbers) -> list[float]:
    times: list[float] = []
    while len(times) < rounds and sum(times) < _ENOUGH_SECONDS:
        expected = adapter.decided + 1
        began = time.perf_counter()
        await adapter.send_objects(labelled(single_pod(jobs.next())))
        await adapter.until_decided(expected)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)
    return times


async def _send_changes(
    adapter: BenchAdapter, ops: list[delta_pb2.Op], pause_seconds: float, enough: asyncio.Event
) -> None:
    """Sends batches of changes of running pods."""
    batches = [*batches_of(ops, _STEADY_OPS if pause_seconds else BATCH_OPS)]
    for batch in cycle(batches):
        await adapter.send_ops(batch)
        if enough.is_set():
            # The next measurement must not wait for these.
            return await adapter.until_acknowledged(adapter.seq)
        await asyncio.sleep(pause_seconds)


def _changes(size: Size) -> list[delta_pb2.Op]:
    """Two label changes of each running pod, encoded in advance."""
    pods = [item for item in running_cluster(size) if isinstance(item, Pod)]
    return [
        upsert(pod, revision=2 + number)
        for number in range(2)
        for pod in labelled(pods, round=str(number))
    ]


async def _arrivals(
    adapter: BenchAdapter, size: Size, jobs: _JobNumbers, enough: asyncio.Event
) -> None:
    """Adds gangs, and deletes them after their placement; every addition causes a session."""
    for number in count():
        things: list[ClusterObject] = []
        for _ in range(_ARRIVING_GANGS):
            spec = clusters.plain_spec(number % size.classes)
            things += clusters.pending_job(jobs.next(), size.size, spec, "queue-0")
        expected = adapter.decided + _ARRIVING_GANGS * size.size
        await adapter.send_objects(labelled(things))
        await adapter.until_decided(expected)
        await adapter.send_ops([delta_pb2.Op(tombstone=_ref(item)) for item in things])
        if enough.is_set():
            return
        await asyncio.sleep(_ARRIVALS_EVERY_SECONDS)


def _ref(item: ClusterObject) -> object_pb2.ObjectRef:
    kind = object_pb2.KIND_POD if isinstance(item, Pod) else object_pb2.KIND_POD_GROUP
    return object_pb2.ObjectRef(kind=kind, uid=item.uid)


async def _deltas(
    adapter: BenchAdapter, size: Size, probes: int, enough: Callable[[], bool]
) -> list[float]:
    """Sends small changes one after the other, until there are enough samples."""
    node = next(clusters.nodes_of(size))
    times: list[float] = []
    for number in count():
        if number >= probes and enough():
            break
        change = replace(node, annotations={"probe": str(number)})
        began = time.perf_counter()
        seq = await adapter.send_ops([upsert(change, revision=2 + number)])
        await adapter.until_acknowledged(seq)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    return times


async def _health(size: Size) -> Result:
    """Health checks during a session that places all pods."""
    held = snapshot_of(pending_cluster(size))
    async with core_process() as core, connected(core.address) as adapter:
        await held.send(adapter)
        channel = grpc.aio.insecure_channel(
            core.address, options=(("grpc.use_local_subchannel_pool", 1),)
        )
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        await stub.Check(request)
        times: list[float] = []
        began = time.perf_counter()
        await held.end(adapter)
        while not times or adapter.decided < size.pending_pods:
            start = time.perf_counter()
            await stub.Check(request)
            times.append(time.perf_counter() - start)
            if adapter.ended:
                raise ConnectionError(adapter.ended)
        whole = time.perf_counter() - began
        await channel.close()
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        **spread("session", times),
        "session_seconds": round(whole, 3),
    }
    return Result("delay health", "health checks while a session places all pods", figures)

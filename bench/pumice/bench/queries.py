"""Latency of Explain and Schedule on a large cluster while sessions run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import grpc.aio

from pumice.bench import clusters
from pumice.bench.clusters import NAMESPACE, Size
from pumice.bench.processes import core_process
from pumice.bench.results import Result, spread
from pumice.bench.steady_state import waiting_gangs, with_unschedulable
from pumice.bench.wire_adapter import BenchAdapter, connected, snapshot_of
from pumice.bench.wire_clusters import labelled, upsert
from pumice.core.deltas import ClusterObject
from pumice.server.wire import write_object
from pumice.v1 import scheduling_service_pb2, scheduling_service_pb2_grpc
from pumice.v1.scheduling_service_pb2 import ClusterSource, ExplainRequest, ScheduleRequest

_QUESTIONS = 200
_REQUESTS = 3
_GANG_SIZE = 10_000
_FIRST_SESSION_SECONDS = 2.0
_CHANGES_EVERY_SECONDS = 0.1
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 64 * 2**20),
)


def queries(
    size: Size, questions: int = _QUESTIONS, gang_size: int = _GANG_SIZE, requests: int = _REQUESTS
) -> list[Result]:
    """Measures Explain of jobs and pods, and Schedule of a large gang."""
    return asyncio.run(_queries(size, questions, gang_size, requests))


async def _queries(size: Size, questions: int, gang_size: int, requests: int) -> list[Result]:
    held = snapshot_of(labelled(with_unschedulable(size, waiting_gangs(size))))
    async with core_process() as core, connected(core.address) as adapter:
        await held.send(adapter)
        await held.end(adapter)
        # Jobs can be explained after the first session.
        await asyncio.sleep(_FIRST_SESSION_SECONDS)
        async with (
            _changing_nodes(adapter, size),
            grpc.aio.insecure_channel(core.address, options=_OPTIONS) as channel,
        ):
            stub: Any = scheduling_service_pb2_grpc.SchedulingServiceStub(channel)
            return [
                await _explained(stub, size, questions),
                await _scheduled(stub, size, gang_size, requests),
            ]


@asynccontextmanager
async def _changing_nodes(adapter: BenchAdapter, size: Size) -> AsyncIterator[None]:
    """Changes nodes continuously, so that sessions run all the time."""
    enough = asyncio.Event()
    nodes = list(clusters.nodes_of(size))

    async def change() -> None:
        for number in count(2):
            node = nodes[number % len(nodes)]
            await adapter.send_ops(
                [upsert(replace(node, labels={**node.labels, "round": str(number)}), number)]
            )
            if enough.is_set():
                return
            await asyncio.sleep(_CHANGES_EVERY_SECONDS)

    task = asyncio.create_task(change())
    try:
        yield
    finally:
        enough.set()
        await task


async def _explained(stub: Any, size: Size, questions: int) -> Result:
    """Measures Explain; the first requests are sent before the replica has started."""
    jobs: list[float] = []
    pods: list[float] = []
    without_nodes = 0
    for number in range(questions):
        name = f"job-{number % waiting_gangs(size):05d}"
        job = scheduling_service_pb2.ObjectName(namespace=NAMESPACE, name=name)
        pod = scheduling_service_pb2.ObjectName(namespace=NAMESPACE, name=f"{name}-worker-0")
        for request, times in ((ExplainRequest(job=job), jobs), (ExplainRequest(pod=pod), pods)):
            taken, answer = await _timed(stub.Explain(request))
            times.append(taken)
            without_nodes += answer.without_nodes
    figures = {
        "nodes": size.nodes,
        "running": size.pods,
        "pending": waiting_gangs(size) * size.size,
        **spread("job", jobs),
        **spread("pod", pods),
        "without_nodes": without_nodes,
    }
    measured = (
        "Explain of jobs and pods that fit on no node, alternately, over a channel, while nodes change "
        "and sessions run; includes the first requests, whose answers do not cover nodes"
    )
    return Result("explain", measured, figures)


async def _scheduled(stub: Any, size: Size, gang_size: int, requests: int) -> Result:
    gang = clusters.pending_job(
        waiting_gangs(size), gang_size, clusters.plain_spec(0), f"queue-{size.queues - 1}"
    )
    source = ClusterSource(hypothetical=_object_set(labelled(gang)))
    times, bound = [], 0
    for number in range(requests):
        request = ScheduleRequest(request_id=f"bench-{number}", cluster=source)
        taken, answer = await _timed(stub.Schedule(request))
        times.append(taken)
        bound = sum(decision.HasField("bind") for decision in answer.decisions)
    figures: dict[str, object] = {
        "nodes": size.nodes,
        "running": size.pods,
        "gang_size": gang_size,
        "bound": bound,
        "best_s": round(min(times), 3),
        "worst_s": round(max(times), 3),
    }
    measured = (
        "Schedule of one gang on the live cluster, over a channel, while nodes change and sessions "
        "run; from the request to the complete response"
    )
    return Result("schedule", measured, figures)


def _object_set(objects: Iterable[ClusterObject]) -> scheduling_service_pb2.ObjectSet:
    return scheduling_service_pb2.ObjectSet(other_objects=[write_object(item) for item in objects])


async def _timed(call: Awaitable[Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = await call
    return time.perf_counter() - began, answer

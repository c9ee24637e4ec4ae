"""Whatever a client sends, no traceback reaches a log and no other stream is harmed."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.registry import Registry
from pumice.server import wire
from pumice.server.limits import Limits
from pumice.server.ops import OpReader
from pumice.server.plugins import installed_registry
from pumice.server.state import ClusterState
from pumice.v1 import (
    cluster_service_pb2,
    configuration_pb2,
    decision_pb2,
    delta_pb2,
    inspection_service_pb2,
    object_pb2,
    scheduling_service_pb2,
)
from tests.server.hostile import damaged, scramble
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    gang,
    node,
    queue,
    running_core,
)
from tests.server.samples import OBJECTS

BASE = [
    *(wire.write_object(held) for held in OBJECTS.values()),
    *(queue(), node("n1"), node("n2"), *gang("job", 2), *gang("other", 1)),
]
CONFIGURATION = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
REGISTRY: Registry = installed_registry()
REQUESTS: dict[str, Any] = {
    "/pumice.v1.InspectionService/ListClusters": inspection_service_pb2.ListClustersRequest,
    "/pumice.v1.InspectionService/ListQueues": inspection_service_pb2.ListQueuesRequest,
    "/pumice.v1.InspectionService/ListJobs": inspection_service_pb2.ListJobsRequest,
    "/pumice.v1.InspectionService/ListNodes": inspection_service_pb2.ListNodesRequest,
    "/pumice.v1.InspectionService/ListSessions": inspection_service_pb2.ListSessionsRequest,
    "/pumice.v1.InspectionService/GetSession": inspection_service_pb2.GetSessionRequest,
    "/pumice.v1.InspectionService/GetConfig": inspection_service_pb2.GetConfigRequest,
    "/pumice.v1.InspectionService/CheckConfig": inspection_service_pb2.CheckConfigRequest,
    "/pumice.v1.SchedulingService/Explain": scheduling_service_pb2.ExplainRequest,
}
# What a client may be told; anything else is a fault of the core.
ERROR_CODES = {
    grpc.StatusCode.OK,
    *(grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE),
    *(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.FAILED_PRECONDITION),
}


def hostile_ops(random: Random, count: int) -> list[delta_pb2.Op]:
    ops = []
    for _ in range(count):
        held = object_pb2.ClusterObject()
        held.CopyFrom(random.choice(BASE))
        if random.random() < 0.6:
            field = held.WhichOneof("object") or ""
            scramble(getattr(held, field), random, random.choice((0.03, 0.1, 0.4)))
        upsert = wire.write_upsert(held, random.randrange(1, 99))
        if random.random() < 0.05:
            scramble(upsert, random, 0.1)
        ops.append(delta_pb2.Op(upsert=upsert))
        if random.random() < 0.1:
            ref = object_pb2.ObjectRef(kind=upsert.kind, uid=upsert.uid)
            ops.append(delta_pb2.Op(tombstone=ref))
    return ops


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32))
def test_no_object_breaks_the_engine(seed: int) -> None:
    random = Random(seed)
    state, reader, seq, now_ns = ClusterState(REGISTRY), OpReader(), 0, 1_800_000_000 * 10**9
    state.configure(configuration_pb2.Configuration(scheduler_conf=CONFIGURATION))
    decided: tuple[Any, ...] = ()
    for _ in range(4):
        ops = hostile_ops(random, random.randrange(1, 20))
        for decision in decided:
            told = decision_pb2.Outcome(decision_id=decision.id)
            scramble(told, random, 0.5)
            ops.append(delta_pb2.Op(outcome=told))
        batch = delta_pb2.DeltaBatch(first_seq=seq + 1, ops=ops)
        seq += len(ops)
        state.apply(reader.read_batch(batch), now_ns)
        now_ns += random.choice((10**9, 61 * 10**9))
        state.expire(now_ns)
        result = state.session(now_ns)
        assert not result.faults
        decided = result.decisions
        list(wire.decision_batches(result, epoch=1, based_on_seq=seq))
        list(wire.status_batches(result, epoch=1))


async def ask(channel: grpc.aio.Channel, random: Random) -> None:
    method = random.choice(list(REQUESTS))
    request = REQUESTS[method]()
    scramble(request, random, random.choice((0.3, 0.7)))
    unary: Any = channel.unary_unary(method)
    call = unary(damaged(request.SerializeToString(), random))
    assert await call.code() in ERROR_CODES, (method, await call.details())


async def connect(channel: grpc.aio.Channel, random: Random) -> None:
    hello = cluster_service_pb2.Hello(
        cluster=random.choice(("c1", "bad")), adapter_id="evil", incarnation="i", epoch=1
    )
    hello.min_protocol = hello.max_protocol = 1
    requests = [cluster_service_pb2.ConnectRequest(hello=hello)]
    if random.random() < 0.3:
        scramble(hello, random, 0.3)
    begin = cluster_service_pb2.SnapshotBegin(first_seq=1)
    requests.append(cluster_service_pb2.ConnectRequest(snapshot_begin=begin))
    ops = hostile_ops(random, 10)
    batch = delta_pb2.DeltaBatch(first_seq=1, ops=ops)
    requests.append(cluster_service_pb2.ConnectRequest(delta_batch=batch))
    end = cluster_service_pb2.SnapshotEnd(seq=len(ops))
    requests.append(cluster_service_pb2.ConnectRequest(snapshot_end=end))
    odd = cluster_service_pb2.ConnectRequest()
    scramble(odd, random, 0.5)
    requests.insert(random.randrange(len(requests) + 1), odd)
    call: Any = channel.stream_stream("/pumice.v1.ClusterService/Connect")()
    try:
        for request in requests:
            await call.write(damaged(request.SerializeToString(), random))
        async with asyncio.timeout(0.05):
            while await call.read() is not grpc.aio.EOF:
                pass
    except (TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
    call.cancel()


@pytest.mark.parametrize("seed", range(4))
async def test_no_traceback_and_no_harm_to_others(
    core: RunningCore, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(seed)
    # A higher epoch than any that the others can send; with one they would take its place.
    honest = await core.served([queue(), node("n1")], epoch=10**12)
    channel = core.channel()
    for _ in range(25):
        await asyncio.gather(ask(channel, random), ask(channel, random), connect(channel, random))
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert not [
        r for r in caplog.records if r.name.startswith("grpc") and r.levelno >= logging.ERROR
    ]
    ack = await honest.tell(*gang("job", 1))
    assert not ack.rejected
    core.clock.advance(1)
    assert [d.bind.node for d in await honest.decisions()] == ["n1"]
    for cluster in core.server._clusters.names():
        assert core.metric("pumice_state_lost_total", cluster) == 0


def written(core: RunningCore, size: int, count: int) -> None:
    """Puts large messages into the queue of the only stream of a core."""
    (stream,) = core.server._adapters._open
    status = cluster_service_pb2.StatusBatch(session=1)
    status.events.add(message="x" * size)
    large = cluster_service_pb2.ConnectResponse(status_batch=status)
    for _ in range(count):
        stream.send(large)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


class SlowContext:
    """A call of which a write takes a while; a status must not be sent meanwhile."""

    def __init__(self) -> None:
        self.is_writing = False
        self.codes: list[grpc.StatusCode] = []

    def peer(self) -> str:
        return "unix:"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def write(self, _: object) -> None:
        self.is_writing = True
        await asyncio.sleep(0.02)
        self.is_writing = False

    async def abort(self, code: grpc.StatusCode, *_: object) -> None:
        assert not self.is_writing
        self.codes.append(code)


async def test_a_refusal_waits_for_a_write_in_flight(core: RunningCore) -> None:
    context = SlowContext()
    hello = ScriptedAdapter(core.channel()).hello

    async def requests() -> AsyncIterator[cluster_service_pb2.ConnectRequest]:
        # The core writes Welcome while it reads what it must refuse.
        yield cluster_service_pb2.ConnectRequest(hello=hello)
        while not context.is_writing:
            await asyncio.sleep(0)
        yield cluster_service_pb2.ConnectRequest(hello=hello)

    await core.server._adapters.Connect(requests(), context)
    assert context.codes == [grpc.StatusCode.INVALID_ARGUMENT]


async def test_an_adapter_that_never_reads_is_cut_without_a_traceback(
    socket_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(go_away_ns=50_000_000)
    async with running_core(socket_folder, limits) as core:
        adapter = await core.served([queue()], epoch=1)
        (stream,) = core.server._adapters._open
        written(core, 1_000_000, 50)
        await adapter.send(hello=adapter.hello)
        await stream.finished.wait()
        code, _ = await adapter.ended_with()
        assert code is not grpc.StatusCode.OK
    assert tracebacks(caplog) == []

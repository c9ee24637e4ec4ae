"""An adapter that sends as fast as the core's credit allows, and counts acknowledgements and decisions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any

import grpc.aio

from pumice.bench.wire_clusters import upsert
from pumice.core.deltas import ClusterObject
from pumice.v1 import cluster_service_pb2, configuration_pb2, decision_pb2, delta_pb2, object_pb2
from pumice.v1.cluster_service_pb2 import ConnectRequest, ConnectResponse

METHOD = "/pumice.v1.ClusterService/Connect"
BATCH_OPS = 1000
_TIMEOUT_SECONDS = 120.0


@dataclass
class BenchAdapter:
    """The stream to a core; coroutines can wait for acknowledgements and decisions."""

    channel: grpc.aio.Channel
    seq: int = 0
    acknowledged: int = 0
    limit: int = 0
    decided: int = 0
    # Number of the last session that decided something.
    session: int = 0
    decisions: list[decision_pb2.Decision] = field(default_factory=list)
    rejected: int = 0
    ended: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    send_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def connect(self) -> None:
        method = self.channel.stream_stream(
            METHOD, request_serializer=bytes, response_deserializer=ConnectResponse.FromString
        )
        self._call: Any = method()
        hello = cluster_service_pb2.Hello(
            cluster="bench",
            adapter_id="bench",
            incarnation="1",
            epoch=1,
            min_protocol=1,
            max_protocol=1,
            capabilities=cluster_service_pb2.Capability.values(),
        )
        await self.send(ConnectRequest(hello=hello))
        first = await self._call.read()
        assert isinstance(first, ConnectResponse)
        self.limit = first.welcome.limits.credit
        self._reading = asyncio.create_task(self._read())

    async def send(self, request: ConnectRequest) -> None:
        await self._call.write(request.SerializeToString())

    async def _read(self) -> None:
        try:
            while isinstance(message := await self._call.read(), ConnectResponse):
                self._handle(message)
            self.ended = "the core ended the stream"
        except grpc.aio.AioRpcError as error:
            self.ended = f"the stream broke: {error.details()}"
        self.changed.set()

    def _handle(self, message: ConnectResponse) -> None:
        if message.HasField("ack"):
            self.acknowledged = message.ack.applied_seq
            self.limit = message.ack.applied_seq + message.ack.credit
            self.rejected += len(message.ack.rejected)
        elif message.HasField("decision_batch"):
            self.session = message.decision_batch.session
            self.decided += len(message.decision_batch.decisions)
            self.decisions += message.decision_batch.decisions
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition; raises an error when the stream ends, or after a timeout."""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while not condition():
                if self.ended:
                    raise ConnectionError(self.ended)
                self.changed.clear()
                await self.changed.wait()

    async def until_acknowledged(self, seq: int) -> None:
        await self.until(lambda: self.acknowledged >= seq)

    async def until_decided(self, count: int) -> None:
        await self.until(lambda: self.decided >= count)

    async def send_encoded(self, batches: Iterable[tuple[int, bytes]]) -> None:
        for count, encoded in batches:
            self.seq += count
            await self.until(lambda: self.limit >= self.seq)
            await self._call.write(encoded)

    async def send_ops(self, ops: Sequence[delta_pb2.Op]) -> int:
        """Sends one batch and returns its last sequence number. Tasks can call it concurrently."""
        async with self.send_lock:
            batch = delta_pb2.DeltaBatch(first_seq=self.seq + 1, ops=ops)
            await self.send_encoded([(len(ops), _encoded(batch))])
            return self.seq

    async def send_objects(self, objects: Iterable[ClusterObject], revision: int = 1) -> int:
        return await self.send_ops([upsert(item, revision) for item in objects])

    async def close(self) -> None:
        self._reading.cancel()
        self._call.cancel()
        await self.channel.close()


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[BenchAdapter]:
    adapter = BenchAdapter(grpc.aio.insecure_channel(address))
    await adapter.connect()
    try:
        yield adapter
    finally:
        await adapter.close()


@dataclass
class Snapshot:
    """A cluster as encoded messages, so that encoding is not part of the measurement."""

    batches: list[tuple[int, bytes]]
    digests: list[delta_pb2.KindDigest]

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.batches)

    async def send(self, adapter: BenchAdapter) -> float:
        """Sends the snapshot; returns the seconds until its last op is acknowledged."""
        began = time.perf_counter()
        begin = cluster_service_pb2.SnapshotBegin(first_seq=1)
        await adapter.send(ConnectRequest(snapshot_begin=begin))
        await adapter.send_encoded(self.batches)
        await adapter.until_acknowledged(adapter.seq)
        assert not adapter.rejected, f"{adapter.rejected} objects set aside"
        return time.perf_counter() - began

    async def end(self, adapter: BenchAdapter) -> None:
        end = cluster_service_pb2.SnapshotEnd(seq=adapter.seq, digests=self.digests)
        await adapter.send(ConnectRequest(snapshot_end=end))


def snapshot_of(objects: Iterable[ClusterObject], scheduler_conf: str = "") -> Snapshot:
    """Encodes a configuration and objects in batches."""
    configuration = configuration_pb2.Configuration(scheduler_conf=scheduler_conf)
    first = delta_pb2.DeltaBatch(first_seq=1, ops=[delta_pb2.Op(configuration=configuration)])
    batches, sums = [(1, _encoded(first))], _Sums()
    rest, seq = iter(objects), 2
    while ops := [upsert(item) for item in islice(rest, BATCH_OPS)]:
        batches.append((len(ops), _encoded(delta_pb2.DeltaBatch(first_seq=seq, ops=ops))))
        sums.add(op.upsert for op in ops)
        seq += len(ops)
    return Snapshot(batches, sums.digests())


def batches_of(ops: Iterable[delta_pb2.Op], size: int = BATCH_OPS) -> Iterator[list[delta_pb2.Op]]:
    rest = iter(ops)
    while batch := list(islice(rest, size)):
        yield batch


def _encoded(batch: delta_pb2.DeltaBatch) -> bytes:
    return ConnectRequest(delta_batch=batch).SerializeToString()


@dataclass(slots=True)
class _Sums:
    """Counts and sums of hashes, by kind."""

    held: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, upserts: Iterable[delta_pb2.Upsert]) -> None:
        for item in upserts:
            word = item.object.WhichOneof("object")
            assert word is not None
            kind = item.object.DESCRIPTOR.fields_by_name[word].number
            key = f"{getattr(item.object, word).uid}\0{item.revision}".encode()
            number = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
            count, total = self.held.get(kind, (0, 0))
            self.held[kind] = (count + 1, (total + number) % 2**64)

    def digests(self) -> list[delta_pb2.KindDigest]:
        return [
            delta_pb2.KindDigest(kind=object_pb2.Kind.ValueType(kind), count=count, sum=total)
            for kind, (count, total) in sorted(self.held.items())
        ]

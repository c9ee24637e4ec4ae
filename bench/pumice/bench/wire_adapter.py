"""A core in a process of its own, and an adapter that sends as fast as it is allowed to."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import grpc.aio

from pumice.v1 import cluster_service_pb2, configuration_pb2, delta_pb2, object_pb2
from pumice.v1.cluster_service_pb2 import ConnectRequest, ConnectResponse

METHOD = "/pumice.v1.ClusterService/Connect"
BATCH_OPS = 1000


@asynccontextmanager
async def core_process() -> AsyncIterator[str]:
    """A core of its own on a socket; its address."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        address = f"unix:{Path(folder) / 'core.sock'}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from pumice.cli.main import main; main()"),
            *("core", "--listen", address, "--log-level", "error"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        try:
            yield address
        finally:
            process.terminate()
            await process.wait()


@dataclass
class BenchAdapter:
    """Sends as fast as the credit allows; hands what comes back to whoever waits for it."""

    channel: grpc.aio.Channel
    seq: int = 0
    acknowledged: int = 0
    limit: int = 0
    decided: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

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
        while isinstance(message := await self._call.read(), ConnectResponse):
            if message.HasField("ack"):
                self.acknowledged = message.ack.applied_seq
                self.limit = message.ack.applied_seq + message.ack.credit
            elif message.HasField("decision_batch"):
                self.decided += len(message.decision_batch.decisions)
            self.news.set()

    async def until(self, condition: Any) -> None:
        while not condition():
            self.news.clear()
            await self.news.wait()

    async def send_encoded(self, batches: list[tuple[int, bytes]]) -> None:
        for count, encoded in batches:
            self.seq += count
            await self.until(lambda: self.limit >= self.seq)
            await self._call.write(encoded)

    async def send_objects(self, *objects: object_pb2.ClusterObject) -> None:
        await self.send_encoded(encode(self.seq, list(objects)))

    async def close(self) -> None:
        self._reading.cancel()
        self._call.cancel()
        await self.channel.close()


def encode(after_seq: int, objects: list[object_pb2.ClusterObject]) -> list[tuple[int, bytes]]:
    """Batches as they go over the wire: what is measured is the stream, not the making."""
    batches = []
    for start in range(0, len(objects), BATCH_OPS):
        part = objects[start : start + BATCH_OPS]
        ops = [delta_pb2.Op(upsert=delta_pb2.Upsert(revision=1, object=item)) for item in part]
        batch = delta_pb2.DeltaBatch(first_seq=after_seq + start + 1, ops=ops)
        batches.append((len(part), ConnectRequest(delta_batch=batch).SerializeToString()))
    return batches


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
    """All of a cluster, encoded: what is measured is the stream and the core behind it."""

    batches: list[tuple[int, bytes]]
    digests: list[delta_pb2.KindDigest]

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.batches)

    async def send(self, adapter: BenchAdapter) -> float:
        """Seconds from the first marker until the last op is acknowledged."""
        began = time.perf_counter()
        begin = cluster_service_pb2.SnapshotBegin(first_seq=1)
        await adapter.send(ConnectRequest(snapshot_begin=begin))
        await adapter.send_encoded(self.batches)
        await adapter.until(lambda: adapter.acknowledged >= adapter.seq)
        return time.perf_counter() - began

    async def end(self, adapter: BenchAdapter) -> None:
        end = cluster_service_pb2.SnapshotEnd(seq=adapter.seq, digests=self.digests)
        await adapter.send(ConnectRequest(snapshot_end=end))


def snapshot_of(objects: list[object_pb2.ClusterObject]) -> Snapshot:
    configuration = delta_pb2.Op(configuration=configuration_pb2.Configuration())
    first = delta_pb2.DeltaBatch(first_seq=1, ops=[configuration])
    batches = [(1, ConnectRequest(delta_batch=first).SerializeToString()), *encode(1, objects)]
    return Snapshot(batches, digests_of(objects))


def digests_of(objects: list[object_pb2.ClusterObject]) -> list[delta_pb2.KindDigest]:
    sums: dict[int, tuple[int, int]] = {}
    for item in objects:
        word = item.WhichOneof("object")
        assert word is not None
        kind = item.DESCRIPTOR.fields_by_name[word].number
        key = f"{getattr(item, word).uid}\0{1}".encode()
        number = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
        count, total = sums.get(kind, (0, 0))
        sums[kind] = (count + 1, (total + number) % 2**64)
    return [
        delta_pb2.KindDigest(kind=object_pb2.Kind.ValueType(kind), count=count, sum=total)
        for kind, (count, total) in sorted(sums.items())
    ]

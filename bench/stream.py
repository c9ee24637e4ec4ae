"""Measures the stream between an adapter and a core, process to process; one JSON line a result.

python bench/stream.py [--nodes N] [--pods N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pumice.v1 import (
    cluster_service_pb2,
    configuration_pb2,
    delta_pb2,
    group_pb2,
    node_pb2,
    object_pb2,
    pod_pb2,
)
from pumice.v1.cluster_service_pb2 import ConnectRequest, ConnectResponse

METHOD = "/pumice.v1.ClusterService/Connect"
GIB = 2**30
BATCH_OPS = 1000
CLASSES = 100


def node(number: int) -> object_pb2.ClusterObject:
    amounts = {"cpu": 64_000, "memory": 256 * GIB, "pods": 250}
    held = node_pb2.Node(
        uid=f"node-{number:05}", name=f"node-{number:05}", allocatable=amounts, capacity=amounts
    )
    return object_pb2.ClusterObject(node=held)


def queue(name: str) -> object_pb2.ClusterObject:
    state = group_pb2.QUEUE_STATE_OPEN
    return object_pb2.ClusterObject(queue=group_pb2.Queue(uid=f"q-{name}", name=name, state=state))


def group(job: int, minimum: int, queues: int, running: int = 0) -> object_pb2.ClusterObject:
    phase = group_pb2.POD_GROUP_PHASE_RUNNING if running else group_pb2.POD_GROUP_PHASE_PENDING
    ready = group_pb2.PodGroupCondition(
        type="Scheduled", status="True", reason="tasks in gang are ready to be scheduled"
    )
    held = group_pb2.PodGroup(
        uid=f"group-{job:05}",
        namespace="bench",
        name=f"job-{job:05}",
        queue=f"queue-{job % queues}",
        min_member=minimum,
        spec_hash="x",
        status=group_pb2.PodGroupStatus(
            phase=phase, running=running, conditions=[ready] if running else []
        ),
    )
    return object_pb2.ClusterObject(pod_group=held)


def pod(job: int, number: int, node_name: str = "") -> object_pb2.ClusterObject:
    running = pod_pb2.POD_PHASE_RUNNING if node_name else pod_pb2.POD_PHASE_PENDING
    held = pod_pb2.Pod(
        uid=f"pod-{job:05}-{number:05}",
        namespace="bench",
        name=f"job-{job:05}-{number:05}",
        group_name=f"job-{job:05}",
        labels={"app": f"job-{job:05}", "team": "bench", "tier": "batch"},
        phase=running,
        node_name=node_name,
        spec=pod_pb2.PodSpec(
            requests={"cpu": 100 + 10 * (job % CLASSES), "memory": GIB, "pods": 1},
            non_zero_milli_cpu=100 + 10 * (job % CLASSES),
            non_zero_memory_bytes=GIB,
            scheduler_name="volcano",
            container_count=1,
        ),
    )
    return object_pb2.ClusterObject(pod=held)


def running_cluster(nodes: int, pods: int, gang: int = 10) -> Iterator[object_pb2.ClusterObject]:
    """Nodes, queues and gangs whose pods run already."""
    yield from (queue(f"queue-{number}") for number in range(4))
    yield from (node(number) for number in range(nodes))
    for job in range(pods // gang):
        yield group(job, gang, 4, gang)
        for number in range(gang):
            yield pod(job, number, f"node-{(job * gang + number) % nodes:05}")


def pending_cluster(nodes: int, pods: int, gang: int = 10) -> Iterator[object_pb2.ClusterObject]:
    """The same with nothing placed yet."""
    yield from (queue(f"queue-{number}") for number in range(4))
    yield from (node(number) for number in range(nodes))
    for job in range(pods // gang):
        yield group(job, gang, 4)
        yield from (pod(job, number) for number in range(gang))


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


async def measure_snapshot(nodes: int, pods: int) -> dict[str, Any]:
    """Deltas per second through the stream, and the whole snapshot with its first session."""
    pending = [group(99_999, 1, 4), pod(99_999, 0)]
    snapshot = snapshot_of([*running_cluster(nodes, pods), *pending])
    async with core_process() as address, connected(address) as adapter:
        began = time.perf_counter()
        seconds = await snapshot.send(adapter)
        await snapshot.end(adapter)
        await adapter.until(lambda: adapter.decided)
        whole = time.perf_counter() - began
    return {
        "benchmark": "snapshot",
        "nodes": nodes,
        "pods": pods,
        "deltas_per_second": round(snapshot.count / seconds),
        "seconds_with_first_session": round(whole, 3),
    }


async def measure_latency(nodes: int, pods: int, rounds: int) -> dict[str, Any]:
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
    return {
        "benchmark": "delta to decision at rest",
        "nodes": nodes,
        "pods": pods,
        "rounds": rounds,
        "median_ms": round(statistics.median(times), 1),
        "p99_ms": round(quantile(times, 0.99), 1),
    }


async def measure_health(nodes: int, pods: int) -> dict[str, Any]:
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
    return {
        "benchmark": "health check during a session",
        "nodes": nodes,
        "pods": pods,
        "checks": len(times),
        "median_ms": round(statistics.median(times), 2),
        "p99_ms": round(quantile(times, 0.99), 2),
        "max_ms": round(max(times), 2),
        "session_seconds": round(whole, 3),
    }


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


async def measure_all(nodes: int, pods: int, rounds: int) -> AsyncIterator[dict[str, Any]]:
    yield await measure_snapshot(nodes, pods)
    yield await measure_latency(min(nodes, 1000), min(pods, 10_000), rounds)
    yield await measure_health(1000, 10_000)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    async for result in measure_all(given.nodes, given.pods, given.rounds):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

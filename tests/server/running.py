"""A core that listens on a socket in this process, a clock to turn, and a scripted adapter."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from pumice.server.core_environment import CoreEnvironment
from pumice.server.digests import KindSums
from pumice.server.limits import Limits
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.wire import object_ref, write_upsert
from pumice.v1 import (
    cluster_service_pb2,
    cluster_service_pb2_grpc,
    configuration_pb2,
    decision_pb2,
    delta_pb2,
    group_pb2,
    inspection_service_pb2,
    inspection_service_pb2_grpc,
    node_pb2,
    object_pb2,
    pod_pb2,
    scheduling_service_pb2_grpc,
    session_pb2,
)
from pumice.v1.cluster_service_pb2 import ConnectRequest, ConnectResponse

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND
GIB = 2**30


class ManualClock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self._ns = START
        # Difference between the wall clock and the ticks.
        self._jump_ns = 0
        self._waiting: set[threading.Condition] = set()

    def now_ns(self) -> int:
        return self._ns + self._jump_ns

    def ticks_ns(self) -> int:
        return self._ns

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        self._waiting.add(condition)
        if until_ns is None or until_ns > self._ns:
            condition.wait()

    def jump(self, seconds: float) -> None:
        """Sets the wall clock forward or back. No time passes."""
        self._jump_ns += int(seconds * SECOND)

    def advance(self, seconds: float) -> None:
        self._ns += int(seconds * SECOND)
        for condition in list(self._waiting):
            with condition:
                condition.notify_all()


def queue(name: str = "default", **fields: Any) -> object_pb2.ClusterObject:
    state = group_pb2.QUEUE_STATE_OPEN
    held = group_pb2.Queue(uid=f"queue-{name}", name=name, state=state, **fields)
    return object_pb2.ClusterObject(queue=held)


def node(name: str, cpu: int = 4000) -> object_pb2.ClusterObject:
    amounts = {"cpu": cpu, "memory": 64 * GIB, "pods": 110}
    held = node_pb2.Node(uid=f"node-{name}", name=name, allocatable=amounts, capacity=amounts)
    return object_pb2.ClusterObject(node=held)


def group(name: str, minimum: int, **fields: Any) -> object_pb2.ClusterObject:
    held = group_pb2.PodGroup(
        uid=f"group-{name}",
        namespace="team",
        name=name,
        min_member=minimum,
        spec_hash=f"hash of {name}",
        **fields,
    )
    return object_pb2.ClusterObject(pod_group=held)


def pod(job: str, number: int, cpu: int = 1000, **fields: Any) -> object_pb2.ClusterObject:
    fields.setdefault("phase", pod_pb2.POD_PHASE_PENDING)
    held = pod_pb2.Pod(
        uid=f"pod-{job}-{number}",
        namespace="team",
        name=f"{job}-{number}",
        group_name=job,
        spec=pod_pb2.PodSpec(
            requests={"cpu": cpu, "memory": GIB, "pods": 1}, scheduler_name="volcano"
        ),
        **fields,
    )
    return object_pb2.ClusterObject(pod=held)


def gang(job: str, size: int, cpu: int = 1000) -> list[object_pb2.ClusterObject]:
    return [group(job, size), *(pod(job, number, cpu) for number in range(size))]


def configuration(text: str = "", **fields: Any) -> delta_pb2.Op:
    held = configuration_pb2.Configuration(scheduler_conf=text, **fields)
    return delta_pb2.Op(configuration=held)


def outcome(decision_id: str, code: decision_pb2.OutcomeCode.ValueType) -> delta_pb2.Op:
    return delta_pb2.Op(outcome=decision_pb2.Outcome(decision_id=decision_id, code=code))


def tombstone(kind: object_pb2.Kind.ValueType, uid: str) -> delta_pb2.Op:
    return delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=uid))


class ScriptedAdapter:
    """Speaks the protocol by hand: each step is a call, nothing happens by itself."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster: str = "c1", incarnation: str = "i1", **hello: Any
    ) -> None:
        stub: Any = cluster_service_pb2_grpc.ClusterServiceStub(channel)
        self._call = stub.Connect()
        hello.setdefault("adapter_id", "a1")
        hello.setdefault("epoch", 1)
        hello.setdefault("capabilities", cluster_service_pb2.Capability.values())
        self.hello = cluster_service_pb2.Hello(
            cluster=cluster, incarnation=incarnation, min_protocol=1, max_protocol=1, **hello
        )
        self.seq = 0
        self.sums = KindSums()
        self._kept: list[ConnectResponse] = []
        self._revision = 0

    async def send(self, **message: Any) -> None:
        # A core that refused the stream already says so when it is read.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(ConnectRequest(**message))

    async def read(self) -> ConnectResponse | None:
        """The next message; None when the core has ended the stream well."""
        message = await self._call.read()
        return message if isinstance(message, ConnectResponse) else None

    async def next(self, kind: str) -> Any:
        """The next message of a kind; others are kept for those who ask for them."""
        for number, kept in enumerate(self._kept):
            if kept.HasField(kind):  # type: ignore[arg-type]
                return getattr(self._kept.pop(number), kind)
        while True:
            message = await self.read()
            assert message is not None, f"the stream ended, no {kind} came"
            assert kind == "go_away" or not message.HasField("go_away"), message
            if message.HasField(kind):  # type: ignore[arg-type]
                return getattr(message, kind)
            self._kept.append(message)

    async def ended_with(self) -> tuple[grpc.StatusCode, Any]:
        """Reads to the end; the status and the call's trailing metadata."""
        try:
            while await self.read() is not None:
                pass
        except grpc.aio.AioRpcError as error:
            return error.code(), error.trailing_metadata()
        return await self._call.code(), await self._call.trailing_metadata()

    async def connect(self) -> cluster_service_pb2.Welcome:
        await self.send(hello=self.hello)
        welcome: cluster_service_pb2.Welcome = await self.next("welcome")
        if welcome.mode == cluster_service_pb2.WELCOME_MODE_RESUME:
            self.seq = welcome.resume_after_seq
        return welcome

    def upserts(self, objects: Iterable[object_pb2.ClusterObject]) -> list[delta_pb2.Op]:
        ops = []
        for item in objects:
            self._revision += 1
            kind, uid, _ = object_ref(item)
            self.sums.put(kind, uid, self._revision)
            upsert = write_upsert(item, self._revision)
            ops.append(delta_pb2.Op(upsert=upsert))
        return ops

    async def post(self, *items: object_pb2.ClusterObject | delta_pb2.Op) -> None:
        """Sends a batch without waiting for its Ack."""
        ops: list[delta_pb2.Op] = []
        for item in items:
            ops += self.upserts([item]) if isinstance(item, object_pb2.ClusterObject) else [item]
        await self.send(delta_batch=delta_pb2.DeltaBatch(first_seq=self.seq + 1, ops=ops))
        self.seq += len(ops)

    async def tell(
        self, *items: object_pb2.ClusterObject | delta_pb2.Op
    ) -> cluster_service_pb2.Ack:
        await self.post(*items)
        return await self.acknowledged()

    async def configure(self, op: delta_pb2.Op) -> cluster_service_pb2.ConfigurationResult:
        await self.post(op)
        while True:
            result: cluster_service_pb2.ConfigurationResult = await self.next(
                "configuration_result"
            )
            if result.seq == self.seq:
                return result

    async def acknowledged(self) -> cluster_service_pb2.Ack:
        """The Ack of all that was sent."""
        while True:
            ack: cluster_service_pb2.Ack = await self.next("ack")
            if ack.applied_seq >= self.seq:
                return ack

    async def snapshot(
        self,
        objects: Sequence[object_pb2.ClusterObject],
        *ops: delta_pb2.Op,
        kinds: Sequence[object_pb2.Kind.ValueType] = (),
    ) -> None:
        begin = cluster_service_pb2.SnapshotBegin(first_seq=self.seq + 1, kinds=kinds)
        await self.send(snapshot_begin=begin)
        if not kinds and not ops:
            ops = (configuration(),)
        await self.tell(*objects, *ops)
        await self.send(
            snapshot_end=cluster_service_pb2.SnapshotEnd(seq=self.seq, digests=self.sums.write())
        )
        await self.acknowledged()

    async def digest(self) -> None:
        digests = self.sums.write()
        await self.send(digest=cluster_service_pb2.Digest(seq=self.seq, digests=digests))

    async def decisions(self) -> list[decision_pb2.Decision]:
        batch = await self.next("decision_batch")
        return list(batch.decisions)

    async def close(self) -> None:
        await self._call.done_writing()
        await self.ended_with()

    def cut(self) -> None:
        self._call.cancel()


class RunningCore:
    """A core, its clock and channels to it."""

    def __init__(self, server: CoreServer, env: CoreEnvironment, clock: ManualClock) -> None:
        self.server = server
        self.env = env
        self.clock = clock
        self._channels: list[grpc.aio.Channel] = []

    def channel(self) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(
            self.server.address, options=(("grpc.use_local_subchannel_pool", 1),)
        )
        self._channels.append(channel)
        return channel

    def adapter(self, **hello: Any) -> ScriptedAdapter:
        return ScriptedAdapter(self.channel(), **hello)

    async def served(
        self, objects: Sequence[object_pb2.ClusterObject], *ops: delta_pb2.Op, **hello: Any
    ) -> ScriptedAdapter:
        """An adapter whose snapshot was taken in."""
        adapter = self.adapter(**hello)
        await adapter.connect()
        await adapter.snapshot(objects, *ops)
        return adapter

    def metric(self, name: str, cluster: str = "c1") -> float:
        """The value of a series that has no other label."""
        registry = self.env.metrics.registry
        for family in registry.restricted_registry([name]).collect():
            for sample in family.samples:
                if sample.name == name and sample.labels == {"cluster": cluster}:
                    return float(sample.value)
        return 0.0

    def inspection(self) -> Any:
        return inspection_service_pb2_grpc.InspectionServiceStub(self.channel())

    def scheduling(self) -> Any:
        return scheduling_service_pb2_grpc.SchedulingServiceStub(self.channel())

    async def session(self, number: int, cluster: str = "") -> session_pb2.SessionDetail:
        """The session of that number, when it has run."""
        request = inspection_service_pb2.GetSessionRequest(cluster=cluster, session=number)
        stub = self.inspection()
        while True:
            try:
                detail: session_pb2.SessionDetail = (await stub.GetSession(request)).session
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                await asyncio.sleep(0.01)
            else:
                return detail

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


@asynccontextmanager
async def running_core(
    folder: Path, limits: Limits | None = None, **fields: Any
) -> AsyncIterator[RunningCore]:
    clock = ManualClock()
    env = CoreEnvironment(clock=clock, limits=limits or Limits(), **fields)
    server = CoreServer(ServerOptions(f"unix:{folder}/core.sock", env=env))
    await server.start()
    running = RunningCore(server, env, clock)
    try:
        yield running
    finally:
        await running.close()
        await server.stop()

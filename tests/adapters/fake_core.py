"""A core that speaks the real protocol over a real socket and does what a test tells it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from pumice.v1.cluster_service_pb2 import (
    WELCOME_MODE_RESUME,
    WELCOME_MODE_SNAPSHOT,
    Ack,
    ConnectRequest,
    ConnectResponse,
    DecisionBatch,
    GoAway,
    GoAwayReason,
    Hello,
    Limits,
    Resync,
    StatusBatch,
    Welcome,
)
from pumice.v1.cluster_service_pb2_grpc import (
    ClusterServiceServicer,
    add_ClusterServiceServicer_to_server,
)
from pumice.v1.decision_pb2 import Decision, Gang
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_clock import until


@dataclass(frozen=True)
class _End:
    code: grpc.StatusCode | None = None
    details: str = ""
    reason: str = ""

    def metadata(self) -> tuple[tuple[str, bytes], ...]:
        if self.code is None or not self.reason:
            return ()
        status = status_pb2.Status(code=self.code.value[0], message=self.details)
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain="pumice.v1")
        status.details.add().Pack(info)
        return (("grpc-status-details-bin", status.SerializeToString()),)


class FakeStream:
    """One stream as the core sees it."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[ConnectRequest] = asyncio.Queue()
        self.outgoing: asyncio.Queue[ConnectResponse | _End] = asyncio.Queue()
        self.hello = Hello()
        self.is_over = False

    async def receive(self) -> ConnectRequest:
        return await asyncio.wait_for(self.incoming.get(), 60)

    def send(self, **message: Any) -> None:
        self.outgoing.put_nowait(ConnectResponse(**message))

    def end(self, code: grpc.StatusCode | None = None, details: str = "", reason: str = "") -> None:
        self.outgoing.put_nowait(_End(code, details, reason))

    def go_away(self, reason: GoAwayReason.ValueType) -> None:
        self.send(go_away=GoAway(reason=reason))
        self.end()

    def decide(
        self,
        decisions: Sequence[Decision],
        gangs: Sequence[Gang] = (),
        *,
        epoch: int | None = None,
        based_on_seq: int = 1 << 40,
    ) -> None:
        batch = DecisionBatch(
            session=1,
            epoch=self.hello.epoch if epoch is None else epoch,
            based_on_seq=based_on_seq,
            gangs=gangs,
            decisions=decisions,
        )
        self.send(decision_batch=batch)

    def say_status(self, batch: StatusBatch) -> None:
        batch.epoch = self.hello.epoch
        self.send(status_batch=batch)

    def resync(self, resync: Resync) -> None:
        self.send(resync=resync)


class FakeCore(ClusterServiceServicer):
    """Accepts streams; each waits until the test takes it."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[FakeStream] = asyncio.Queue()
        self.streams = 0

    async def Connect(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[ConnectRequest], context: Any
    ) -> None:
        stream = FakeStream()
        self.streams += 1
        self.accepted.put_nowait(stream)

        async def read() -> None:
            async for request in request_iterator:
                stream.incoming.put_nowait(request)
            stream.is_over = True

        reader = asyncio.create_task(read())
        try:
            while True:
                message = await stream.outgoing.get()
                if isinstance(message, ConnectResponse):
                    await context.write(message)
                elif message.code is None:
                    return
                else:
                    await context.abort(message.code, message.details, message.metadata())
        finally:
            stream.is_over = True
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def accept(self) -> FakeStream:
        """The next stream that lives long enough to say Hello."""
        while True:
            stream = await asyncio.wait_for(self.accepted.get(), 60)
            await until(lambda stream=stream: stream.is_over or not stream.incoming.empty())  # type: ignore[misc]
            if not stream.incoming.empty():
                first = stream.incoming.get_nowait()
                assert first.WhichOneof("message") == "hello"
                stream.hello = first.hello
                return stream


class ServedStream:
    """A stream with a model behind it that takes everything in, and acknowledges it."""

    def __init__(self, stream: FakeStream, model: CoreModel, *, credit: int, acks: bool) -> None:
        self.stream = stream
        self.model = model
        self.credit = credit
        self.acks = acks
        self.batches: list[int] = []
        self._task = asyncio.create_task(self._serve())

    def ack(self, **fields: Any) -> None:
        ack = Ack(applied_seq=self.model.applied_seq, credit=self.credit, **fields)
        self.stream.send(ack=ack)

    async def _serve(self) -> None:
        while True:
            request = await self.stream.incoming.get()
            self.model.take(request)
            if request.HasField("delta_batch"):
                self.batches.append(len(request.delta_batch.ops))
            if self.acks:
                self.ack()

    async def until(self, happened: Any, what: str = "the core did not get there") -> None:
        def checked() -> object:
            if self._task.done():
                self._task.result()
            return happened()

        await until(checked, what)

    async def snapshot_done(self, count: int = 1) -> None:
        await self.until(lambda: self.model.snapshots >= count, "no snapshot")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.model.stream_ended()


def serve(
    stream: FakeStream,
    model: CoreModel | None = None,
    *,
    resume: bool = False,
    credit: int = 1000,
    batch_bytes: int = 100_000,
    acks: bool = True,
) -> ServedStream:
    """Welcomes the adapter and keeps a model of what it says."""
    model = model or CoreModel()
    welcome = Welcome(
        core_id="core",
        protocol=1,
        mode=WELCOME_MODE_RESUME if resume else WELCOME_MODE_SNAPSHOT,
        resume_after_seq=model.applied_seq if resume else 0,
        limits=Limits(max_message_bytes=1 << 22, batch_bytes=batch_bytes, credit=credit),
    )
    stream.send(welcome=welcome)
    return ServedStream(stream, model, credit=credit, acks=acks)


@asynccontextmanager
async def running_core(folder: Path) -> AsyncIterator[tuple[FakeCore, str]]:
    core = FakeCore()
    server = grpc.aio.server()
    add_ClusterServiceServicer_to_server(core, server)
    address = f"unix:{folder}/core.sock"
    server.add_insecure_port(address)
    await server.start()
    try:
        yield core, address
    finally:
        await server.stop(0)

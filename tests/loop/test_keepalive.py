"""A peer that is silently gone is noticed within seconds; frequent pings are allowed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.server.core_environment import CoreEnvironment
from pumice.server.server import CoreServer, ServerOptions
from pumice.v1.cluster_service_pb2 import ConnectRequest, Hello
from pumice.v1.cluster_service_pb2_grpc import ClusterServiceStub

HELLO = Hello(
    cluster="quiet", adapter_id="a", incarnation="i", epoch=1, min_protocol=1, max_protocol=1
)


class DeafTunnel:
    """A TCP connection that stays open while nothing passes any more, as behind a dead link."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.is_dead = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.create_task(self._carry(source, sink)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                if not self.is_dead:
                    sink.write(data)
        except OSError:
            pass
        finally:
            # Over a dead link nobody learns that the other side has closed.
            if not self.is_dead:
                sink.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await end_tasks(*self._tasks)
            for writer in self._writers:
                writer.close()


@pytest.fixture
def env() -> CoreEnvironment:
    return CoreEnvironment()


@pytest.fixture
async def core(env: CoreEnvironment) -> AsyncIterator[int]:
    server = CoreServer(ServerOptions("127.0.0.1:0", env=env))
    address = await server.start()
    yield int(address.rpartition(":")[2])
    await server.stop()


async def welcomed(channel: grpc.aio.Channel) -> Any:
    stub: Any = ClusterServiceStub(channel)
    call = stub.Connect()
    await call.write(ConnectRequest(hello=HELLO))
    assert (await call.read()).HasField("welcome")
    return call


async def test_a_dead_link_ends_the_stream_within_seconds(core: int) -> None:
    tunnel = DeafTunnel(core)
    async with tunnel.running() as port, channel_factory(f"127.0.0.1:{port}")() as channel:
        call = await welcomed(channel)
        tunnel.is_dead = True
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(call.read(), 30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_core_notices_an_adapter_behind_a_dead_link(
    core: int, env: CoreEnvironment
) -> None:
    tunnel = DeafTunnel(core)
    streams = env.metrics.streams.labels("quiet")
    # An adapter that sends no pings of its own.
    async with (
        tunnel.running() as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = await welcomed(channel)
        assert streams._value.get() == 1
        tunnel.is_dead = True
        async with asyncio.timeout(30):
            while streams._value.get():
                await asyncio.sleep(0.1)
        call.cancel()


async def test_a_core_allows_a_ping_every_second(core: int) -> None:
    options = (
        ("grpc.keepalive_time_ms", 1_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{core}", options=options) as channel:
        call = await welcomed(channel)
        # A stricter server would end the connection after three pings.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call.read(), 5)

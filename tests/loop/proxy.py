"""A wire between adapter and core that a test can cut, slow down or listen to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from pumice.v1.cluster_service_pb2 import ConnectRequest, ConnectResponse
from pumice.v1.cluster_service_pb2_grpc import (
    ClusterServiceServicer,
    ClusterServiceStub,
    add_ClusterServiceServicer_to_server,
)


class Wire(ClusterServiceServicer):
    """Carries every message to the core and back, unless a test is in the way."""

    def __init__(self, core_address: str) -> None:
        self._core_address = core_address
        self._calls: set[Any] = set()
        # Seconds that a message takes, asked for each one.
        self.delay: Callable[[], float] = lambda: 0.0
        # While it says so, no answer is taken from the core.
        self.holds_back: Callable[[], bool] = lambda: False
        # Asked about every answer before it is carried on; False cuts the wire there.
        self.lets_pass: Callable[[ConnectResponse], bool] = lambda _: True
        self.streams = 0

    def cut(self) -> None:
        """Both sides see their stream break."""
        for call in list(self._calls):
            call.cancel()

    async def Connect(  # noqa: N802
        self, request_iterator: AsyncIterator[ConnectRequest], context: Any
    ) -> AsyncIterator[ConnectResponse]:
        self.streams += 1
        # Without probing the network buffers no more than 64 KiB: who does not read is soon felt.
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0))
        async with grpc.aio.insecure_channel(self._core_address, options=options) as channel:
            stub: Any = ClusterServiceStub(channel)
            call = stub.Connect(self._carried(request_iterator))
            self._calls.add(call)
            try:
                async for response in call:
                    await asyncio.sleep(self.delay())
                    while self.holds_back() and not call.done():
                        await asyncio.sleep(0.01)
                    if not self.lets_pass(response):
                        await context.abort(grpc.StatusCode.UNAVAILABLE, "the wire was cut")
                    yield response
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            except asyncio.CancelledError:
                # Ours: the wire was cut. The adapter's own: it does not hear this any more.
                with suppress(asyncio.CancelledError):
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the wire was cut")
            finally:
                self._calls.discard(call)
                call.cancel()

    async def _carried(
        self, requests: AsyncIterator[ConnectRequest]
    ) -> AsyncIterator[ConnectRequest]:
        async for request in requests:
            await asyncio.sleep(self.delay())
            yield request


class ServedWire:
    """A wire that listens on an address of its own."""

    def __init__(self, core_address: str, address: str) -> None:
        self.address = address
        self.wire = Wire(core_address)
        self._server = grpc.aio.server()
        add_ClusterServiceServicer_to_server(self.wire, self._server)
        self._server.add_insecure_port(address)

    async def __aenter__(self) -> Wire:
        await self._server.start()
        return self.wire

    async def __aexit__(self, *_: object) -> None:
        self.wire.cut()
        await self._server.stop(None)

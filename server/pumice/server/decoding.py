"""Reads requests from bytes: a request that is too large or malformed gets a status, no traceback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from pumice.server.errors import LimitError, MalformedMessageError, ServiceError
from pumice.server.limits import LARGE_OBJECT_BYTES, Limits
from pumice.server.serialized import ScheduleBytes, op_sizes, read_schedule
from pumice.server.status import grpc_status

_STREAM = "/pumice.v1.ClusterService/Connect"
_SCHEDULE = "/pumice.v1.SchedulingService/Schedule"


@dataclass(frozen=True, slots=True)
class Received:
    """What the bytes of a message say."""

    size: int = 0
    # Of a batch that may have large ops.
    op_sizes: Sequence[int] = ()
    # Of Schedule.
    schedule: ScheduleBytes | None = None


# The message that the method received last, in the task that receives.
received: ContextVar[Received] = ContextVar("received", default=Received())  # noqa: B039


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Takes the place of a message that cannot be read."""

    error: ServiceError


class RequestDecoding(grpc.aio.ServerInterceptor):
    """Wraps the methods of all services.

    gRPC has one limit of sizes for all methods of a server; most methods have a lower one. Sizes and
    numbers of objects are checked on the bytes: a message takes up to a hundred times their memory.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        return _wrapped(handler, _Reader(handler.request_deserializer, self._limits, method))


class _Reader:
    """The deserializer of one call."""

    def __init__(self, read: Callable[[bytes], Any], limits: Limits, method: str) -> None:
        self._build = read
        self._limits = limits
        self._method = method
        self._read = {_STREAM: self._batch, _SCHEDULE: self._schedule}.get(method, self._small)
        # What was read last.
        self.received = Received()

    def __call__(self, data: bytes) -> Any:
        self.received = Received(len(data))
        try:
            return self._read(data)
        except ServiceError as error:
            return _Unreadable(error)
        except (DecodeError, UnicodeDecodeError):
            return _Unreadable(MalformedMessageError(f"request of {self._method}"))

    def _batch(self, data: bytes) -> Any:
        _check_size(data, self._limits.max_message_bytes)
        if len(data) > LARGE_OBJECT_BYTES:
            sizes = op_sizes(data, self._limits.credit)
            self.received = Received(len(data), sizes)
        return self._build(data)

    def _schedule(self, data: bytes) -> Any:
        parts = read_schedule(data, self._limits)
        self.received = Received(len(data), schedule=parts)
        return parts.header

    def _small(self, data: bytes) -> Any:
        _check_size(data, self._limits.small_request_bytes)
        return self._build(data)


def _check_size(data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise LimitError("bytes of a message", limit, len(data))


def _wrapped(handler: Any, reader: _Reader) -> Any:
    if handler.request_streaming:
        make, behaviour = grpc.stream_stream_rpc_method_handler, handler.stream_stream
        wrap = _many
    elif handler.response_streaming:
        make, behaviour = grpc.unary_stream_rpc_method_handler, handler.unary_stream
        wrap = _one_to_many
    else:
        make, behaviour = grpc.unary_unary_rpc_method_handler, handler.unary_unary
        wrap = _one
    return make(
        wrap(behaviour, reader),
        request_deserializer=reader,
        response_serializer=handler.response_serializer,
    )


async def _refuse(context: Any, error: ServiceError) -> None:
    status = grpc_status(error)
    await context.abort(status.code, status.details, status.trailing_metadata)


def _one(behaviour: Any, reader: _Reader) -> Any:
    async def call(request: Any, context: Any) -> Any:
        if isinstance(request, _Unreadable):
            await _refuse(context, request.error)
        received.set(reader.received)
        return await behaviour(request, context)

    return call


def _one_to_many(behaviour: Any, reader: _Reader) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        if isinstance(request, _Unreadable):
            await _refuse(context, request.error)
        async for response in behaviour(request, context):
            yield response

    return call


def _many(behaviour: Any, reader: _Reader) -> Any:
    """The behaviour writes for itself, or yields its responses."""

    async def call(requests: AsyncIterator[Any], context: Any) -> None:
        try:
            answered = behaviour(_readable(requests, reader), context)
            if not hasattr(answered, "__aiter__"):
                await answered
                return
            async for response in answered:
                await context.write(response)
        except ServiceError as error:
            await _refuse(context, error)

    return call


async def _readable(requests: AsyncIterator[Any], reader: _Reader) -> AsyncIterator[Any]:
    async for request in requests:
        received.set(reader.received)
        if isinstance(request, _Unreadable):
            raise request.error
        yield request

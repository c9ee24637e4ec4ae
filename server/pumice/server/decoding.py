"""Decodes requests. A request that is too large or malformed is refused with a status."""

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
# The bytes of an op without any field in a batch.
_LEAST_OP_BYTES = 2


@dataclass(frozen=True, slots=True)
class Received:
    """Sizes and parts of a received message, read from its bytes."""

    size: int = 0
    # Sizes of the ops of a batch that may contain large ops.
    op_sizes: Sequence[int] = ()
    # The parts of a ScheduleRequest.
    schedule: ScheduleBytes | None = None


# The last message that the current task received.
received: ContextVar[Received] = ContextVar("received", default=Received())  # noqa: B039


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Replaces a message that cannot be decoded."""

    error: ServiceError


class DecodingInterceptor(grpc.aio.ServerInterceptor):
    """Decodes the requests of all methods.

    gRPC has one size limit for all methods of a server, and most methods have a lower limit. Sizes
    and numbers of objects are checked before a message is built, because a message in memory takes
    up to a hundred times its bytes.
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
        return _wrapped(handler, _Deserializer(handler.request_deserializer, self._limits, method))


class _Deserializer:
    """The request deserializer of one call."""

    def __init__(self, read: Callable[[bytes], Any], limits: Limits, method: str) -> None:
        self._build = read
        self._limits = limits
        self._method = method
        self._read = {_STREAM: self._batch, _SCHEDULE: self._schedule}.get(method, self._small)
        # The last message.
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
        sizes: Sequence[int] = ()
        if len(data) > _LEAST_OP_BYTES * self._limits.credit:
            # Only such a message can have too many ops.
            sizes = op_sizes(data, self._limits.credit)
        request = self._build(data)
        if len(data) > LARGE_OBJECT_BYTES:
            sizes = sizes or [op.ByteSize() for op in request.delta_batch.ops]
            self.received = Received(len(data), sizes)
        return request

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


def _wrapped(handler: Any, deserializer: _Deserializer) -> Any:
    if handler.request_streaming:
        make, behaviour = grpc.stream_stream_rpc_method_handler, handler.stream_stream
        wrap = _stream
    elif handler.response_streaming:
        make, behaviour = grpc.unary_stream_rpc_method_handler, handler.unary_stream
        wrap = _unary_stream
    else:
        make, behaviour = grpc.unary_unary_rpc_method_handler, handler.unary_unary
        wrap = _unary
    return make(
        wrap(behaviour, deserializer),
        request_deserializer=deserializer,
        response_serializer=_serializer(handler),
    )


def _serializer(handler: Any) -> Callable[[Any], bytes]:
    """Messages of streams may be encoded already."""
    serialize: Callable[[Any], bytes] = handler.response_serializer
    if not handler.request_streaming:
        return serialize
    return lambda response: response if isinstance(response, bytes) else serialize(response)


async def _refuse(context: Any, error: ServiceError) -> None:
    status = grpc_status(error)
    await context.abort(status.code, status.details, status.trailing_metadata)


def _unary(behaviour: Any, deserializer: _Deserializer) -> Any:
    async def call(request: Any, context: Any) -> Any:
        if isinstance(request, _Unreadable):
            await _refuse(context, request.error)
        received.set(deserializer.received)
        return await behaviour(request, context)

    return call


def _unary_stream(behaviour: Any, deserializer: _Deserializer) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        if isinstance(request, _Unreadable):
            await _refuse(context, request.error)
        async for response in behaviour(request, context):
            yield response

    return call


def _stream(behaviour: Any, deserializer: _Deserializer) -> Any:
    """Handles methods that write their responses, and methods that yield them."""

    async def call(requests: AsyncIterator[Any], context: Any) -> None:
        try:
            answered = behaviour(_readable(requests, deserializer), context)
            if not hasattr(answered, "__aiter__"):
                await answered
                return
            async for response in answered:
                await context.write(response)
        except ServiceError as error:
            await _refuse(context, error)

    return call


async def _readable(
    requests: AsyncIterator[Any], deserializer: _Deserializer
) -> AsyncIterator[Any]:
    async for request in requests:
        received.set(deserializer.received)
        if isinstance(request, _Unreadable):
            raise request.error
        yield request

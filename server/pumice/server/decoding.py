"""Reads requests from bytes: a request that is too large or malformed gets a status, no traceback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from pumice.server.errors import LimitError, MalformedMessageError, ServiceError
from pumice.server.status import grpc_status

# The bytes of the message that a stream's method received last, in the task that receives.
received_bytes: ContextVar[bytes] = ContextVar("received_bytes", default=b"")
_STREAM = "/pumice.v1.ClusterService/Connect"


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Takes the place of a message that cannot be read."""

    error: ServiceError


class RequestDecoding(grpc.aio.ServerInterceptor):
    """Wraps the methods of all services.

    gRPC has one limit of sizes for all methods of a server; adapters' messages have a lower one. It is
    checked on the bytes, because asking a message for its size costs as much as writing it.
    """

    def __init__(self, stream_limit: int) -> None:
        self._stream_limit = stream_limit

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        limit = self._stream_limit if method == _STREAM else None
        reader = _Reader(handler.request_deserializer, limit, method)
        return _wrapped(handler, reader)


class _Reader:
    """The deserializer of one method."""

    def __init__(self, read: Callable[[bytes], Any], limit: int | None, method: str) -> None:
        self._read = read
        self._limit = limit
        self._method = method
        # What was read last.
        self.data = b""

    def __call__(self, data: bytes) -> Any:
        self.data = data
        if self._limit is not None and len(data) > self._limit:
            return _Unreadable(LimitError("bytes of a message", self._limit, len(data)))
        try:
            return self._read(data)
        except (DecodeError, UnicodeDecodeError):
            return _Unreadable(MalformedMessageError(f"request of {self._method}"))


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
        received_bytes.set(reader.data)
        if isinstance(request, _Unreadable):
            raise request.error
        yield request

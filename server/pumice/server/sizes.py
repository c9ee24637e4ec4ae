"""Keeps messages of streams small, where requests of others may be larger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

_STREAM = "/pumice.v1.ClusterService/Connect"


@dataclass(frozen=True, slots=True)
class Oversize:
    """Stands for a message that is too large to be read."""

    size: int


class StreamSizes(grpc.aio.ServerInterceptor):
    """A server has one limit of sizes, for all its methods; adapters' messages have a lower one.

    It is checked on the bytes, which are at hand: to ask a message for its size means writing it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method != _STREAM:
            return handler
        read, limit = handler.request_deserializer, self._limit
        return grpc.stream_stream_rpc_method_handler(
            handler.stream_stream,
            request_deserializer=lambda data: (
                read(data) if len(data) <= limit else Oversize(len(data))
            ),
            response_serializer=handler.response_serializer,
        )

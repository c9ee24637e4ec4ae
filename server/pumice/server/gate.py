"""Stands before every method: lets in who may, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from pumice.server.access import OPEN, AccessFile, Caller
from pumice.server.errors import ServiceError
from pumice.server.peers import certificate_names
from pumice.server.service import abort, first_word

_BEARER = "bearer "


class Gate(grpc.aio.ServerInterceptor):
    """Asks the file of roles about every call."""

    def __init__(self, access: AccessFile) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(OPEN):
            return handler
        token = _token(handler_call_details.invocation_metadata)
        return _guarded(handler, _Check(self._access, method, token))


class _Check:
    """One call: who it is, and whether they may."""

    def __init__(self, access: AccessFile, method: str, token: str | None) -> None:
        self._access = access
        self._method = method
        self._token = token

    def caller(self, context: Any) -> Caller:
        caller = self._access.caller(self._token, certificate_names(context))
        caller.check_method(self._method)
        return caller

    def request(self, caller: Caller, request: Any) -> None:
        """A caller of some clusters names one of them, where a request is about one at all."""
        held = request
        if getattr(request, "DESCRIPTOR", None) is None:
            return
        if request.DESCRIPTOR.name == "ScheduleRequest":
            if request.WhichOneof("source") != "cluster":
                return
            held = request.cluster
        elif request.DESCRIPTOR.name == "ConnectRequest":
            if not request.HasField("hello"):
                return
            held = request.hello
        if "cluster" in held.DESCRIPTOR.fields_by_name:
            held.cluster = caller.check_cluster(held.cluster)


def _token(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == "authorization" and str(value).lower().startswith(_BEARER):
            return str(value)[len(_BEARER) :].strip()
    return None


def _guarded(handler: Any, check: _Check) -> Any:
    """The same method behind the gate, whatever streams it has."""
    kinds = {
        (False, False): (handler.unary_unary, grpc.unary_unary_rpc_method_handler, _one),
        (False, True): (handler.unary_stream, grpc.unary_stream_rpc_method_handler, _stream),
        (True, True): (handler.stream_stream, grpc.stream_stream_rpc_method_handler, _both),
    }
    behaviour, make, wrap = kinds[handler.request_streaming, handler.response_streaming]
    return make(
        wrap(behaviour, check),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _one(behaviour: Any, check: _Check) -> Any:
    async def call(request: Any, context: Any) -> Any:
        try:
            check.request(check.caller(context), request)
        except ServiceError as error:
            await abort(context, error)
        return await behaviour(request, context)

    return call


def _stream(behaviour: Any, check: _Check) -> Any:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            check.request(check.caller(context), request)
        except ServiceError as error:
            await abort(context, error)
        async for response in behaviour(request, context):
            yield response

    return call


def _both(behaviour: Any, check: _Check) -> Any:
    """Connect writes for itself, reflection yields."""

    def checked(requests: AsyncIterator[Any], caller: Caller) -> AsyncIterator[Any]:
        async def each() -> AsyncIterator[Any]:
            async for request in requests:
                check.request(caller, request)
                yield request

        return each()

    async def call(requests: AsyncIterator[Any], context: Any) -> None:
        try:
            caller = check.caller(context)
        except ServiceError as error:
            await first_word(requests)
            await abort(context, error)
            return
        answered = behaviour(checked(requests, caller), context)
        if hasattr(answered, "__aiter__"):
            async for response in answered:
                await context.write(response)
        else:
            await answered

    return call

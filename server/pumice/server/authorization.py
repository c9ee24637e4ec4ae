"""Authenticates the caller of every call, and checks role and cluster before the method runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import grpc
import grpc.aio

from pumice.server.access import PUBLIC_METHODS, AccessPolicy, Caller
from pumice.server.clock import Clock
from pumice.server.errors import ServiceError
from pumice.server.metrics import Metrics
from pumice.server.peers import certificate_of, peer_of
from pumice.server.service import abort, wait_for_first_message

_BEARER = "bearer "
# The caller of the current call; None: there is no access policy.
current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
audit_log = logging.getLogger("pumice.audit")
_SECOND_NS = 1_000_000_000
# Lines of the audit log.
MAX_LINES_PER_SECOND = 20
# Refusals that an operator should look into. The others are normal.
_DENIED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class AuditLog:
    """Logs and counts refused calls. The number of lines per second is limited."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._second = -1
        self._lines = 0
        self._omitted = 0

    def record_refusal(self, method: str, caller: str, code: Any, details: str) -> None:
        status = code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN
        self._metrics.refused_calls.labels(method, status.name).inc()
        second = self._clock.ticks_ns() // _SECOND_NS
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= MAX_LINES_PER_SECOND:
            self._omitted += 1
            return
        self._lines += 1
        omitted, self._omitted = self._omitted, 0
        more = f" ({omitted} refusals before this one were not logged)" if omitted else ""
        level = logging.WARNING if status in _DENIED else logging.INFO
        audit_log.log(
            level, "refused %s to %s: %s: %s%s", method, caller, status.name, details or "", more
        )


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Applies the access policy, if there is one, and logs refused calls."""

    def __init__(self, policy: AccessPolicy | None, audit: AuditLog) -> None:
        self._policy = policy
        self._audit = audit

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        method = handler_call_details.method
        policy = None if method.startswith(PUBLIC_METHODS) else self._policy
        token = _token(handler_call_details.invocation_metadata)
        return _wrapped(handler, _Call(policy, self._audit, method, token))


class _Call:
    """The checks of one call."""

    def __init__(
        self, policy: AccessPolicy | None, audit: AuditLog, method: str, token: str | None
    ) -> None:
        self._policy = policy
        self._audit = audit
        self._method = method
        self._token = token
        self._caller: Caller | None = None

    def authorize(self, context: Any) -> None:
        if self._policy is not None:
            self._caller = self._policy.authenticate(self._token, certificate_of(context))
            self._caller.check_method(self._method)
            current_caller.set(self._caller)

    def check_request(self, request: Any) -> None:
        """Checks the cluster of a request, and sets it where the caller may leave it empty."""
        if self._caller is not None:
            field = cluster_field(request)
            if field is not None:
                field.cluster = self._caller.check_cluster(field.cluster)

    @contextmanager
    def audited(self, context: Any) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AbortError:
            name = peer_of(context) if self._caller is None else self._caller.name
            self._audit.record_refusal(self._method, name, context.code(), context.details())
            raise


def cluster_field(request: Any) -> Any | None:
    """The part of a request whose field ``cluster`` names the cluster; None: it names none."""
    held = request
    if getattr(request, "DESCRIPTOR", None) is None:
        return None
    if request.DESCRIPTOR.name == "ScheduleRequest":
        if request.WhichOneof("source") != "cluster":
            return None
        held = request.cluster
    elif request.DESCRIPTOR.name == "ConnectRequest":
        if not request.HasField("hello"):
            return None
        held = request.hello
    return held if "cluster" in held.DESCRIPTOR.fields_by_name else None


def _token(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == "authorization" and str(value).lower().startswith(_BEARER):
            return str(value)[len(_BEARER) :].strip()
    return None


def _wrapped(handler: Any, call: _Call) -> Any:
    """A handler that runs the checks and then the method."""
    kinds = {
        (False, False): (handler.unary_unary, grpc.unary_unary_rpc_method_handler, _unary),
        (False, True): (handler.unary_stream, grpc.unary_stream_rpc_method_handler, _unary_stream),
        (True, True): (handler.stream_stream, grpc.stream_stream_rpc_method_handler, _stream),
    }
    behaviour, make, wrap = kinds[handler.request_streaming, handler.response_streaming]
    return make(
        wrap(behaviour, call),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _unary(behaviour: Any, call: _Call) -> Any:
    async def checked(request: Any, context: Any) -> Any:
        with call.audited(context):
            try:
                call.authorize(context)
                call.check_request(request)
            except ServiceError as error:
                await abort(context, error)
            return await behaviour(request, context)

    return checked


def _unary_stream(behaviour: Any, call: _Call) -> Any:
    async def checked(request: Any, context: Any) -> AsyncIterator[Any]:
        with call.audited(context):
            try:
                call.authorize(context)
                call.check_request(request)
            except ServiceError as error:
                await abort(context, error)
            async for response in behaviour(request, context):
                yield response

    return checked


def _stream(behaviour: Any, call: _Call) -> Any:
    """Handles both kinds of methods: Connect writes its responses, reflection yields them."""

    async def check_each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            call.check_request(request)
            yield request

    async def checked(requests: AsyncIterator[Any], context: Any) -> None:
        with call.audited(context):
            try:
                call.authorize(context)
            except ServiceError as error:
                await wait_for_first_message(requests)
                await abort(context, error)
            answered = behaviour(check_each(requests), context)
            if hasattr(answered, "__aiter__"):
                async for response in answered:
                    await context.write(response)
            else:
                await answered

    return checked

"""Converts failed gRPC calls to errors of the client library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import grpc
import grpc.aio

from pumice.client import errors
from pumice.client.clusters import kind_name
from pumice.client.configurations import ConfigProblem
from pumice.client.details import read_status_details
from pumice.client.errors import CallError, ErrorDetails, RejectedObject
from pumice.client.settings import ClientSettings

# gRPC's text for a message above its limit.
_TOO_LARGE = re.compile(r"[Mm]essage larger than max \((\d+) vs\. (\d+)\)")
# Parts of gRPC's text for a failed TLS handshake: the message for the caller, and the advice.
_HANDSHAKES = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the certificate of the core at {0} is invalid or not signed by the authority in tls_ca",
        "set tls_ca to the authority that signed the core's certificate",
    ),
    (
        "Hostname Verification",
        "the certificate of the core at {0} is not for {1}",
        "set the address or tls_server_name to a name in the core's certificate",
    ),
    ("WRONG_VERSION_NUMBER", "the core at {0} does not use TLS", "remove tls_ca and tls_cert"),
    ("Tls handshake failed", "TLS handshake with the core at {0} failed", ""),
)
_CLOSED = "it closed the connection"
_CONNECTIONS: Mapping[str, str] = {
    "Connection refused": "connection refused",
    "No such file or directory": "the socket does not exist",
    "Permission denied": "permission denied",
    "lookup": "unknown host",
    "Network is unreachable": "the network is unreachable",
    "No route to host": "no route to host",
    "Socket closed": _CLOSED,
    "Connection reset": _CLOSED,
}
_CLASSES: Mapping[grpc.StatusCode, type[CallError]] = {
    grpc.StatusCode.UNAVAILABLE: errors.CoreUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
    grpc.StatusCode.ALREADY_EXISTS: errors.InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: errors.InvalidRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.LimitExceededError,
    grpc.StatusCode.UNAUTHENTICATED: errors.AccessDeniedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.AccessDeniedError,
}


def error_from(
    failed: grpc.aio.AioRpcError, settings: ClientSettings, seconds: float = 0.0
) -> CallError:
    """The error for a failed call, which had ``seconds`` of time."""
    code = failed.code()
    text = failed.details() or "the call failed"
    details = _details(failed.trailing_metadata() or ())
    if details.reason:
        return _CLASSES.get(code, CallError)(text, details)
    if code is grpc.StatusCode.UNAVAILABLE:
        return _no_connection(text, settings)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return no_answer(settings, seconds)
    if sizes := _TOO_LARGE.search(text):
        given, limit = int(sizes[1]), int(sizes[2])
        details = ErrorDetails(limit_name="bytes of a message", limit=limit, given=given)
        return errors.LimitExceededError(
            f"a message of {given} bytes exceeds the limit of {limit}", details
        )
    if code is grpc.StatusCode.UNIMPLEMENTED or "http2 header with status" in text:
        text = f"the server at {settings.address} is not a core, or too old for this call"
        return CallError(text, ErrorDetails(advice="correct the address"))
    return _CLASSES.get(code, CallError)(text)


def no_answer(settings: ClientSettings, seconds: float) -> errors.DeadlineExceededError:
    """The error for a call that took longer than ``seconds``."""
    return errors.DeadlineExceededError(
        f"no answer from the core at {settings.address} within {seconds:g} s"
    )


def _no_connection(text: str, settings: ClientSettings) -> CallError:
    address = settings.address
    for part, message, advice in _HANDSHAKES:
        if part in text:
            host = settings.tls_server_name or settings.host or address
            details = ErrorDetails(advice=advice)
            return errors.HandshakeError(message.format(address, host), details)
    problem = next((words for part, words in _CONNECTIONS.items() if part in text), "")
    advice = _closed_advice(settings) if problem == _CLOSED else ""
    why = f" ({problem})" if problem else ""
    details = ErrorDetails(advice=advice)
    return errors.CoreUnavailableError(f"no core answers at {address}{why}", details)


def _closed_advice(settings: ClientSettings) -> str:
    if settings.tls_cert:
        return "the core rejects the certificate in tls_cert, or has just ended"
    missing = "tls_cert and tls_key" if settings.is_secure else "tls_ca"
    return f"if the core requires TLS, set {missing}"


def _details(metadata: Iterable[tuple[str, str | bytes]]) -> ErrorDetails:
    found = read_status_details(metadata)
    return ErrorDetails(
        reason=found.reason,
        advice=found.advice,
        nearest_names=tuple(found.nearest_names),
        violations=tuple(found.violations),
        rejected=tuple(
            RejectedObject(kind_name(bad.kind), bad.key, bad.field, bad.reason)
            for bad in found.rejected
        ),
        problems=tuple(map(ConfigProblem.from_proto, found.problems)),
        limit_name=found.limit_name,
        limit=found.limit,
        given=found.given,
        retry_after_seconds=found.retry_after_seconds,
    )

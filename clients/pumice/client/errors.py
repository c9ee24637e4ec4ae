"""What can go wrong with a call, one class a case; each says what the caller can do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from pumice.client.settings import ClientSettings
from pumice.v1.error_pb2 import ErrorDetail

# The words of gRPC for a message that it does not take.
_TOO_LARGE = re.compile(r"[Mm]essage larger than max \((\d+) vs\. (\d+)\)")
_DETAILS_KEY = "grpc-status-details-bin"
# Words of gRPC for a TLS that does not come about, what they mean, and what to do.
_HANDSHAKES = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the core at {0} shows a certificate that is not valid or not of the authority in tls_ca",
        "give the authority that signed the core's certificate as tls_ca",
    ),
    (
        "Hostname Verification",
        "the core at {0} shows a certificate that is not for {1}",
        "name it as its certificate does, in the address or as tls_server_name",
    ),
    ("WRONG_VERSION_NUMBER", "the core at {0} does not speak TLS", "leave out tls_ca and tls_cert"),
    ("Tls handshake failed", "TLS with the core at {0} failed", "look at tls_ca and tls_cert"),
)
_HUNG_UP = "it hung up"
_CONNECTIONS = {
    "Connection refused": "connection refused",
    "No such file or directory": "there is no such socket",
    "Permission denied": "permission denied",
    "lookup": "no host of this name is known",
    "Network is unreachable": "the network is unreachable",
    "No route to host": "no route to this host",
    "Socket closed": _HUNG_UP,
    "Connection reset": _HUNG_UP,
}


class ClientError(Exception):
    """A call that failed."""

    def __init__(self, code: grpc.StatusCode, message: str, detail: ErrorDetail) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail

    @property
    def advice(self) -> str:
        return self.detail.advice

    @property
    def nearest_names(self) -> list[str]:
        return list(self.detail.nearest_names)


class CoreUnavailableError(ClientError):
    """Nobody answers, or the cluster is not complete yet; ask again later."""


class HandshakeError(ClientError):
    """Core and client do not agree on TLS; waiting does not help."""


class TimeOverError(ClientError):
    """No answer in time."""


class NotFoundError(ClientError):
    """No such cluster, job, pod or session; ``nearest_names`` are those that exist."""


class InvalidRequestError(ClientError):
    """Something in the request cannot be used; the detail names it."""


class LimitExceededError(ClientError):
    """Too much, or too many at once; the detail names the limit."""


class DeniedError(ClientError):
    """No valid token or certificate, or not for this."""


_CLASSES: dict[grpc.StatusCode, type[ClientError]] = {
    grpc.StatusCode.UNAVAILABLE: CoreUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: TimeOverError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.ALREADY_EXISTS: InvalidRequestError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitExceededError,
    grpc.StatusCode.UNAUTHENTICATED: DeniedError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
}


def error_of(failed: Any, settings: ClientSettings, seconds: float = 0.0) -> ClientError:
    """The error that a failed call of either kind of channel stands for; it had so much time."""
    code = failed.code()
    text = failed.details() or "the call failed"
    detail = read_detail(failed.trailing_metadata() or ())
    if not detail.reason and code is grpc.StatusCode.UNAVAILABLE:
        return _no_connection(code, text, settings)
    if not detail.reason and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"no answer from {settings.address} within {seconds:g} s"
        detail.advice = "give it more time (timeout_seconds), or ask for less"
    if not detail.reason and (
        code is grpc.StatusCode.UNIMPLEMENTED or "http2 header with status" in text
    ):
        text = f"what answers at {settings.address} is no core, or one that does not know this call"
        detail.advice = "look at the address"
    if sizes := _TOO_LARGE.search(text):
        # It never reached the core's own code.
        detail.limit_name, detail.given = "bytes of a message", int(sizes[1])
        detail.limit, detail.advice = int(sizes[2]), "ask about fewer objects"
        text = f"a message of {detail.given} bytes is over the limit of {detail.limit}"
    return _CLASSES.get(code, ClientError)(code, text, detail)


def _no_connection(code: grpc.StatusCode, text: str, settings: ClientSettings) -> ClientError:
    """Says what gRPC says about a connection that did not come about, in words and advice."""
    detail = ErrorDetail()
    for word, told, advice in _HANDSHAKES:
        if word in text:
            detail.advice = advice
            host = settings.tls_server_name or settings.host or settings.address
            return HandshakeError(code, told.format(settings.address, host), detail)
    problem = next((told for word, told in _CONNECTIONS.items() if word in text), "")
    if problem == _HUNG_UP:
        missing = "give tls_ca" if not settings.is_secure else "give tls_cert and tls_key"
        detail.advice = f"if it wants TLS, {missing}"
        if settings.tls_cert:
            detail.advice = "it may not take the certificate in tls_cert, or has just ended"
    why = f" ({problem})" if problem else ""
    return CoreUnavailableError(code, f"no core answers at {settings.address}{why}", detail)


def read_detail(metadata: Iterable[tuple[str, Any]]) -> ErrorDetail:
    """The detail that travels with every error of a core; empty where there is none."""
    detail = ErrorDetail()
    for key, value in metadata:
        if key == _DETAILS_KEY:
            for packed in _status_class().FromString(value).details:
                any_pb2.Any.FromString(packed.SerializeToString()).Unpack(detail)
    return detail


@cache
def _status_class() -> Any:
    """google.rpc.Status, of which only the details are read: its package is not needed."""
    described = descriptor_pb2.FileDescriptorProto(
        name="google/rpc/status.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=["google/protobuf/any.proto"],
    )
    field = descriptor_pb2.FieldDescriptorProto
    described.message_type.add(name="Status").field.add(
        name="details",
        number=3,
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
        type_name=".google.protobuf.Any",
    )
    # A pool of its own: another library may register the same file.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(described.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))

"""What can go wrong with a call, one class a case; each says what the caller can do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from pumice.v1.error_pb2 import ErrorDetail

# The words of gRPC for a message that it does not take.
_TOO_LARGE = re.compile(r"[Mm]essage larger than max \((\d+) vs\. (\d+)\)")
_DETAILS_KEY = "grpc-status-details-bin"


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


def error_of(failed: Any) -> ClientError:
    """The error that a failed call of either kind of channel stands for."""
    code = failed.code()
    text = failed.details() or "the call failed"
    detail = read_detail(failed.trailing_metadata() or ())
    if sizes := _TOO_LARGE.search(text):
        # It never reached the core's own code.
        detail.limit_name, detail.given = "bytes of a message", int(sizes[1])
        detail.limit, detail.advice = int(sizes[2]), "ask about fewer objects"
        text = f"a message of {detail.given} bytes is over the limit of {detail.limit}"
    return _CLASSES.get(code, ClientError)(code, text, detail)


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

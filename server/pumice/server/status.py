"""Errors as gRPC statuses: one table from classes to codes, and the details that go with them."""

from __future__ import annotations

from functools import cache
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from pumice.core.errors import (
    ConfigurationError,
    InputError,
    InvariantError,
    ObjectError,
    PumiceError,
)
from pumice.server import errors
from pumice.server.configuration import ConfigurationRefusedError
from pumice.v1 import error_pb2

DETAILS_KEY = "grpc-status-details-bin"

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
CODES: dict[type[PumiceError], grpc.StatusCode] = {
    PumiceError: grpc.StatusCode.INTERNAL,
    InvariantError: grpc.StatusCode.INTERNAL,
    InputError: _INVALID,
    ObjectError: _INVALID,
    ConfigurationError: _INVALID,
    ConfigurationRefusedError: _INVALID,
    errors.ServiceError: _INVALID,
    errors.HelloMissingError: _INVALID,
    errors.HelloRepeatedError: _INVALID,
    errors.HelloFieldError: _INVALID,
    errors.SequenceNumberError: _INVALID,
    errors.MarkerError: _INVALID,
    errors.OtherIncarnationError: _PRECONDITION,
    errors.GapError: _PRECONDITION,
    errors.SnapshotExpectedError: _PRECONDITION,
    errors.SnapshotEndError: _PRECONDITION,
    errors.StaleEpochError: _PRECONDITION,
    errors.FutureEpochError: grpc.StatusCode.OUT_OF_RANGE,
    errors.EpochTakenError: grpc.StatusCode.ALREADY_EXISTS,
    errors.ProtocolVersionError: grpc.StatusCode.UNIMPLEMENTED,
    errors.LimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.BusyError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.ClusterDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.ShuttingDownError: grpc.StatusCode.UNAVAILABLE,
    errors.NotReadyError: grpc.StatusCode.UNAVAILABLE,
    errors.StateLostError: grpc.StatusCode.INTERNAL,
    errors.UnknownClusterError: grpc.StatusCode.NOT_FOUND,
    errors.NoClusterError: grpc.StatusCode.NOT_FOUND,
    errors.ClusterNotNamedError: _INVALID,
    errors.PageError: _INVALID,
    errors.SessionNotKeptError: grpc.StatusCode.NOT_FOUND,
    errors.ConfTooLargeError: _INVALID,
    errors.RequestFieldError: _INVALID,
    errors.RequestIdReusedError: grpc.StatusCode.ALREADY_EXISTS,
    errors.ObjectsRejectedError: _INVALID,
    errors.TrialTimeoutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.TrialLostError: grpc.StatusCode.UNAVAILABLE,
    errors.TrialFailedError: grpc.StatusCode.INTERNAL,
    errors.UnknownSubjectError: grpc.StatusCode.NOT_FOUND,
    errors.TokenError: grpc.StatusCode.UNAUTHENTICATED,
    errors.RoleDeniedError: grpc.StatusCode.PERMISSION_DENIED,
}


def code_of(error: BaseException) -> grpc.StatusCode:
    """That of the class, or of the nearest one it stands under.

    INTERNAL for what has none: a bug of ours, whatever the caller did.
    """
    if isinstance(error, errors.TrialFailedError) and error.code:
        return grpc.StatusCode[error.code]
    found = (CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return next(found, grpc.StatusCode.INTERNAL)


def message_of(error: BaseException) -> str:
    """What the caller is told: never a stack trace, and nothing at all about our own bugs."""
    ours = isinstance(error, errors.TrialFailedError) or not isinstance(error, errors.ServiceError)
    if code_of(error) is grpc.StatusCode.INTERNAL and ours:
        return "internal error; the core logged it"
    return str(error)


def detail_of(error: BaseException) -> error_pb2.ErrorDetail:
    if isinstance(error, errors.TrialFailedError) and error.detail:
        return error_pb2.ErrorDetail.FromString(error.detail)
    detail = error_pb2.ErrorDetail(reason=type(error).__name__, advice=getattr(error, "advice", ""))
    match error:
        case (
            errors.UnknownClusterError()
            | errors.ClusterNotNamedError()
            | errors.UnknownSubjectError()
        ):
            detail.nearest_names.extend(error.nearest_names)
        case errors.LimitError():
            detail.limit_name = error.limit_name
            detail.limit = error.limit
            detail.given = error.given
        case ConfigurationRefusedError():
            detail.problems.extend(error.told)
        case errors.ObjectsRejectedError():
            detail.rejected.extend(error.rejected)
    return detail


def trailing_metadata(error: BaseException) -> tuple[tuple[str, bytes], ...]:
    """The google.rpc.Status that clients of any language know how to read."""
    packed = any_pb2.Any()
    packed.Pack(detail_of(error))
    status = _status_class()(code=code_of(error).value[0], message=message_of(error))
    status.details.add().ParseFromString(packed.SerializeToString())
    return ((DETAILS_KEY, status.SerializeToString()),)


def read_detail(metadata: Any) -> error_pb2.ErrorDetail | None:
    """The detail of a failed call, from its trailing metadata."""
    for key, value in metadata or ():
        if key == DETAILS_KEY:
            status = _status_class().FromString(value)
            for packed in status.details:
                held = any_pb2.Any.FromString(packed.SerializeToString())
                detail = error_pb2.ErrorDetail()
                if held.Unpack(detail):
                    return detail
    return None


@cache
def _status_class() -> Any:
    """google.rpc.Status, described here: it has three fields, and its package is not needed."""
    described = descriptor_pb2.FileDescriptorProto(
        name="google/rpc/status.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=["google/protobuf/any.proto"],
    )
    field = descriptor_pb2.FieldDescriptorProto
    message = described.message_type.add(name="Status")
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message.field.add(name="code", number=1, type=field.TYPE_INT32, label=one)
    message.field.add(name="message", number=2, type=field.TYPE_STRING, label=one)
    message.field.add(
        name="details",
        number=3,
        type=field.TYPE_MESSAGE,
        label=many,
        type_name=".google.protobuf.Any",
    )
    # A pool of its own: another library may register the same file.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(described.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))

"""Converts errors to gRPC statuses. One table has the code and the reason of each error class."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

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

# The domain in every ErrorInfo of a core.
DOMAIN = "pumice.v1"
_PREFIX = "ERROR_REASON_"
# Many clients accept 8 KiB of trailing metadata. Details above this size are omitted.
_MAX_DETAIL_BYTES = 4096
_MAX_TEXT = 1000


class ErrorCode(NamedTuple):
    """The status code and the reason of an error class."""

    code: grpc.StatusCode
    reason: error_pb2.ErrorReason.ValueType


_ABORTED = grpc.StatusCode.ABORTED
_DEADLINE = grpc.StatusCode.DEADLINE_EXCEEDED
_DENIED = grpc.StatusCode.PERMISSION_DENIED
_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
_EXISTS = grpc.StatusCode.ALREADY_EXISTS
_INTERNAL = grpc.StatusCode.INTERNAL
_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_NOT_FOUND = grpc.StatusCode.NOT_FOUND
_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
_UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
ERROR_CODES: dict[type[PumiceError], ErrorCode] = {
    PumiceError: ErrorCode(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    InvariantError: ErrorCode(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    InputError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    ObjectError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_OBJECTS_REJECTED),
    ConfigurationError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_CONFIGURATION_REJECTED),
    ConfigurationRefusedError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_CONFIGURATION_REJECTED),
    errors.ServiceError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.MalformedMessageError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_MALFORMED_MESSAGE),
    errors.FieldError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.HelloMissingError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_HELLO_MISSING),
    errors.HelloTimeoutError: ErrorCode(_DEADLINE, error_pb2.ERROR_REASON_HELLO_TIMEOUT),
    errors.HelloRepeatedError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_HELLO_REPEATED),
    errors.HelloFieldError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.SequenceNumberError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_SEQUENCE_NUMBER_INVALID),
    errors.MarkerError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_SNAPSHOT_MARKER_UNEXPECTED),
    errors.OtherIncarnationError: ErrorCode(
        _PRECONDITION, error_pb2.ERROR_REASON_INCARNATION_MISMATCH
    ),
    errors.GapError: ErrorCode(_ABORTED, error_pb2.ERROR_REASON_SEQUENCE_GAP),
    errors.SnapshotExpectedError: ErrorCode(
        _PRECONDITION, error_pb2.ERROR_REASON_SNAPSHOT_EXPECTED
    ),
    errors.SnapshotEndError: ErrorCode(_ABORTED, error_pb2.ERROR_REASON_SNAPSHOT_END_MISMATCH),
    errors.StateLostError: ErrorCode(_ABORTED, error_pb2.ERROR_REASON_STATE_LOST),
    errors.StaleEpochError: ErrorCode(_PRECONDITION, error_pb2.ERROR_REASON_EPOCH_STALE),
    errors.FutureEpochError: ErrorCode(
        grpc.StatusCode.OUT_OF_RANGE, error_pb2.ERROR_REASON_EPOCH_TOO_HIGH
    ),
    errors.EpochTakenError: ErrorCode(_EXISTS, error_pb2.ERROR_REASON_EPOCH_TAKEN),
    errors.ProtocolVersionError: ErrorCode(
        grpc.StatusCode.UNIMPLEMENTED, error_pb2.ERROR_REASON_PROTOCOL_VERSION_UNSUPPORTED
    ),
    errors.LimitError: ErrorCode(_EXHAUSTED, error_pb2.ERROR_REASON_LIMIT_EXCEEDED),
    errors.BusyError: ErrorCode(_EXHAUSTED, error_pb2.ERROR_REASON_BUSY),
    errors.UnauthenticatedError: ErrorCode(
        _UNAUTHENTICATED, error_pb2.ERROR_REASON_CERTIFICATE_MISSING
    ),
    errors.TokenError: ErrorCode(_UNAUTHENTICATED, error_pb2.ERROR_REASON_TOKEN_INVALID),
    errors.ClusterDeniedError: ErrorCode(_DENIED, error_pb2.ERROR_REASON_CLUSTER_DENIED),
    errors.RoleDeniedError: ErrorCode(_DENIED, error_pb2.ERROR_REASON_ROLE_DENIED),
    errors.ShuttingDownError: ErrorCode(_UNAVAILABLE, error_pb2.ERROR_REASON_SHUTTING_DOWN),
    errors.NotReadyError: ErrorCode(_UNAVAILABLE, error_pb2.ERROR_REASON_CLUSTER_NOT_READY),
    errors.UnknownClusterError: ErrorCode(_NOT_FOUND, error_pb2.ERROR_REASON_CLUSTER_UNKNOWN),
    errors.NoClusterError: ErrorCode(_NOT_FOUND, error_pb2.ERROR_REASON_NO_CLUSTER),
    errors.ClusterNotNamedError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_CLUSTER_NOT_NAMED),
    errors.ClusterConnectedError: ErrorCode(
        _PRECONDITION, error_pb2.ERROR_REASON_CLUSTER_CONNECTED
    ),
    errors.PageError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.SessionNotKeptError: ErrorCode(_NOT_FOUND, error_pb2.ERROR_REASON_SESSION_NOT_KEPT),
    errors.ConfTooLargeError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.RequestFieldError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.RequestIdReusedError: ErrorCode(_EXISTS, error_pb2.ERROR_REASON_REQUEST_ID_REUSED),
    errors.ObjectsRejectedError: ErrorCode(_INVALID, error_pb2.ERROR_REASON_OBJECTS_REJECTED),
    errors.TrialTimeoutError: ErrorCode(_DEADLINE, error_pb2.ERROR_REASON_TIME_LIMIT_EXCEEDED),
    errors.TrialLostError: ErrorCode(_UNAVAILABLE, error_pb2.ERROR_REASON_ANSWER_LOST),
    errors.TrialFailedError: ErrorCode(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    errors.UnknownSubjectError: ErrorCode(_NOT_FOUND, error_pb2.ERROR_REASON_SUBJECT_UNKNOWN),
}
_UNEXPECTED = ERROR_CODES[PumiceError]


def error_code_of(error: BaseException) -> ErrorCode:
    """The code and reason of an error's class or nearest base; INTERNAL for other exceptions."""
    found = (ERROR_CODES[kind] for kind in type(error).__mro__ if kind in ERROR_CODES)
    return next(found, _UNEXPECTED)


def reason_name(reason: error_pb2.ErrorReason.ValueType) -> str:
    """The text in ErrorInfo.reason, such as ``EPOCH_STALE``."""
    return error_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX)


def status_of(error: BaseException) -> status_pb2.Status:
    """The status for the caller. It contains no details of internal errors."""
    if isinstance(error, errors.TrialFailedError) and error.status:
        return status_pb2.Status.FromString(error.status)
    code, reason = error_code_of(error)
    if code is _INTERNAL:
        message, metadata = "internal error; the core logged it", {}
    else:
        message, metadata = str(error)[:_MAX_TEXT], _metadata(error)
    info = error_details_pb2.ErrorInfo(reason=reason_name(reason), domain=DOMAIN, metadata=metadata)
    details = _fitting([info, *_further_details(error)] if code is not _INTERNAL else [info])
    return status_pb2.Status(code=code.value[0], message=message, details=details)


def grpc_status(error: BaseException) -> grpc.Status:
    """The status for ``context.abort``: code, text and trailing metadata."""
    return rpc_status.to_status(status_of(error))


def _metadata(error: BaseException) -> dict[str, str]:
    given = (
        {"advice": error.advice, **error.metadata} if isinstance(error, errors.ServiceError) else {}
    )
    return {name: text[:_MAX_TEXT] for name, text in given.items() if text}


def _further_details(error: BaseException) -> Iterable[Message]:
    if isinstance(error, errors.ServiceError):
        if error.retry_after_seconds:
            delay = Duration()
            delay.FromMilliseconds(int(error.retry_after_seconds * 1000))
            yield error_details_pb2.RetryInfo(retry_delay=delay)
        if error.violations:
            yield _bad_request(error.violations)
    if isinstance(error, ConfigurationRefusedError):
        yield from error.problem_messages
    if isinstance(error, errors.ObjectsRejectedError):
        yield from error.rejected


def _bad_request(violations: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    return error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=field, description=problem)
            for field, problem in violations
        ]
    )


def _fitting(details: Iterable[Message]) -> Iterable[any_pb2.Any]:
    """The first details that together fit into trailing metadata."""
    size = 0
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        size += packed.ByteSize()
        if size > _MAX_DETAIL_BYTES:
            return
        yield packed

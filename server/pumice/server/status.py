"""Errors as gRPC statuses: one table from classes to codes and reasons, and the details of each."""

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

# The domain of every ErrorInfo of a core.
DOMAIN = "pumice.v1"
_PREFIX = "ERROR_REASON_"
# Many clients accept 8 KiB of trailing metadata; details that would not fit are left out.
_MOST_DETAIL_BYTES = 4096
_MOST_TEXT = 1000


class Answer(NamedTuple):
    """The status code and the reason of a class of errors."""

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
ANSWERS: dict[type[PumiceError], Answer] = {
    PumiceError: Answer(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    InvariantError: Answer(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    InputError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    ObjectError: Answer(_INVALID, error_pb2.ERROR_REASON_OBJECTS_REJECTED),
    ConfigurationError: Answer(_INVALID, error_pb2.ERROR_REASON_CONFIGURATION_REJECTED),
    ConfigurationRefusedError: Answer(_INVALID, error_pb2.ERROR_REASON_CONFIGURATION_REJECTED),
    errors.ServiceError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.MalformedMessageError: Answer(_INVALID, error_pb2.ERROR_REASON_MALFORMED_MESSAGE),
    errors.FieldError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.HelloMissingError: Answer(_INVALID, error_pb2.ERROR_REASON_HELLO_MISSING),
    errors.HelloTimeoutError: Answer(_DEADLINE, error_pb2.ERROR_REASON_HELLO_TIMEOUT),
    errors.HelloRepeatedError: Answer(_INVALID, error_pb2.ERROR_REASON_HELLO_REPEATED),
    errors.HelloFieldError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.SequenceNumberError: Answer(_INVALID, error_pb2.ERROR_REASON_SEQUENCE_NUMBER_INVALID),
    errors.MarkerError: Answer(_INVALID, error_pb2.ERROR_REASON_SNAPSHOT_MARKER_UNEXPECTED),
    errors.OtherIncarnationError: Answer(
        _PRECONDITION, error_pb2.ERROR_REASON_INCARNATION_MISMATCH
    ),
    errors.GapError: Answer(_ABORTED, error_pb2.ERROR_REASON_SEQUENCE_GAP),
    errors.SnapshotExpectedError: Answer(_PRECONDITION, error_pb2.ERROR_REASON_SNAPSHOT_EXPECTED),
    errors.SnapshotEndError: Answer(_ABORTED, error_pb2.ERROR_REASON_SNAPSHOT_END_MISMATCH),
    errors.StateLostError: Answer(_ABORTED, error_pb2.ERROR_REASON_STATE_LOST),
    errors.StaleEpochError: Answer(_PRECONDITION, error_pb2.ERROR_REASON_EPOCH_STALE),
    errors.FutureEpochError: Answer(
        grpc.StatusCode.OUT_OF_RANGE, error_pb2.ERROR_REASON_EPOCH_TOO_HIGH
    ),
    errors.EpochTakenError: Answer(_EXISTS, error_pb2.ERROR_REASON_EPOCH_TAKEN),
    errors.ProtocolVersionError: Answer(
        grpc.StatusCode.UNIMPLEMENTED, error_pb2.ERROR_REASON_PROTOCOL_VERSION_UNSUPPORTED
    ),
    errors.LimitError: Answer(_EXHAUSTED, error_pb2.ERROR_REASON_LIMIT_EXCEEDED),
    errors.BusyError: Answer(_EXHAUSTED, error_pb2.ERROR_REASON_BUSY),
    errors.UnauthenticatedError: Answer(
        _UNAUTHENTICATED, error_pb2.ERROR_REASON_CERTIFICATE_MISSING
    ),
    errors.TokenError: Answer(_UNAUTHENTICATED, error_pb2.ERROR_REASON_TOKEN_INVALID),
    errors.ClusterDeniedError: Answer(_DENIED, error_pb2.ERROR_REASON_CLUSTER_DENIED),
    errors.RoleDeniedError: Answer(_DENIED, error_pb2.ERROR_REASON_ROLE_DENIED),
    errors.ShuttingDownError: Answer(_UNAVAILABLE, error_pb2.ERROR_REASON_SHUTTING_DOWN),
    errors.NotReadyError: Answer(_UNAVAILABLE, error_pb2.ERROR_REASON_CLUSTER_NOT_READY),
    errors.UnknownClusterError: Answer(_NOT_FOUND, error_pb2.ERROR_REASON_CLUSTER_UNKNOWN),
    errors.NoClusterError: Answer(_NOT_FOUND, error_pb2.ERROR_REASON_NO_CLUSTER),
    errors.ClusterNotNamedError: Answer(_INVALID, error_pb2.ERROR_REASON_CLUSTER_NOT_NAMED),
    errors.ClusterConnectedError: Answer(_PRECONDITION, error_pb2.ERROR_REASON_CLUSTER_CONNECTED),
    errors.PageError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.SessionNotKeptError: Answer(_NOT_FOUND, error_pb2.ERROR_REASON_SESSION_NOT_KEPT),
    errors.ConfTooLargeError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.RequestFieldError: Answer(_INVALID, error_pb2.ERROR_REASON_INVALID_FIELD),
    errors.RequestIdReusedError: Answer(_EXISTS, error_pb2.ERROR_REASON_REQUEST_ID_REUSED),
    errors.ObjectsRejectedError: Answer(_INVALID, error_pb2.ERROR_REASON_OBJECTS_REJECTED),
    errors.TrialTimeoutError: Answer(_DEADLINE, error_pb2.ERROR_REASON_TIME_LIMIT_EXCEEDED),
    errors.TrialLostError: Answer(_UNAVAILABLE, error_pb2.ERROR_REASON_ANSWER_LOST),
    errors.TrialFailedError: Answer(_INTERNAL, error_pb2.ERROR_REASON_INTERNAL),
    errors.UnknownSubjectError: Answer(_NOT_FOUND, error_pb2.ERROR_REASON_SUBJECT_UNKNOWN),
}
_UNEXPECTED = ANSWERS[PumiceError]
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def answer_of(error: BaseException) -> Answer:
    """The answer of the class, or of its nearest base class; INTERNAL for any other exception."""
    found = (ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS)
    return next(found, _UNEXPECTED)


def reason_name(reason: error_pb2.ErrorReason.ValueType) -> str:
    """The text in ErrorInfo.reason, such as ``EPOCH_STALE``."""
    return error_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX)


def status_of(error: BaseException) -> status_pb2.Status:
    """The status that a caller gets; it tells nothing about errors of the core itself."""
    if isinstance(error, errors.TrialFailedError) and error.status:
        return status_pb2.Status.FromString(error.status)
    code, reason = answer_of(error)
    if code is _INTERNAL:
        message, metadata = "internal error; the core logged it", {}
    else:
        message, metadata = str(error)[:_MOST_TEXT], _metadata(error)
    info = error_details_pb2.ErrorInfo(reason=reason_name(reason), domain=DOMAIN, metadata=metadata)
    details = _fitting([info, *_further_details(error)] if code is not _INTERNAL else [info])
    return status_pb2.Status(code=code.value[0], message=message, details=details)


def grpc_status(error: BaseException) -> grpc.Status:
    """The same for ``context.abort``: code, text and trailing metadata."""
    return rpc_status.to_status(status_of(error))


def code_of(error: BaseException) -> grpc.StatusCode:
    return _CODES[status_of(error).code]


def _metadata(error: BaseException) -> dict[str, str]:
    given = (
        {"advice": error.advice, **error.metadata} if isinstance(error, errors.ServiceError) else {}
    )
    return {name: text[:_MOST_TEXT] for name, text in given.items() if text}


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
    """As many of the details as fit into trailing metadata, in order."""
    size = 0
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        size += packed.ByteSize()
        if size > _MOST_DETAIL_BYTES:
            return
        yield packed

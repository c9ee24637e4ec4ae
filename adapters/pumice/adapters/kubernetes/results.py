"""Converts errors of the API server to results for the runtime."""

import logging

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    FORBIDDEN,
    GATEWAY_TIMEOUT,
    NOT_FOUND,
    THROTTLED,
    UNPROCESSABLE,
    ApiError,
    BadCredentialsError,
    KubernetesError,
    LostAnswerError,
    NotLeadingError,
    WithheldError,
    one_line,
)
from pumice.adapters.kubernetes.missing_rights import ApiCalls
from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.kubernetes.session import METADATA_ONLY
from pumice.adapters.runtime.world import ApplyCode, ApplyResult

log = logging.getLogger(__name__)

_CODES = {
    FORBIDDEN: ApplyCode.FORBIDDEN,
    NOT_FOUND: ApplyCode.NOT_FOUND,
    CONFLICT: ApplyCode.CONFLICT,
    THROTTLED: ApplyCode.THROTTLED,
    GATEWAY_TIMEOUT: ApplyCode.TIMED_OUT,
}


def result_of(error: KubernetesError) -> ApplyResult:
    """The result for an error."""
    reason = one_line(error)
    match error:
        case WithheldError():
            code = ApplyCode.WITHHELD
        case ApiError() if error.status in _CODES:
            code = _CODES[error.status]
        case ApiError() if error.is_transient:
            code = ApplyCode.SERVER_ERROR
        case ApiError():
            code = ApplyCode.INVALID
        case LostAnswerError():
            code = ApplyCode.TIMED_OUT
        case NotLeadingError():
            code = ApplyCode.NOT_LEADING
        case BadCredentialsError():
            log.error("%s", reason)
            code = ApplyCode.SERVER_ERROR
        case _:
            code = ApplyCode.SERVER_ERROR
    wait = error.retry_after if isinstance(error, ApiError) else 0.0
    return ApplyResult(code, reason, retry_after_seconds=wait)


async def result_of_write(
    error: ApiError, api: ApiCalls, path: str, uid: str, seconds: float
) -> ApplyResult:
    """The result of a refused write that contained the uid of its object.

    A write for another uid is refused as a conflict or as invalid, like many other writes. The
    object is read, because only it shows the difference.
    """
    if error.status not in (CONFLICT, UNPROCESSABLE):
        return result_of(error)
    try:
        body = await api.call("GET", path, accept=METADATA_ONLY, seconds=seconds)
        found = HEAD.decode(body).metadata
    except ApiError as reading:
        return result_of(reading if reading.status == NOT_FOUND else error)
    except (KubernetesError, msgspec.MsgspecError):
        return result_of(error)
    if found.uid and found.uid != uid:
        reason = f"the object has the uid {found.uid}, not {uid}"
        return ApplyResult(ApplyCode.OTHER_UID, reason, version=found.resource_version)
    return result_of(error)

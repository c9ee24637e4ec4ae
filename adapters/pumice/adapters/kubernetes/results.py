"""What an API server's answer means to the runtime."""

import logging

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
    one_line,
)
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
    """The result that stands for an error."""
    reason = one_line(error)
    match error:
        case ApiError() if error.status in _CODES:
            code = _CODES[error.status]
        case ApiError() if error.is_transient:
            code = ApplyCode.SERVER_ERROR
        case ApiError():
            code = ApplyCode.INVALID
        case LostAnswerError():
            code = ApplyCode.TIMED_OUT
        case NotLeadingError():
            code = ApplyCode.FORBIDDEN
        case BadCredentialsError():
            log.error("%s", reason)
            code = ApplyCode.SERVER_ERROR
        case _:
            code = ApplyCode.SERVER_ERROR
    wait = error.retry_after if isinstance(error, ApiError) else 0.0
    return ApplyResult(code, reason, retry_after_seconds=wait)


def other_uid_or(error: ApiError) -> ApplyResult:
    """The result of a patch or deletion that named the uid of the object it was meant for."""
    # A deletion with another uid is a conflict, a patch with another uid is invalid.
    if error.status in (CONFLICT, UNPROCESSABLE) and "uid" in error.message.lower():
        return ApplyResult(ApplyCode.OTHER_UID, one_line(error))
    return result_of(error)

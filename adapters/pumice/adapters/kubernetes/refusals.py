"""Converts refusals of the API server, which are metav1.Status objects, to errors."""

from typing import Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    FORBIDDEN,
    ApiError,
    MissingRightsError,
    NamespaceTerminatingError,
)
from pumice.adapters.kubernetes.object_head import UNREADABLE

# The reason of the cause of a refusal in a terminating namespace.
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
# Longer Retry-After values are reduced to this one.
_LONGEST_RETRY_AFTER_SECONDS: Final = 120.0
_LONGEST_REFUSAL: Final = 2000


class _Cause(msgspec.Struct):
    """One cause in a metav1.Status."""

    reason: str | None = None


class _Details(msgspec.Struct, rename="camel"):
    """The details of a metav1.Status."""

    causes: list[_Cause] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    """A metav1.Status, the body of a refusal."""

    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


def failure(status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error for a refusal."""
    try:
        refusal = _STATUS.decode(body)
    except UNREADABLE:
        refusal = _Status(message=body[:_LONGEST_REFUSAL].decode("utf-8", "replace"))
    details = refusal.details or _Details()
    reason, message = refusal.reason or "", (refusal.message or "")[:_LONGEST_REFUSAL]
    if any(cause.reason == _NAMESPACE_TERMINATING for cause in details.causes or ()):
        return NamespaceTerminatingError(status, reason, message)
    if status == FORBIDDEN:
        return MissingRightsError(message)
    seconds = float(retry_after) if retry_after.isdecimal() else details.retry_after_seconds or 0.0
    return ApiError(status, reason, message, min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_SECONDS))

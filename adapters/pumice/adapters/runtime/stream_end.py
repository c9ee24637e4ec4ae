"""The end of a stream, and the next step: reconnect, begin a new incarnation or epoch, or stop.

An attempt to reach an absent core is cheap, and nothing is scheduled in the meantime, so these
delays stay short. A stream that the core accepts and then ends costs both sides a snapshot, and the
next stream may end in the same way, so these delays grow until a stream has lasted for some time.
"""

import random
from dataclasses import dataclass
from enum import Enum
from typing import Final

import grpc

from pumice.adapters.runtime.clock import Backoff
from pumice.client.details import StatusDetails
from pumice.v1.cluster_service_pb2 import (
    GO_AWAY_REASON_FENCED,
    GO_AWAY_REASON_REPLACED,
    GO_AWAY_REASON_SHUTTING_DOWN,
    GoAway,
    GoAwayReason,
)
from pumice.v1.error_pb2 import ErrorReason

# A stream that lasted for this time resets the delay.
STEADY_SECONDS: Final = 30.0


class NextStep(Enum):
    """The next step after the end of a stream."""

    AGAIN = "again"
    NEW_INCARNATION = "new incarnation"
    NEW_EPOCH = "new epoch"
    STOP_REPLACED = "replaced"
    STOP_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream and the next step."""

    next: NextStep
    reason: str
    code: str = ""
    # Whether an Ack arrived, so that earlier failures no longer count.
    was_useful: bool = False
    # Time that the core requests to wait; 0: unknown.
    retry_after_seconds: float = 0.0
    # Whether the core ended it because of its content, so that the next one may end as well.
    is_refusal: bool = False


# The next step by the reason of an error.
BY_REASON: Final = {
    ErrorReason.ERROR_REASON_MALFORMED_MESSAGE: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_INVALID_FIELD: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_LIMIT_EXCEEDED: NextStep.AGAIN,
    ErrorReason.ERROR_REASON_BUSY: NextStep.AGAIN,
    ErrorReason.ERROR_REASON_SHUTTING_DOWN: NextStep.AGAIN,
    ErrorReason.ERROR_REASON_INTERNAL: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_HELLO_MISSING: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_HELLO_TIMEOUT: NextStep.AGAIN,
    ErrorReason.ERROR_REASON_HELLO_REPEATED: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_PROTOCOL_VERSION_UNSUPPORTED: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_EPOCH_STALE: NextStep.NEW_EPOCH,
    ErrorReason.ERROR_REASON_EPOCH_TAKEN: NextStep.NEW_EPOCH,
    ErrorReason.ERROR_REASON_EPOCH_TOO_HIGH: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_SEQUENCE_NUMBER_INVALID: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_SEQUENCE_GAP: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_INCARNATION_MISMATCH: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_SNAPSHOT_EXPECTED: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_SNAPSHOT_MARKER_UNEXPECTED: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_SNAPSHOT_END_MISMATCH: NextStep.NEW_INCARNATION,
    ErrorReason.ERROR_REASON_STATE_LOST: NextStep.AGAIN,
    ErrorReason.ERROR_REASON_CERTIFICATE_MISSING: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_TOKEN_INVALID: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_CLUSTER_DENIED: NextStep.STOP_REFUSED,
    ErrorReason.ERROR_REASON_ROLE_DENIED: NextStep.STOP_REFUSED,
}
# Statuses of an absent core, or of the network.
_AWAY: Final = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
}
# Codes without a known reason after which a retry of Hello does not help.
_FINAL: Final = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}


def end_of_goaway(message: GoAway) -> StreamEnd:
    known = GoAwayReason.DESCRIPTOR.values_by_number.get(message.reason)
    name = known.name if known is not None else f"reason {message.reason}"
    name = name.removeprefix("GO_AWAY_REASON_").lower()
    reason = f"{name}: {message.message}" if message.message else name
    if message.reason == GO_AWAY_REASON_REPLACED:
        return StreamEnd(NextStep.STOP_REPLACED, reason)
    if message.reason == GO_AWAY_REASON_FENCED:
        return StreamEnd(NextStep.NEW_EPOCH, reason, is_refusal=True)
    is_refusal = message.reason != GO_AWAY_REASON_SHUTTING_DOWN
    return StreamEnd(NextStep.AGAIN, reason, is_refusal=is_refusal)


def end_of_status(
    code: grpc.StatusCode, text: str, detail: StatusDetails, *, welcomed: bool
) -> StreamEnd:
    """The end for a status, by its reason, or by its code if it has no known reason."""
    shown = f"{code.name}: {text}" if text else code.name
    then = _next_by_reason(detail.reason) or _next_by_code(code)
    if then is NextStep.STOP_REFUSED and welcomed:
        # The adapter was accepted before, so the problem was in this stream.
        then = NextStep.NEW_INCARNATION
    wait = detail.retry_after_seconds
    is_refusal = code not in _AWAY
    return StreamEnd(then, shown, code.name, retry_after_seconds=wait, is_refusal=is_refusal)


def _next_by_reason(name: str) -> NextStep | None:
    """None: the error is not from a core, or has an unknown reason."""
    full = f"ERROR_REASON_{name}"
    if full not in ErrorReason.keys():  # noqa: SIM118 - an enum wrapper is no mapping
        return None
    return BY_REASON.get(ErrorReason.Value(full))


def _next_by_code(code: grpc.StatusCode) -> NextStep:
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return NextStep.NEW_EPOCH
    if code in {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED}:
        return NextStep.NEW_INCARNATION
    return NextStep.STOP_REFUSED if code in _FINAL else NextStep.AGAIN


class ReconnectPolicy:
    """Computes the delay after each stream."""

    def __init__(self, away: Backoff, refused: Backoff, rng: random.Random) -> None:
        self._away, self._refused, self._rng = away, refused, rng
        # Number of consecutive streams without an Ack.
        self.failures = 0
        # Number of streams that the core ended since the last long one.
        self._refusals = 0

    def delay_after(self, end: StreamEnd, lasted_seconds: float) -> float:
        """The seconds until the next stream."""
        if lasted_seconds >= STEADY_SECONDS:
            self._refusals = 0
        self.failures = 0 if end.was_useful else self.failures + 1
        # After a useful stream, the first retry follows almost at once.
        delay = self._away.delay(max(self.failures, 1), self._rng)
        if end.is_refusal:
            self._refusals += 1
            delay = max(delay, self._refused.delay(self._refusals, self._rng))
        return max(delay, end.retry_after_seconds)

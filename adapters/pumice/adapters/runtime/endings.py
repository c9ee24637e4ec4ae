"""What the end of a stream means: come back, come back as somebody new, or stay away."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import grpc

from pumice.v1.cluster_service_pb2 import (
    GO_AWAY_REASON_FENCED,
    GO_AWAY_REASON_REPLACED,
    GoAway,
    GoAwayReason,
)


class Next(Enum):
    """What to do after a stream."""

    AGAIN = "again"
    NEW_INCARNATION = "new incarnation"
    NEW_EPOCH = "new epoch"
    STOP_REPLACED = "replaced"
    STOP_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ended."""

    next: Next
    reason: str
    code: str = ""
    # It got as far as an Ack: whatever was wrong before is right now.
    was_useful: bool = False


# Answers to Hello that no second try changes.
_FINAL: Final = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
}


def ending_of_goaway(message: GoAway) -> Ending:
    name = GoAwayReason.Name(message.reason).removeprefix("GO_AWAY_REASON_").lower()
    reason = f"{name}: {message.message}" if message.message else name
    if message.reason == GO_AWAY_REASON_REPLACED:
        return Ending(Next.STOP_REPLACED, reason)
    if message.reason == GO_AWAY_REASON_FENCED:
        return Ending(Next.NEW_EPOCH, reason)
    return Ending(Next.AGAIN, reason)


def ending_of_status(code: grpc.StatusCode, details: str, *, welcomed: bool) -> Ending:
    reason = f"{code.name}: {details}" if details else code.name
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return Ending(Next.NEW_EPOCH, reason, code.name)
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        # Before Welcome it can only be the epoch; later the numbers or the incarnation.
        then = Next.NEW_INCARNATION if welcomed else Next.NEW_EPOCH
        return Ending(then, reason, code.name)
    if code in _FINAL and not welcomed:
        return Ending(Next.STOP_REFUSED, reason, code.name)
    if code in _FINAL:
        return Ending(Next.NEW_INCARNATION, reason, code.name)
    return Ending(Next.AGAIN, reason, code.name)

"""Converts results of apply calls to outcomes of decisions."""

from dataclasses import dataclass
from typing import Final

from pumice.adapters.runtime.world import ApplyCode, ApplyResult, Reading
from pumice.v1.decision_pb2 import (
    OUTCOME_CODE_APPLIED,
    OUTCOME_CODE_CONFLICT,
    OUTCOME_CODE_FAILED,
    OUTCOME_CODE_GONE,
    OUTCOME_CODE_RETRYING,
    Bind,
    Decision,
    Evict,
    OutcomeCode,
)

# The outcome of PLACED depends on the node.
OUTCOMES: Final[dict[ApplyCode, OutcomeCode.ValueType]] = {
    ApplyCode.DONE: OUTCOME_CODE_APPLIED,
    ApplyCode.NOT_FOUND: OUTCOME_CODE_GONE,
    ApplyCode.OTHER_UID: OUTCOME_CODE_GONE,
    ApplyCode.FORBIDDEN: OUTCOME_CODE_FAILED,
    ApplyCode.WITHHELD: OUTCOME_CODE_FAILED,
    ApplyCode.INVALID: OUTCOME_CODE_FAILED,
    ApplyCode.NOT_LEADING: OUTCOME_CODE_FAILED,
    # After a conflict the pod must be read back.
    ApplyCode.CONFLICT: OUTCOME_CODE_RETRYING,
    ApplyCode.THROTTLED: OUTCOME_CODE_RETRYING,
    ApplyCode.SERVER_ERROR: OUTCOME_CODE_RETRYING,
    ApplyCode.TIMED_OUT: OUTCOME_CODE_RETRYING,
    ApplyCode.WAITING: OUTCOME_CODE_RETRYING,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a decision, with its reason."""

    code: OutcomeCode.ValueType
    reason: str = ""
    version: str = ""
    # Whether this adapter was not the leader at the time of the call.
    is_deposed: bool = False

    @property
    def is_final(self) -> bool:
        return self.code != OUTCOME_CODE_RETRYING


def judge(decision: Decision, result: ApplyResult) -> Verdict:
    """The verdict for the result of a call."""
    if result.code is ApplyCode.PLACED:
        if result.node == decision.bind.node:
            return Verdict(OUTCOME_CODE_APPLIED, version=result.version)
        reason = result.reason or f"already on node {result.node}"
        return Verdict(OUTCOME_CODE_CONFLICT, reason, result.version)
    code = OUTCOMES[result.code]
    if code == OUTCOME_CODE_APPLIED:
        return Verdict(code, result.reason, result.version)
    reason = f"{result.code.value}: {result.reason}" if result.reason else result.code.value
    is_deposed = result.code is ApplyCode.NOT_LEADING
    return Verdict(code, reason, result.version, is_deposed)


def judge_reading(decision: Decision, reading: Reading) -> Verdict | None:
    """The verdict for a pod that was read back; None: the last call had no effect."""
    order = target(decision)
    if order is None or reading.object is None:
        return Verdict(OUTCOME_CODE_GONE, "the pod no longer exists", reading.version)
    pod = reading.object.pod
    if pod.uid != order.uid:
        return Verdict(OUTCOME_CODE_GONE, "another pod has its name now", reading.version)
    if isinstance(order, Evict):
        done = pod.terminating
        return Verdict(OUTCOME_CODE_APPLIED, version=reading.version) if done else None
    if not pod.node_name:
        return None
    return judge(
        decision, ApplyResult(ApplyCode.PLACED, node=pod.node_name, version=reading.version)
    )


def target(decision: Decision) -> Bind | Evict | None:
    """The order in a decision; None: an order of an unknown type."""
    match decision.WhichOneof("order"):
        case "bind":
            return decision.bind
        case "evict":
            return decision.evict
        case _:
            return None


def gave_up(last: Verdict, tries: int) -> Verdict:
    """The verdict after the last retry."""
    return Verdict(OUTCOME_CODE_FAILED, f"gave up after {tries} tries: {last.reason}", last.version)

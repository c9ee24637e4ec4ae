"""Failures of acts, and when they end a stage early."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from pumice.adapters.kubernetes.errors import (
    ApiError,
    KubernetesError,
    LostAnswerError,
    UnreachableError,
)
from pumice.controllers.runtime.acts import Create, Write

# After so many failures in a row, the other acts of a stage are not performed.
MOST_FAILURES_IN_A_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an act failed."""

    text: str
    # Whether another client changed the object in between, so that a retry with the new object may succeed.
    is_conflict: bool = False
    # The delay in seconds that the API server asks for.
    retry_after: float = 0.0
    # Whether the API server was unreachable, or unable to answer.
    is_outage: bool = False
    # Whether the call was not made because this process does not lead.
    is_not_leading: bool = False
    # Whether the call was not made because a right is missing, which is logged once for all objects.
    is_withheld: bool = False


class FailureSeries:
    """Failures in a row of the acts of a stage, after which the other acts are left for the next reconcile.

    Otherwise a Job with a hundred thousand pods would make as many calls that a quota refuses, or with
    which a busy API server cannot cope, again and again.
    """

    def __init__(self) -> None:
        self._refusals: dict[str, int] = {}
        self._outages = 0

    def skips(self, act: Write) -> bool:
        is_refused = (
            isinstance(act, Create) and self._refusals.get(act.like, 0) >= MOST_FAILURES_IN_A_ROW
        )
        return is_refused or self._outages >= MOST_FAILURES_IN_A_ROW

    def add(self, act: Write, failure: Failure | None) -> None:
        is_outage = failure is not None and failure.is_outage
        self._outages = self._outages + 1 if is_outage else 0
        if isinstance(act, Create) and act.like and not is_outage:
            is_refused = failure is not None and not failure.is_conflict
            self._refusals[act.like] = self._refusals.get(act.like, 0) + 1 if is_refused else 0


def worst(failures: Iterable[Failure | None]) -> Failure | None:
    """The first failure that is not a conflict, else the first one, with the longest wait of all."""
    found = [failure for failure in failures if failure is not None]
    if not found:
        return None
    first = min(found, key=lambda failure: failure.is_conflict)
    return replace(first, retry_after=max(failure.retry_after for failure in found))


def is_outage(error: KubernetesError) -> bool:
    if isinstance(error, ApiError):
        return error.is_transient
    return isinstance(error, LostAnswerError | UnreachableError)

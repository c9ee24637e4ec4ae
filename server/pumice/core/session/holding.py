"""Passes over jobs that enqueue holds back, group by group.

Jobs of one queue and namespace with equal minima are held back for the same reasons. While nothing
is admitted, what holds for one of them holds for all, so that only one is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.core.cache.job_index import WaitingGroup
from pumice.core.cache.jobs import Job
from pumice.core.decisions import Wait
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.waiting import PassedOver, is_predictable

if TYPE_CHECKING:
    from pumice.core.session.session import Session

_POINTS = ("job_enqueueable", "job_order")
_FINDING = ReasonCode.NOT_ENQUEUED


class HeldJobs(PassedOver):
    """The jobs that enqueue may pass over."""

    def __init__(self, session: Session) -> None:
        waiting = session.waiting
        waiting.may_hold = is_predictable(session, _POINTS, ("enqueue",))
        if not waiting.may_hold:
            waiting.held.wake_all()
        super().__init__(session, [*waiting.held.groups()])

    def _still_waits(self, _queue: Queue, group: WaitingGroup) -> bool:
        job = group.in_order()[0][1]
        before = [r for r in self._session.waiting.held.waits[job.id].reasons if r.code != _FINDING]
        return refusal_of(self._session, job) == before

    def _wake(self, jobs: list[Job]) -> list[Job]:
        for job in jobs:
            self._session.waiting.held.wake(job.id)
        return jobs


def refusal_of(session: Session, job: Job) -> list[Reason] | None:
    """The reasons for which the job would not be admitted; None: it would be."""
    events, reasons = len(session.events), session.reasons.pop(job.id, None)
    is_enqueueable = session.votes.is_enqueueable(job)
    said = session.reasons.pop(job.id, [])
    if reasons is not None:
        session.reasons[job.id] = reasons
    del session.events[events:]
    return None if is_enqueueable else said


def remember_held(session: Session, waits: Iterable[Wait]) -> None:
    """Remembers, at the end of a session, jobs that were not admitted."""
    waiting = session.waiting
    if not waiting.not_admitted or not waiting.may_hold:
        return
    for wait in waits:
        found = waiting.not_admitted.get(wait.job)
        if found is None:
            continue
        job, key, reasons = found
        group = job.group
        if group is None or wait.reasons != reasons or not _may_be_passed_over(job):
            continue
        minimum = (group.min_resources, group.min_resources_milli)
        place = (job.queue, job.namespace, *minimum, reasons)
        waiting.held.enter(place, _FINDING, (key, job), wait)


def _may_be_passed_over(job: Job) -> bool:
    """Whether it has nothing new to report, and holds nothing."""
    index = job.index
    if job.closed_version != job.version or len(index.pending) != len(index):
        return False
    # None where the session had moved some of its tasks.
    return job.closed_errors is not None and not job.closed_errors

"""The waiting jobs that an evicting action has to visit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pumice.core.cache.job_index import WaitingGroup
from pumice.core.cache.jobs import Job
from pumice.core.model.reasons import Reason
from pumice.core.session.waiting import errors_of, unschedulable_groups

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class EvictionVisits:
    """The jobs that one run of an evicting action has to visit.

    If evictions can help no job, the action changes nothing, and the order of visits has no effect.
    Then it visits one job of each waiting group, the representative. If the representative gets the
    same reasons as in the last session, the action skips the rest of the group.
    """

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        actions = session.configuration.actions
        # This action and the actions after it, whose reasons of this session do not exist yet.
        self._coming = frozenset(actions[actions.index(author) :])
        # By the id of its representative.
        self._groups: dict[str, WaitingGroup] = {}

    def jobs(self, may_help: Callable[[Job], bool]) -> list[Job]:
        """The jobs to visit first, by id; ``may_help`` returns whether evictions could help a job."""
        session, unschedulable = self._session, self._session.waiting.unschedulable
        groups = unschedulable_groups(session)
        if not groups:
            return session.unsettled_jobs
        for group in groups:
            job = group.in_order()[0][1]
            self._groups[job.id] = group
            self._prepare(job)
        visited = [*session.jobs_to_visit(), *(session.jobs[id_] for id_ in self._groups)]
        visited.sort(key=lambda job: job.id)
        if not any(may_help(job) for job in visited):
            return visited
        self._forget_representatives()
        for job_id in [*unschedulable.waits]:
            self._activate(session.jobs[job_id])
        return session.unsettled_jobs

    def changed(self) -> list[Job]:
        """The jobs to visit after those: the jobs of groups whose reasons have changed."""
        session, jobs = self._session, []
        for job_id, group in self._groups.items():
            before = session.waiting.unschedulable.waits[job_id].reasons
            if self._own(session.reasons[job_id]) != self._own(before):
                jobs += [job for _, job in group.in_order()]
        self._forget_representatives()
        for job in jobs:
            self._activate(job)
        return sorted(jobs, key=lambda job: job.id)

    def _own(self, reasons: Iterable[Reason]) -> list[Reason]:
        return [reason for reason in reasons if reason.author == self._author]

    def _prepare(self, job: Job) -> None:
        """Gives a job the reasons and errors that the actions before this one would have set."""
        to_place, wait = job.to_place, self._session.waiting.unschedulable.waits[job.id]
        assert to_place is not None
        if "allocate" in self._coming:
            self._session.reasons[job.id] = []
            return
        reasons = [reason for reason in wait.reasons if reason.author not in self._coming]
        self._session.reasons[job.id] = reasons
        job.fit_errors.update(errors_of(to_place))

    def _forget_representatives(self) -> None:
        for job_id in self._groups:
            self._session.reasons.pop(job_id, None)
            self._session.jobs[job_id].fit_errors.clear()
        self._groups.clear()

    def _activate(self, job: Job) -> None:
        waiting = self._session.waiting
        self._prepare(job)
        if "allocate" not in self._coming:
            waiting.found_unschedulable[job.id] = (job, waiting.unschedulable.key_of(job.id))
        waiting.unschedulable.activate(job.id)

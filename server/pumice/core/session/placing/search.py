"""The search for the best domain in which a job and its sub-jobs can be placed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.session.placing.pending_tasks import PendingTasks
from pumice.core.session.placing.placement import Placement
from pumice.core.session.placing.room import DomainRoom
from pumice.core.session.placing.statement import SavedOperation, Statement
from pumice.core.session.placing.topology import CLUSTER_TOP

if TYPE_CHECKING:
    from pumice.core.session.session import Session


@dataclass(slots=True)
class Found:
    """A placement of a job in a domain, and of its sub-jobs in domains below it."""

    statement: Statement
    domain: str
    parts: dict[str, str]


@dataclass(slots=True)
class _Trial:
    """The placement of a job in one domain; its statements are in effect until discarded."""

    statements: list[Statement] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    score: float = 0.0
    # The job is ready or at least pipelined.
    is_good: bool = False

    def save(self) -> list[SavedOperation]:
        return [operation for statement in self.statements for operation in statement.save()]

    def discard(self) -> None:
        for statement in self.statements:
            statement.discard()


class DomainSearch:
    """Tries domains tier by tier, and takes the best one of the first tier that has any.

    Domains are tried one by one and undone, until all of a tier are known. Where the score of each
    is known beforehand they are tried in that order, and the first one that takes the job is kept.
    """

    def __init__(self, session: Session, placement: Placement) -> None:
        self._session = session
        self._placement = placement
        self._room = DomainRoom(session)
        self._lowest: dict[tuple[str, ...], bool] = {}
        # Of the last job that was not placed: the domain with room for most of its tasks, for how
        # many, and how many had to be placed, as far as that is known.
        self.nearest: tuple[str, int, int] | None = None

    def find(self, job: Job, pending_tasks: PendingTasks) -> Found | None:
        """Places the job in the best domain; what is left to place stays in ``pending_tasks``."""
        topology = self._session.topology
        self.nearest = None
        tasks = next(iter(pending_tasks.tasks.values()))
        gradients = topology.job_gradients(job, CLUSTER_TOP, for_evicting=False)
        self._placement.is_trial = topology.is_constrained(job)
        try:
            for number, domains in enumerate(gradients):
                is_last = number == len(gradients) - 1
                possible: Sequence[str] = domains
                if not job.has_policies:
                    sub_job = job.default_sub_job()
                    possible = self._possible(job, sub_job, tasks, domains, is_last=is_last)
                found = self._find_among(job, pending_tasks, possible)
                if found is not None:
                    return found
        finally:
            self._placement.is_trial = False
        return None

    def _find_among(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Found | None:
        ranked = domains if len(domains) == 1 else self._ranked(job, domains)
        if ranked is not None:
            return self._first_good(job, pending_tasks, ranked)
        return self._best_of(job, pending_tasks, domains)

    def _possible(
        self,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        domains: Sequence[str],
        *,
        is_last: bool,
    ) -> Sequence[str]:
        """The domains without those that certainly have too little room.

        In the last tier one of those is tried nevertheless, for the reasons that it gives.
        """
        counted = self._room.counted(job, sub_job, tasks, domains)
        if counted is None:
            return domains
        rooms, need = counted
        most = max(rooms, default=0)
        if most < need and rooms:
            nearest = domains[rooms.index(most)]
            if not job.has_policies and (self.nearest is None or most >= self.nearest[1]):
                self.nearest = (nearest, most, need)
            return [nearest] if is_last else []
        return [name for name, room in zip(domains, rooms, strict=True) if room >= need]

    # Where the score of a domain is known before anything is placed in it.

    def _ranked(self, job: Job, domains: Sequence[str]) -> list[str] | None:
        """The domains, the best first; None: their scores follow from trials.

        A job of one part has the score of its part, and in a domain without others below it there
        is one place for that part.
        """
        if job.has_policies or not self._are_lowest(tuple(domains)):
            return None
        groups = self._session.topology.ranked(job.default_sub_job(), domains)
        return None if groups is None else [name for group in groups for name in group]

    def _are_lowest(self, domains: tuple[str, ...]) -> bool:
        """Whether no domain has others below it."""
        known = self._lowest.get(domains)
        if known is None:
            tree = self._session.topology.tree
            known = self._lowest[domains] = not any(tree.children_of(name) for name in domains)
        return known

    def _first_good(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Found | None:
        for domain in domains:
            trial_tasks = pending_tasks.clone()
            trial = self._try(job, trial_tasks, domain, scored=False)
            if trial.is_good:
                statement = self._session.statement()
                for part in trial.statements:
                    statement.merge(part)
                pending_tasks.take_over(trial_tasks)
                return Found(statement, domain, trial.parts)
            trial.discard()
        return None

    # Where it is not.

    def _best_of(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Found | None:
        found: dict[str, tuple[_Trial, list[SavedOperation], PendingTasks]] = {}
        for domain in domains:
            trial_tasks = pending_tasks.clone()
            trial = self._try(job, trial_tasks, domain)
            if trial.is_good:
                found[domain] = (trial, trial.save(), trial_tasks)
            trial.discard()
        if not found:
            return None
        best = max(sorted(found), key=lambda domain: found[domain][0].score)
        trial, saved, trial_tasks = found[best]
        statement = self._session.statement()
        if not statement.replay(saved):
            statement.discard()
            return None
        pending_tasks.take_over(trial_tasks)
        return Found(statement, best, trial.parts)

    # One domain.

    def _try(
        self, job: Job, pending_tasks: PendingTasks, domain: str, *, scored: bool = True
    ) -> _Trial:
        """Places the sub-jobs in a domain; a trial that is compared with no other needs no score."""
        session = self._session
        session.count("domains_tried")
        job.fit_errors.clear()
        occupied = session.topology.occupied_by(job)
        before = dict(occupied.parts)
        trial = _Trial()
        while pending_tasks.sub_jobs:
            sub_job = pending_tasks.sub_jobs.pop()
            statement, score, inner = self._place_sub_job(
                job, sub_job, pending_tasks, domain, scored=scored
            )
            if statement is None or not len(statement):
                continue
            trial.statements.append(statement)
            trial.score += score
            trial.parts[sub_job.id] = occupied.parts[sub_job.id] = session.topology.tree.common(
                occupied.parts.get(sub_job.id, ""), inner
            )
            if pending_tasks.tasks[sub_job.id]:
                pending_tasks.sub_jobs.push(sub_job)
            if session.votes.is_ready(job):
                break
        occupied.parts = before
        trial.is_good = bool(trial.statements) and (
            session.votes.is_ready(job) or session.votes.is_pipelined(job)
        )
        return trial

    def _place_sub_job(
        self,
        job: Job,
        sub_job: SubJob,
        pending_tasks: PendingTasks,
        domain: str,
        *,
        scored: bool,
    ) -> tuple[Statement | None, float, str]:
        """A statement, its score, and the domain below the given one that it places in."""
        topology = self._session.topology
        gradients = topology.sub_job_gradients(sub_job, domain, for_evicting=False)
        for number, domains in enumerate(gradients):
            is_last = number == len(gradients) - 1
            tasks = pending_tasks.tasks[sub_job.id]
            possible = self._possible(job, sub_job, tasks, domains, is_last=is_last)
            groups = topology.ranked(sub_job, possible) if len(possible) > 1 else None
            if groups is None:
                groups = [list(possible)] if possible else []
            for group in groups:
                found = self._place_in_best(job, sub_job, pending_tasks, group, scored=scored)
                if found is not None:
                    return found
        return None, 0.0, ""

    def _place_in_best(
        self,
        job: Job,
        sub_job: SubJob,
        pending_tasks: PendingTasks,
        domains: Sequence[str],
        *,
        scored: bool,
    ) -> tuple[Statement | None, float, str] | None:
        """The same for the best of some domains; None: none of them takes the sub-job."""
        topology = self._session.topology
        if topology.is_first_by_name(sub_job, domains):
            # What is scored is the cluster without this placement.
            score = topology.score_alone(sub_job, domains[0]) if scored else 0.0
            for domain in domains:
                statement = self._place_in(job, sub_job, pending_tasks, domain)
                if statement is not None:
                    return statement, score, domain
            return None
        found = self._placements(job, sub_job, pending_tasks, domains)
        if not found:
            return None
        best, score = topology.best_domain(sub_job, sorted(found))
        statement = self._session.statement()
        if not statement.replay(found[best][0]):
            statement.discard()
            return None, 0.0, ""
        pending_tasks.tasks[sub_job.id] = found[best][1]
        return statement, score, best

    def _placements(
        self, job: Job, sub_job: SubJob, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> dict[str, tuple[list[SavedOperation], deque[Task]]]:
        """Placements of a sub-job by domain, all undone, with the tasks that each leaves over."""
        found = {}
        before = pending_tasks.tasks[sub_job.id]
        for domain in domains:
            statement = self._place_in(job, sub_job, pending_tasks, domain)
            if statement is not None:
                found[domain] = (statement.save(), pending_tasks.tasks[sub_job.id])
                statement.discard()
            pending_tasks.tasks[sub_job.id] = before
        return found

    def _place_in(
        self, job: Job, sub_job: SubJob, pending_tasks: PendingTasks, domain: str
    ) -> Statement | None:
        """A placement of the sub-job in one domain; the tasks that it leaves over stay pending."""
        for uid in [uid for uid in job.fit_errors if job.sub_job_of[uid] is sub_job]:
            del job.fit_errors[uid]
        tasks = pending_tasks.tasks[sub_job.id].copy()
        statement = self._placement.place_tasks(job, sub_job, tasks, domain)
        if statement is None or not len(statement):
            return None
        pending_tasks.tasks[sub_job.id] = tasks
        return statement

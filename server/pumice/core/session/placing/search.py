"""The search for the best domain in which a job and its sub-jobs can be placed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.session.placing.candidate_domains import CandidateDomains
from pumice.core.session.placing.pending_tasks import PendingTasks
from pumice.core.session.placing.placement import Placement
from pumice.core.session.placing.statement import SavedOperation, Statement
from pumice.core.session.placing.topology import CLUSTER_TOP

if TYPE_CHECKING:
    from pumice.core.session.session import Session


@dataclass(slots=True)
class _Trial:
    """The placement of a job in one domain; its statements are in effect until discarded."""

    statements: list[Statement] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    score: float = 0.0
    # The sub-jobs that it placed, each with the number of tasks that were placed before.
    steps: list[tuple[SubJob, int]] = field(default_factory=list)
    placed: int = 0
    # Whether the job is ready or pipelined.
    succeeded: bool = False

    def save(self) -> list[SavedOperation]:
        return [operation for statement in self.statements for operation in statement.save()]

    def discard(self) -> None:
        for statement in self.statements:
            statement.discard()


class DomainSearch:
    """Tries domains tier by tier, and places the job in the best domain of the first suitable tier.

    All domains of a tier are tried and undone, and the best placement is repeated. If the scores are
    known before, domains are tried in their order, and the first successful placement is kept.
    Where a plugin counts placements that are undone, every domain is tried, as in Volcano.
    """

    def __init__(self, session: Session, placement: Placement) -> None:
        self._session = session
        self._placement = placement
        self._candidates = CandidateDomains(session)
        # The best of the last domains that were alike.
        self._last = ""
        # Whether a placement of the job affects scores after it was undone.
        self._counts_undone = False

    @property
    def nearest(self) -> tuple[str, int, int] | None:
        """For the last job that was not placed, the domain with room for most of its tasks."""
        return self._candidates.nearest

    def find(self, job: Job, pending_tasks: PendingTasks) -> Statement | None:
        """Places the job in the best domain; tasks that are not placed stay in ``pending_tasks``."""
        topology = self._session.topology
        self._candidates.nearest = None
        tasks = next(iter(pending_tasks.tasks.values()))
        gradients = topology.job_gradients(job, CLUSTER_TOP, for_evicting=False)
        self._counts_undone = self._session.plain.counts_undone(
            task for part in pending_tasks.tasks.values() for task in part
        )
        self._placement.is_trial = topology.is_constrained(job)
        try:
            for number, domains in enumerate(gradients):
                is_last = number == len(gradients) - 1
                candidates = self._candidates
                if self._counts_undone:
                    possible: Sequence[str] = domains
                elif job.has_policies:
                    possible = candidates.possible_for_all(
                        job, pending_tasks, domains, is_last=is_last
                    )
                else:
                    sub_job = job.default_sub_job()
                    possible = candidates.possible(job, sub_job, tasks, domains, is_last=is_last)
                statement = self._find_among(job, pending_tasks, possible)
                if statement is not None:
                    return statement
        finally:
            self._placement.is_trial = False
        return None

    def _find_among(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Statement | None:
        if self._counts_undone:
            return self._best_of(job, pending_tasks, domains)
        is_ranked = len(domains) == 1 or job.topology_key
        ranked = domains if is_ranked else self._candidates.ranked(job, domains)
        if ranked is not None:
            return self._first_success(job, pending_tasks, ranked)
        alike = self._candidates.alike(job, pending_tasks, domains)
        if alike is not None and len(alike[0]) > 1:
            return self._best_of_alike(job, pending_tasks, *alike)
        return self._best_of(job, pending_tasks, domains)

    def _first_success(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Statement | None:
        for domain in domains:
            trial_tasks = pending_tasks.clone()
            trial = self._try(job, trial_tasks, domain, scored=False)
            if trial.succeeded:
                return self._keep(trial, domain, pending_tasks, trial_tasks)
            trial.discard()
        return None

    def _keep(
        self, trial: _Trial, domain: str, pending_tasks: PendingTasks, trial_tasks: PendingTasks
    ) -> Statement:
        statement = self._session.statement()
        for part in trial.statements:
            statement.merge(part)
        pending_tasks.take_over(trial_tasks)
        statement.domains = (domain, trial.parts)
        return statement

    # Domains that are alike: a trial in one of them shows the scores of the others.

    def _best_of_alike(
        self, job: Job, pending_tasks: PendingTasks, alike: list[str], others: list[str]
    ) -> Statement | None:
        """Places the job in the best domain; of those that are alike, only one is tried."""
        first = next(tasks[0] for tasks in pending_tasks.tasks.values())
        tried = self._last
        if tried not in alike:
            groups = self._session.topology.ranked(job.sub_job_of(first.uid), alike)
            tried = groups[0][0] if groups else alike[0]
        trial_tasks = pending_tasks.clone()
        trial = self._try(job, trial_tasks, tried, scored=False)
        if not trial.succeeded:
            # The job fits in none of the domains that are alike.
            trial.discard()
            return self._best_of(job, pending_tasks, others)
        best = self._best_by_score(trial, tried, alike, first.request)
        self._last = best or tried
        if best == tried and not others:
            return self._keep(trial, tried, pending_tasks, trial_tasks)
        trial.discard()
        remaining = alike if best is None else [best]
        return self._best_of(job, pending_tasks, [*remaining, *others])

    def _best_by_score(
        self, trial: _Trial, tried: str, alike: list[str], request: Resources
    ) -> str | None:
        """The best of domains that are alike, while the trial in one of them is in effect.

        None: their scores are only known after a placement.
        """
        steps = [
            (part, Resources().add_times(request, count - placed))
            for placed in (0, trial.placed)
            for part, count in trial.steps
        ]
        scores = self._session.topology.scores_after(steps, alike)
        if scores is None:
            return None
        # For the tried domain, the second half is without the tasks that the trial has placed there.
        half, position = len(trial.steps), alike.index(tried)
        scores[:half, position] = scores[half:, position]
        totals = np.add.accumulate(scores[:half])[-1]
        return min(zip((-totals).tolist(), alike, strict=True))[1]

    # Other domains: each is tried.

    def _best_of(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Statement | None:
        found: dict[str, tuple[_Trial, list[SavedOperation], PendingTasks]] = {}
        for domain in domains:
            trial_tasks = pending_tasks.clone()
            trial = self._try(job, trial_tasks, domain)
            if trial.succeeded:
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
        statement.domains = (best, trial.parts)
        return statement

    # One domain.

    def _try(
        self, job: Job, pending_tasks: PendingTasks, domain: str, *, scored: bool = True
    ) -> _Trial:
        """Places the sub-jobs in a domain; without ``scored``, the trial has no score."""
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
            trial.steps.append((sub_job, trial.placed))
            trial.placed += len(statement)
            trial.parts[sub_job.id] = occupied.parts[sub_job.id] = session.topology.tree.common(
                occupied.parts.get(sub_job.id, ""), inner
            )
            if pending_tasks.tasks[sub_job.id]:
                pending_tasks.sub_jobs.push(sub_job)
            if session.votes.is_ready(job):
                break
        occupied.parts = before
        trial.succeeded = bool(trial.statements) and (
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
        """The placement of a sub-job: a statement, its score, and the inner domain."""
        topology = self._session.topology
        gradients = topology.sub_job_gradients(sub_job, domain, for_evicting=False)
        for number, domains in enumerate(gradients):
            is_last = number == len(gradients) - 1
            tasks = pending_tasks.tasks[sub_job.id]
            if self._counts_undone:
                found = self._place_in_best(job, sub_job, pending_tasks, domains, scored=scored)
                if found is not None:
                    return found
                continue
            possible = self._candidates.possible(job, sub_job, tasks, domains, is_last=is_last)
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
        """The same for the best of some domains; None: the sub-job fits in none of them."""
        topology = self._session.topology
        if not self._counts_undone and topology.is_first_by_name(sub_job, domains):
            # The score is that before the placement.
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
        """Placements of a sub-job by domain, all undone, with the tasks that each does not place."""
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
        """Places the sub-job in one domain; tasks that are not placed stay pending."""
        for uid in [uid for uid in job.fit_errors if job.sub_job_of(uid) is sub_job]:
            del job.fit_errors[uid]
        tasks = pending_tasks.tasks[sub_job.id].copy()
        statement = self._placement.place_tasks(job, sub_job, tasks, domain)
        if statement is None or not len(statement):
            return None
        pending_tasks.tasks[sub_job.id] = tasks
        return statement

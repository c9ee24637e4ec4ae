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
    Where a plugin counts placements that are undone, each domain is tried, as in Volcano.
    """

    def __init__(self, session: Session, placement: Placement) -> None:
        self._session = session
        self._placement = placement
        self._candidates = CandidateDomains(session)
        # The best one of the last domains that were alike.
        self._last = ""
        # Whether a trial of the job changes what follows.
        self._leaves_traces = False

    @property
    def nearest(self) -> tuple[str, int, int] | None:
        """Of the last job that was not placed, the domain with room for most of its tasks."""
        return self._candidates.nearest

    def find(self, job: Job, pending_tasks: PendingTasks) -> Statement | None:
        """Places the job in the best domain; what is left to place stays in ``pending_tasks``."""
        topology = self._session.topology
        self._candidates.nearest = None
        tasks = next(iter(pending_tasks.tasks.values()))
        gradients = topology.job_gradients(job, CLUSTER_TOP, for_evicting=False)
        self._leaves_traces = self._session.plain.leaves_traces(
            task for part in pending_tasks.tasks.values() for task in part
        )
        self._placement.is_trial = topology.is_constrained(job)
        try:
            for number, domains in enumerate(gradients):
                is_last = number == len(gradients) - 1
                candidates = self._candidates
                if self._leaves_traces:
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
        if self._leaves_traces:
            return self._best_of(job, pending_tasks, domains)
        alone = len(domains) == 1 or job.topology_key
        ranked = domains if alone else self._candidates.ranked(job, domains)
        if ranked is not None:
            return self._first_good(job, pending_tasks, ranked)
        alike = self._candidates.alike(job, pending_tasks, domains)
        if alike is not None and len(alike[0]) > 1:
            return self._best_of_alike(job, pending_tasks, *alike)
        return self._best_of(job, pending_tasks, domains)

    def _first_good(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Statement | None:
        for domain in domains:
            trial_tasks = pending_tasks.clone()
            trial = self._try(job, trial_tasks, domain, scored=False)
            if trial.is_good:
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

    # Where a trial in one domain tells the scores of others.

    def _best_of_alike(
        self, job: Job, pending_tasks: PendingTasks, alike: list[str], others: list[str]
    ) -> Statement | None:
        """The best of some domains, of which one is tried; others are tried each."""
        first = next(tasks[0] for tasks in pending_tasks.tasks.values())
        tried = self._last
        if tried not in alike:
            groups = self._session.topology.ranked(job.sub_job_of(first.uid), alike)
            tried = groups[0][0] if groups else alike[0]
        trial_tasks = pending_tasks.clone()
        trial = self._try(job, trial_tasks, tried, scored=False)
        if not trial.is_good:
            # The other domains are alike, so they do not take the job either.
            trial.discard()
            return self._best_of(job, pending_tasks, others)
        best = self._best_beside(trial, tried, alike, first.request)
        self._last = best or tried
        if best == tried and not others:
            return self._keep(trial, tried, pending_tasks, trial_tasks)
        trial.discard()
        left = alike if best is None else [best]
        return self._best_of(job, pending_tasks, [*left, *others])

    def _best_beside(
        self, trial: _Trial, tried: str, alike: list[str], request: Resources
    ) -> str | None:
        """The best of domains like the one that was tried, in which the trial is in effect.

        None: their scores are known after a placement only.
        """
        steps = [
            (part, Resources().add_times(request, count - placed))
            for placed in (0, trial.placed)
            for part, count in trial.steps
        ]
        scores = self._session.topology.scores_after(steps, alike)
        if scores is None:
            return None
        # Without the trial, the second half counts where it is in effect.
        half, position = len(trial.steps), alike.index(tried)
        scores[:half, position] = scores[half:, position]
        totals = np.add.accumulate(scores[:half])[-1]
        return min(zip((-totals).tolist(), alike, strict=True))[1]

    # Where it does not.

    def _best_of(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> Statement | None:
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
        statement.domains = (best, trial.parts)
        return statement

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
            if self._leaves_traces:
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
        """The same for the best of some domains; None: none of them takes the sub-job."""
        topology = self._session.topology
        if not self._leaves_traces and topology.is_first_by_name(sub_job, domains):
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
        for uid in [uid for uid in job.fit_errors if job.sub_job_of(uid) is sub_job]:
            del job.fit_errors[uid]
        tasks = pending_tasks.tasks[sub_job.id].copy()
        statement = self._placement.place_tasks(job, sub_job, tasks, domain)
        if statement is None or not len(statement):
            return None
        pending_tasks.tasks[sub_job.id] = tasks
        return statement

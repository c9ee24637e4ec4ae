"""Trials of evictions for a gang: victims are evicted, and all pending tasks must be pipelined."""

from __future__ import annotations

from collections.abc import Callable

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.configuration.volcano_names import REMEMBERS_ERRORS
from pumice.core.model.fit import Mask
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.placing.pending_tasks import PendingTasks, pending_tasks_of
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session


class GangTrials:
    """Tries evictions in a domain, and pipelines the tasks of a gang there."""

    def __init__(
        self, session: Session, author: str, nodes_for: Callable[[Task, ClassView], Mask]
    ) -> None:
        self._session = session
        self._author = author
        # Nodes whose refusals an eviction could resolve.
        self._nodes_for = nodes_for
        # Whether a node that refused a task of a role is not tried again for that role in a trial.
        of_allocate = session.configuration.arguments_of("allocate")
        self._remembers_errors = REMEMBERS_ERRORS.read(of_allocate)

    def attempt(self, job: Job, domain: str, victims: list[Task]) -> Statement | None:
        """Evicts the victims and pipelines the job's tasks; None: nothing was changed."""
        session = self._session
        was_ready = session.votes.is_ready(job)
        pending = pending_tasks_of(session, job, gated=False)
        statement = session.statement()
        for victim in victims:
            statement.evict(victim, self._author)
        while pending.sub_jobs:
            sub_job = pending.sub_jobs.pop()
            placed = self._pipeline_sub_job(job, sub_job, pending, domain)
            if placed is None:
                break
            statement.merge(placed)
            if session.votes.is_pipelined(job):
                return statement
            if was_ready:
                break
        statement.discard()
        return None

    def _pipeline_sub_job(
        self, job: Job, sub_job: SubJob, pending: PendingTasks, domain: str
    ) -> Statement | None:
        topology = self._session.topology
        gradients = [[domain]]
        if topology.is_constrained(job):
            gradients = topology.sub_job_gradients(sub_job, domain, for_evicting=True)
        for domains in gradients:
            for inner in domains:
                statement = self._pipeline_all(job, sub_job, pending, inner)
                if statement is not None:
                    return statement
        return None

    def _pipeline_all(
        self, job: Job, sub_job: SubJob, pending: PendingTasks, domain: str
    ) -> Statement | None:
        """Pipelines all tasks of a sub-job in one domain."""
        session = self._session
        within = session.topology.rows_of(domain)
        trial = session.statement()
        refused: dict[str, Mask] = {}
        for task in pending.tasks[sub_job.id]:
            row = self._row_for(job, task, within, refused)
            if row is None:
                break
            node_name = session.table.names[row]
            if not trial.pipeline(task, node_name, eviction_occurred=True):
                break
        else:
            votes = session.votes
            if votes.is_sub_job_ready(job, sub_job) or votes.is_sub_job_pipelined(job, sub_job):
                return trial
        trial.discard()
        return None

    def _row_for(self, job: Job, task: Task, within: Mask, refused: dict[str, Mask]) -> int | None:
        """The best node with room after the evictions; nodes with idle resources are preferred."""
        session = self._session
        if not session.votes.is_allocatable(session.queue_of(job), task):
            return None
        if session.feasibility.why_not_anywhere(task) is not None:
            return None
        view = session.view(task)
        feasible = self._nodes_for(task, view) & view.fits_future & within
        if self._remembers_errors and task.role:
            known = refused.get(task.role)
            if known is not None:
                feasible = feasible & ~known
            refused[task.role] = ~feasible
        idle = feasible & view.fits_idle
        return session.choice.best(task, view, idle if idle.any() else feasible)

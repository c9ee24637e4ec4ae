"""Places the tasks of one sub-job, one after the other, on the nodes of one domain."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.placing.statement import Statement
from pumice.core.session.placing.topology import CLUSTER_TOP

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


_OPEN = QueueState.OPEN
_OF_NODES = (ReasonCode.NO_NODE_FITS, ReasonCode.ROLE_FAILED)


class Placement:
    """The inner loop of allocation, for one action of one session."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        # A trial among several does not explain nodes: the search does, once for all of them.
        self.is_trial = False

    def place_tasks(
        self,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        domain: str,
        *,
        uniform: bool = False,
    ) -> Statement | None:
        """Tries tasks until the sub-job is ready; what was tried is taken off the list.

        Returns a statement that makes the sub-job ready or at least pipelined, or None.
        ``uniform``: the tasks are of one class, without gates and nominated nodes.
        """
        topology = self._session.topology
        within = topology.nodes_of(domain)
        if within is not None and not within.any():
            return None
        follows = sub_job.network_topology is not None
        topology.domain = domain
        topology.followed = topology.occupied_by_part(sub_job) if follows else ""
        try:
            return self._place_all(job, sub_job, tasks, within, uniform=uniform)
        finally:
            topology.domain, topology.followed = CLUSTER_TOP, ""

    def _place_all(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], within: Mask | None, *, uniform: bool
    ) -> Statement | None:
        session = self._session
        statement = session.statement()
        while tasks:
            if not self._place_class(statement, job, sub_job, tasks, within, uniform=uniform):
                task = tasks.popleft()
                session.count("tasks_tried")
                if not self._is_worth_trying(job, sub_job, task):
                    continue
                placed = self._place(statement, job, task, within)
                if placed is None and not job.needs_more_tries(sub_job):
                    break
                if not placed:
                    continue
                self._follow(sub_job, task)
            if session.votes.is_sub_job_ready(job, sub_job):
                return statement
        if session.votes.is_sub_job_ready(job, sub_job):
            return statement
        if session.votes.is_sub_job_pipelined(job, sub_job):
            return statement
        statement.discard()
        return None

    def _place_class(
        self,
        statement: Statement,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        within: Mask | None,
        *,
        uniform: bool,
    ) -> bool:
        """Places the first tasks, plain and of one class, in one go; true when it placed some.

        No more than the sub-job needs before it can be ready, so that nobody has to be asked in
        between. A task that does not fit, or is not plain, stays on the list.
        """
        session, first = self._session, tasks[0]
        most = session.votes.tasks_missing(job, sub_job)
        uniform = uniform and not job.fit_errors and not session.facet_rules(first.class_)
        terms: tuple[CandidateTerm, ...] | None = ()
        if uniform and session.plain.is_class_plain(first.class_):
            alike = list(islice(tasks, most))
        else:
            terms = self._terms(first)
            alike = [] if terms is None else self._alike(job, sub_job, tasks, most, terms)
        if not alike or terms is None:
            return False
        count = session.votes.allocatable_count(session.queue_of(job), first, len(alike))
        placed = statement.place_class(alike[:count], within, terms) if count else 0
        if not placed:
            return False
        for _ in range(placed):
            tasks.popleft()
        if sub_job.network_topology is not None:
            # In a level domain one says all.
            level = session.topology.tree.is_level(session.topology.domain)
            for task in alike[: 1 if level else placed]:
                self._follow(sub_job, task)
        session.count("tasks_tried", placed)
        return True

    def _follow(self, sub_job: SubJob, task: Task) -> None:
        """Notes where a task of a sub-job with a network topology went."""
        if sub_job.network_topology is not None:
            row = self._session.table.row_of(task.node_name)
            if row is not None:
                self._session.topology.follow(row)

    def _terms(self, task: Task) -> tuple[CandidateTerm, ...] | None:
        """What is added to the scores of the task's class; None: it has to be asked node by node."""
        terms = self._session.plain.terms_of(task)
        return None if terms and not self._session.view(task).has_program else terms

    def _alike(
        self,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        most: int,
        terms: tuple[CandidateTerm, ...],
    ) -> list[Task]:
        """The first tasks of one class that go by it, with the same terms for their scores."""
        session, class_ = self._session, tasks[0].class_
        all_plain = session.plain.is_class_plain(class_)
        failed_roles = job.failed_roles(sub_job) if job.fit_errors else ()
        facets = session.facets(tasks[0])
        together: list[Task] = []
        for task in tasks:
            if len(together) >= most or task.class_ is not class_ or task.gated:
                break
            if facets and session.facets(task) != facets:
                break
            if task.pod.nominated_node_name or (task.role and task.role in failed_roles):
                break
            known = all_plain or not together or _is_scored_like(task, tasks[0])
            if not known and session.plain.terms_of(task) != terms:
                break
            together.append(task)
        return together if all_plain or not together else session.plain.filtered_first(together)

    def _is_worth_trying(self, job: Job, sub_job: SubJob, task: Task) -> bool:
        session, queue = self._session, self._session.queue_of(job)
        if not session.votes.is_allocatable(queue, task):
            reason = Reason(self._author, ReasonCode.QUEUE_QUOTA, task=task.name)
            if queue.state is not _OPEN:
                # A queue that is not open takes no task, whatever its quota.
                about = (queue.name,)
                reason = Reason(self._author, ReasonCode.QUEUE_NOT_OPEN, task.name, subjects=about)
            self._say(job, reason)
            return False
        if task.gated:
            session.lift_gate(task)
            self._say(job, Reason(self._author, ReasonCode.GATED, task=task.name))
            return False
        if task.role and job.fit_errors and task.role in job.failed_roles(sub_job):
            text = (
                f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            )
            job.fit_errors[task.uid] = FitErrors(0, message=text)
            self._explain_role(job, task)
            return False
        return True

    def _explain_role(self, job: Job, task: Task) -> None:
        """Once for a role, however many of its pods are passed over."""
        about = (task.role,)
        reasons = self._session.reasons.get(job.id, ())
        if not any(r.code is ReasonCode.ROLE_FAILED and r.subjects == about for r in reasons):
            reason = Reason(self._author, ReasonCode.ROLE_FAILED, task=task.name, subjects=about)
            self._say(job, reason)

    def _place(
        self, statement: Statement, job: Job, task: Task, within: Mask | None
    ) -> bool | None:
        """True: placed; False: a plugin objected to the placement; None: no node takes it."""
        session = self._session
        problem = session.feasibility.why_not_anywhere(task)
        if problem is not None:
            count = len(session.table) if within is None else int(within.sum())
            errors = FitErrors(count, ((problem, count),))
            job.fit_errors[task.uid] = errors
            self.explain(job, task, errors)
            return None
        view = session.view(task)
        feasible = self._feasible(task, view, within)
        if feasible is None:
            errors = session.feasibility.fit_errors(task, view, within)
            errors = session.topology.located(errors, session.topology.domain)
            job.fit_errors[task.uid] = errors
            self.explain(job, task, errors)
            return None
        idle = feasible & view.fits_idle
        row = session.choice.best(task, view, idle if idle.any() else feasible)
        if row is None:
            return False
        node = session.table.names[row]
        if view.fits_idle[row]:
            return statement.allocate(task, node)
        return statement.pipeline(task, node, eviction_occurred=False)

    def _feasible(self, task: Task, view: ClassView, within: Mask | None) -> Mask | None:
        """Feasible nodes with resources now or after releases; the nominated one alone if it is feasible."""
        feasible = self._session.feasibility.allows(task, view) & view.fits_future
        if within is not None:
            feasible &= within
        nominated = self._session.table.row_of(task.pod.nominated_node_name)
        if nominated is not None and feasible[nominated]:
            alone = np.zeros(len(feasible), dtype=np.bool_)
            alone[nominated] = True
            return alone
        return feasible if feasible.any() else None

    def explain(self, job: Job, task: Task, errors: FitErrors) -> None:
        """Adds the reason why the task fits on no node."""
        reason = Reason(
            self._author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=errors.as_counts()
        )
        self._say(job, reason)

    def _say(self, job: Job, reason: Reason) -> None:
        if self.is_trial and (
            reason.code in _OF_NODES or reason in self._session.reasons.get(job.id, ())
        ):
            return
        self._session.explain(job, reason)


def _is_scored_like(task: Task, other: Task) -> bool:
    """Whether two tasks of one class and job surely have the same terms."""
    mine, its = task.pod, other.pod
    return mine.controller_name == its.controller_name and (
        mine.labels is its.labels or mine.labels == its.labels
    )

"""Places the tasks of one sub-job, one after the other, on the nodes of one domain."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Cause, Task, TasksToPlace
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.model.group import Queue, QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.plain import are_scored_alike
from pumice.core.session.orders import LiveDeque
from pumice.core.session.placing.statement import Statement
from pumice.core.session.placing.topology import CLUSTER_TOP

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


_OPEN = QueueState.OPEN
_NODE_REASONS = (ReasonCode.NO_NODE_FITS, ReasonCode.ROLE_FAILED)


class Placement:
    """The inner loop of allocation, for one action of one session."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        # Whether this is one of several trials; the search explains nodes once for all of them.
        self.is_trial = False

    def place_at_once(self, job: Job, to_place: TasksToPlace) -> Statement | None:
        """Allocates all tasks of a job at once, if they are filtered by class and scored alike.

        None: nothing was placed, and the tasks have to be tried in their order.
        """
        session, tasks = self._session, to_place.tasks
        if not to_place.is_uniform or job.fit_errors:
            return None
        first, count, votes = tasks[0], len(tasks), session.votes
        # With facets, other tasks may have another view than the first one.
        if session.views.has_facets and session.views.facet_rules(first.class_):
            return None
        view = session.view(first)
        if not view.has_feasible_row or (count > 1 and votes.tasks_missing(job) < count):
            return None
        if votes.allocatable_count(session.queues[job.queue], first, count) < count:
            return None
        terms = () if view.is_plain else session.plain.terms_of_all(tasks)
        if terms is None or (terms and not view.uses_kernel):
            return None
        statement = Statement(session)
        if not statement.place_class(view, tasks, None, terms, all_or_none=True):
            return None
        session.work["tasks_tried"] += count
        return statement

    def place_tasks(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], domain: str
    ) -> Statement | None:
        """Tries tasks until the sub-job is ready, and removes those that it tried from the list.

        Returns a statement that makes the sub-job ready or at least pipelined, or None.
        """
        topology = self._session.topology
        follows = sub_job.network_topology is not None
        if domain == CLUSTER_TOP and not follows:
            return self._place_in_order(job, sub_job, tasks, None)
        within = topology.nodes_of(domain)
        if within is not None and not within.any():
            return None
        topology.domain = domain
        topology.followed = topology.occupied_by_part(sub_job) if follows else ""
        try:
            return self._place_in_order(job, sub_job, tasks, within)
        finally:
            topology.domain, topology.followed = CLUSTER_TOP, ""

    def _place_in_order(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], within: Mask | None
    ) -> Statement | None:
        session = self._session
        statement = Statement(session)
        while tasks:
            if not self._place_alike(statement, job, sub_job, tasks, within):
                task = tasks.popleft()
                session.count("tasks_tried")
                if not self._is_worth_trying(job, sub_job, task):
                    continue
                placed = self._place_one(statement, job, task, within)
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

    def _place_alike(
        self,
        statement: Statement,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        within: Mask | None,
    ) -> bool:
        """Places the first tasks at once, if they are alike; false: it placed none.

        It places at most as many tasks as the sub-job needs before it can be ready, so that plugins need
        not be called in between. Tasks that were not placed stay in the list.
        """
        session, first = self._session, tasks[0]
        most = session.votes.tasks_missing(sub_job if job.has_policies else job)
        if isinstance(tasks, LiveDeque):
            # The placement of the first task may change the order of the others.
            most = min(most, 1)
        view, terms = session.view(first), session.plain.terms_of(first)
        if terms is None or (terms and not view.uses_kernel):
            return False
        alike = self._alike(job, sub_job, tasks, most, terms)
        if not alike:
            return False
        count = session.votes.allocatable_count(session.queues[job.queue], first, len(alike))
        placed = statement.place_class(view, alike[:count], within, terms) if count else 0
        if not placed:
            return False
        if placed == len(tasks):
            tasks.clear()
        else:
            for _ in range(placed):
                tasks.popleft()
        if sub_job.network_topology is not None:
            # In one domain of the lowest tier, it is enough to follow one task.
            is_one = session.topology.tree.has_one_lowest_domain(session.topology.domain)
            for task in alike[: 1 if is_one else placed]:
                self._follow(sub_job, task)
        session.count("tasks_tried", placed)
        return True

    def _follow(self, sub_job: SubJob, task: Task) -> None:
        """Records the domain of a task that was placed, if its sub-job has a network topology."""
        if sub_job.network_topology is not None:
            row = self._session.table.row_of(task.node_name)
            if row is not None:
                self._session.topology.follow(row)

    def _alike(
        self,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        most: int,
        terms: tuple[CandidateTerm, ...],
    ) -> list[Task]:
        """The first tasks that are filtered by one class and have the same terms in their scores."""
        session, class_, first = self._session, tasks[0].class_, tasks[0].pod
        all_plain = session.plain.is_class_plain(class_)
        failed_roles = job.failed_roles(sub_job) if job.fit_errors else ()
        facets = session.views.facets(tasks[0]) if session.views.has_facets else ()
        alike: list[Task] = []
        for task in tasks:
            if len(alike) >= most or task.class_ is not class_ or task.gated:
                break
            if facets and session.views.facets(task) != facets:
                break
            if task.pod.nominated_node_name or (task.role and task.role in failed_roles):
                break
            known = all_plain or are_scored_alike(task.pod, first)
            if not known and session.plain.terms_of(task) != terms:
                break
            alike.append(task)
        return alike if all_plain or not alike else session.plain.filtered_first(alike)

    def _is_worth_trying(self, job: Job, sub_job: SubJob, task: Task) -> bool:
        session, queue = self._session, self._session.queue_of(job)
        if not session.votes.is_allocatable(queue, task):
            self.explain_queue(job, _queue_refusal(queue), [task])
            return False
        if task.gated:
            session.lift_gate(task)
            self._add_reason(job, Reason(self._author, ReasonCode.GATED, task=task.name))
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
        """Adds one reason for all skipped tasks of a role."""
        role = (task.role,)
        reasons = self._session.reasons.get(job.id, ())
        if not any(r.code is ReasonCode.ROLE_FAILED and r.subjects == role for r in reasons):
            reason = Reason(self._author, ReasonCode.ROLE_FAILED, task=task.name, subjects=role)
            self._add_reason(job, reason)

    def _place_one(
        self, statement: Statement, job: Job, task: Task, within: Mask | None
    ) -> bool | None:
        """Places one task; false: a plugin rejected the placement; None: no node is feasible."""
        session = self._session
        problem = session.feasibility.why_not_anywhere(task)
        if problem is not None:
            count = len(session.table) if within is None else int(within.sum())
            errors = FitErrors(count, ((problem, count),))
            job.fit_errors[task.uid] = errors
            self.explain_nodes(job, task, errors)
            return None
        view = session.view(task)
        feasible = self._feasible(task, view, within)
        if feasible is None:
            errors = session.feasibility.fit_errors(task, view, within)
            errors = session.topology.located(errors, session.topology.domain)
            job.fit_errors[task.uid] = errors
            self.explain_nodes(job, task, errors)
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
        """Feasible nodes with enough future resources; only the nominated node if it is one of them."""
        feasible = self._session.feasibility.allows(task, view) & view.fits_future
        if within is not None:
            feasible &= within
        nominated = self._session.table.row_of(task.pod.nominated_node_name)
        if nominated is not None and feasible[nominated]:
            only_nominated = np.zeros(len(feasible), dtype=np.bool_)
            only_nominated[nominated] = True
            return only_nominated
        return feasible if feasible.any() else None

    def explain_nodes(self, job: Job, task: Task, errors: FitErrors) -> None:
        """Adds the reason why no node is feasible for the task."""
        reason = Reason(
            self._author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=errors.as_counts()
        )
        self._add_reason(job, reason)

    def explain_queue(self, job: Job, code: ReasonCode, tasks: list[Task]) -> None:
        """Adds, for each of the tasks, the reason why the queue refuses it."""
        subjects = (job.queue,) if code is ReasonCode.QUEUE_NOT_OPEN else ()
        for task in tasks:
            self._add_reason(job, Reason(self._author, code, task=task.name, subjects=subjects))

    def _add_reason(self, job: Job, reason: Reason) -> None:
        if self.is_trial and (
            reason.code in _NODE_REASONS or reason in self._session.reasons.get(job.id, ())
        ):
            return
        self._session.explain(job, reason)


def why_not_placeable(session: Session, queue: Queue, task: Task) -> Cause | None:
    """Why a task cannot be placed; None: it may be placed, or it is not filtered by its class."""
    is_allocatable = session.votes.is_allocatable(queue, task)
    if is_allocatable and session.view(task).has_feasible_row:
        return None
    if not session.plain.is_filtered_by_class(task):
        return None
    if not is_allocatable:
        return _queue_refusal(queue)
    return session.feasibility.class_errors(task, session.view(task))


def _queue_refusal(queue: Queue) -> ReasonCode:
    """Why a queue refuses a task: it is not open, or its quota is exceeded."""
    return ReasonCode.QUEUE_QUOTA if queue.state is _OPEN else ReasonCode.QUEUE_NOT_OPEN

"""Places the tasks of one sub-job, one after the other, on the nodes of one domain."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.batch import best_rows, is_plain, is_plain_class
from pumice.core.session.statement import Statement

if TYPE_CHECKING:
    from pumice.core.session.session import Session
    from pumice.core.session.views import ClassView


_OPEN = QueueState.OPEN
# Fewer tasks than this are looked at one by one.
_FEWEST_TOGETHER = 1


class Placement:
    """The inner loop of allocation, for one action of one session."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author

    def place_tasks(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], domain: str
    ) -> Statement | None:
        """Tries tasks until the sub-job is ready; what was tried is taken off the list.

        Returns a statement that makes the sub-job ready or at least pipelined, or None.
        """
        session = self._session
        within = session.topology.nodes_of(domain)
        if within is not None and not within.any():
            return None
        statement = session.statement()
        run = _Run(session, statement, sub_job, within)
        together = self._place_together(statement, job, sub_job, tasks, within)
        if together and session.votes.is_sub_job_ready(job, sub_job):
            return statement
        self._place_one_by_one(run, job, sub_job, tasks, domain)
        if session.votes.is_sub_job_ready(job, sub_job):
            return statement
        if session.votes.is_sub_job_pipelined(job, sub_job):
            return statement
        statement.discard()
        return None

    def _place_one_by_one(
        self, run: _Run, job: Job, sub_job: SubJob, tasks: deque[Task], domain: str
    ) -> None:
        session = self._session
        while tasks:
            task = tasks.popleft()
            session.count("tasks_tried")
            if not self._is_worth_trying(job, sub_job, task):
                continue
            placed = run.place(task, tasks)
            if placed is None:
                placed = self._place(run.statement, job, task, run.within, domain)
            if placed is None:
                if job.needs_more_tries(sub_job):
                    continue
                break
            if placed:
                session.topology.placed(sub_job, task)
                if session.votes.is_sub_job_ready(job, sub_job):
                    break

    def _place_together(
        self,
        statement: Statement,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        within: Mask | None,
    ) -> bool:
        """Places the first tasks, plain and of one class, in one go; true when it placed some.

        No more than the sub-job needs before it can be ready, so that nobody has to be asked in
        between; what does not fit, or needs a closer look, is left on the list.
        """
        session = self._session
        first, short = tasks[0], session.votes.tasks_short(job, sub_job)
        if short < _FEWEST_TOGETHER or job.fit_errors or not session.moves.can_place_many():
            return False
        if session.topology.follows(sub_job):
            return False
        together = self._alike(tasks, short)
        count = session.votes.allocatable_count(session.queue_of(job), first, len(together))
        if count < _FEWEST_TOGETHER:
            return False
        rows = best_rows(session, session.view(first), within, count)
        if not rows:
            return False
        statement.allocate_many(together[: len(rows)], rows)
        for _ in rows:
            tasks.popleft()
        session.count("tasks_tried", len(rows))
        return True

    def _alike(self, tasks: deque[Task], most: int) -> list[Task]:
        """The first tasks that are plain, of one class, and not kept from all nodes."""
        session, class_ = self._session, tasks[0].class_
        all_pass = is_plain_class(session, class_)
        together: list[Task] = []
        for task in tasks:
            if len(together) >= most or task.class_ is not class_ or task.gated:
                break
            if task.pod.nominated_node_name:
                break
            if not all_pass and not (
                is_plain(session, task) and session.feasibility.why_not_anywhere(task) is None
            ):
                break
            together.append(task)
        return together

    def _is_worth_trying(self, job: Job, sub_job: SubJob, task: Task) -> bool:
        session, queue = self._session, self._session.queue_of(job)
        if not session.votes.is_allocatable(queue, task):
            reason = Reason(self._author, ReasonCode.QUEUE_QUOTA, task=task.name)
            if queue.state is not _OPEN:
                # Whatever it may have, it takes nobody.
                about = (queue.name,)
                reason = Reason(self._author, ReasonCode.QUEUE_NOT_OPEN, task.name, subjects=about)
            session.explain(job, reason)
            return False
        if task.gated:
            session.explain(job, Reason(self._author, ReasonCode.GATED, task=task.name))
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
        said = self._session.reasons.get(job.id, ())
        if not any(r.code is ReasonCode.ROLE_FAILED and r.subjects == about for r in said):
            reason = Reason(self._author, ReasonCode.ROLE_FAILED, task=task.name, subjects=about)
            self._session.explain(job, reason)

    def _place(
        self, statement: Statement, job: Job, task: Task, within: Mask | None, domain: str
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
            errors = session.topology.located(errors, domain)
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
        """Nodes with room in the future that the predicates allow; a nominated one alone."""
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
        """Notes why no node takes the task."""
        reason = Reason(
            self._author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=errors.as_counts()
        )
        self._session.explain(job, reason)


class _Run:
    """Consecutive plain tasks of one class, placed on rows that were chosen for all of them."""

    __slots__ = ("_class", "_rows", "_session", "_sub_job", "statement", "within")

    def __init__(
        self, session: Session, statement: Statement, sub_job: SubJob, within: Mask | None
    ) -> None:
        self._session = session
        self.statement = statement
        self._sub_job = sub_job
        self.within = within
        # The last ones first.
        self._rows: list[int] = []
        self._class: TaskClass | None = None

    def place(self, task: Task, following: deque[Task]) -> bool | None:
        """Places a plain task on idle room; None: this has to be looked at more closely."""
        session = self._session
        if not is_plain(session, task) or not (
            is_plain_class(session, task.class_)
            or session.feasibility.why_not_anywhere(task) is None
        ):
            self._rows = []
            return None
        if not self._rows or self._class is not task.class_:
            self._choose(task, following)
        if not self._rows:
            return None
        placed = self.statement.allocate(task, session.table.names[self._rows.pop()])
        if not placed:
            self._rows = []
        return placed

    def _choose(self, task: Task, following: deque[Task]) -> None:
        """As many rows as the sub-job may still need and tasks of the class follow."""
        short, count = self._sub_job.short, 1
        for other in following:
            if count >= short or other.class_ is not task.class_:
                break
            count += 1
        view = self._session.view(task)
        self._rows = best_rows(self._session, view, self.within, count)[::-1]
        self._class = task.class_

"""Places the tasks of one sub-job, one after the other, on the nodes of one domain."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import FitErrors, Mask
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.batch import ClassBatch, is_plain, is_plain_class
from pumice.core.session.statement import Statement

if TYPE_CHECKING:
    from pumice.core.session.session import Session
    from pumice.core.session.views import ClassView


# Fewer tasks than this are placed one by one.
_FEWEST_TOGETHER = 2


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
        first, index = tasks[0], sub_job.index
        short = sub_job.min_available - index.ready_count - index.pending_best_effort
        if short < _FEWEST_TOGETHER or job.fit_errors or not session.moves.can_place_many():
            return False
        if session.topology.follows(sub_job):
            return False
        all_pass = is_plain_class(session, first.class_)
        together: list[Task] = []
        for task in tasks:
            if len(together) >= short or task.class_ is not first.class_ or task.gated:
                break
            if not is_plain(session, task) or not (
                all_pass or session.feasibility.why_not_anywhere(task) is None
            ):
                break
            together.append(task)
        count = session.votes.allocatable_count(session.queue_of(job), first, len(together))
        if count < _FEWEST_TOGETHER:
            return False
        rows = ClassBatch(session, session.view(first), within, count).take_rows(count)
        if not rows:
            return False
        statement.allocate_many(together[: len(rows)], rows)
        for _ in rows:
            tasks.popleft()
        session.count("tasks_tried", len(rows))
        return True

    def _is_worth_trying(self, job: Job, sub_job: SubJob, task: Task) -> bool:
        session = self._session
        if not session.votes.is_allocatable(session.queue_of(job), task):
            reason = Reason(self._author, ReasonCode.QUEUE_QUOTA, task=task.name)
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
            return False
        return True

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
            self._explain(job, task, errors)
            return None
        view = session.view(task)
        feasible = self._feasible(task, view, within)
        if feasible is None:
            errors = session.feasibility.fit_errors(task, view, within)
            errors = session.topology.located(errors, domain)
            job.fit_errors[task.uid] = errors
            self._explain(job, task, errors)
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

    def _explain(self, job: Job, task: Task, errors: FitErrors) -> None:
        reason = Reason(
            self._author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=errors.as_counts()
        )
        self._session.explain(job, reason)


class _Run:
    """Consecutive plain tasks of one class, placed from one batch."""

    __slots__ = ("_batch", "_class", "_left", "_session", "_sub_job", "statement", "within")

    def __init__(
        self, session: Session, statement: Statement, sub_job: SubJob, within: Mask | None
    ) -> None:
        self._session = session
        self.statement = statement
        self._sub_job = sub_job
        self.within = within
        self._batch: ClassBatch | None = None
        self._class: TaskClass | None = None
        self._left = 0

    def place(self, task: Task, following: deque[Task]) -> bool | None:
        """Places a plain task on idle room; None: this has to be looked at more closely."""
        session = self._session
        if not is_plain(session, task) or not (
            is_plain_class(session, task.class_)
            or session.feasibility.why_not_anywhere(task) is None
        ):
            self._batch = None
            return None
        if self._batch is None or self._class is not task.class_ or not self._left:
            self._start(task, following)
        assert self._batch is not None
        row = self._batch.next_row()
        if row is None:
            self._batch = None
            return None
        placed = self.statement.allocate(task, session.table.names[row])
        self._left -= 1
        if not placed or not self._left:
            self._batch = None
        else:
            self._batch.take()
        return placed

    def _start(self, task: Task, following: deque[Task]) -> None:
        """A new batch, as large as the sub-job still needs it and tasks of the class follow."""
        index = self._sub_job.index
        short = self._sub_job.min_available - index.ready_count - index.pending_best_effort
        count = 1
        for other in following:
            if count >= short or other.class_ is not task.class_:
                break
            count += 1
        view = self._session.view(task)
        self._batch = ClassBatch(self._session, view, self.within, count)
        self._class = task.class_
        self._left = count

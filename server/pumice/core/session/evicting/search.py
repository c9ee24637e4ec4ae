"""The nodes that can have enough victims, found from the candidates on all nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.model.status import EVICTABLE, RUNNING
from pumice.core.session.evicting.bounds import VictimBounds
from pumice.core.session.evicting.holdings import Holdings
from pumice.core.session.policies import VictimRule

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session

# After this many cached nodes have failed for one task, the possible nodes are computed again.
_MAX_FAILED_ROWS = 4


class VictimScope(Enum):
    """Which tasks may be evicted for a preemptor."""

    # Running tasks of other queues that are reclaimable.
    OTHER_QUEUES = 1
    # Running or bound tasks of other jobs of the same queue, or of the same job.
    OTHER_JOBS = 2
    SAME_JOB = 3


class Preemptor(NamedTuple):
    """A task that needs room, the tasks that may be evicted for it, and the nodes to try."""

    job: Job
    task: Task
    view: ClassView
    scope: VictimScope
    # Nodes whose refusals an eviction could resolve.
    nodes: Mask

    @property
    def best_effort_only(self) -> bool:
        """Whether only best-effort tasks may be evicted, because a best-effort task preempts."""
        return self.task.best_effort and self.scope is not VictimScope.OTHER_QUEUES


class _CandidateFilter(NamedTuple):
    """Which tasks are candidates for eviction."""

    queue: str
    # Whether candidates are tasks of other queues instead of this one.
    in_other_queues: bool
    # The preemptor's job, whose tasks are no candidates; empty if it has no evictable task.
    job_id: str
    best_effort_only: bool


@dataclass(slots=True)
class _CachedRows:
    """Rows that were possible for an earlier preemptor, or have changed since.

    They contain all possible rows for a preemptor with the same class and candidates, as long as no
    limit is lower and no mark is higher than here.
    """

    rows: Mask
    # The number of changes of the node table.
    table_changes: int
    limits: list[float]
    marks: Floats
    # The number of changes of marks that were checked, and the limits of rules in shared tiers then.
    checked: int
    checked_limits: list[float] | None = None


class VictimSearch:
    """Finds the candidates for eviction, and the nodes where enough of them might be victims."""

    def __init__(self, session: Session, point: str) -> None:
        self._session = session
        self._point = point
        # From here on, the evictable tasks keep their positions.
        session.cache.evictable.sync()
        self._tasks = session.cache.evictable
        # Whether every plugin has a rule, so that equal tasks of a job get equal results.
        self.is_predictable = session.chains.all_of(point, VictimRule) is not None
        self._cache: dict[tuple[int, _CandidateFilter], _CachedRows] = {}
        # The jobs whose tasks are candidates, by number.
        self._jobs = Memo(self._find_jobs)
        # By row: the preemptable tasks and their jobs, in order. The action only adds pipelined tasks,
        # which are not evictable, so that this stays valid.
        self._preemptable = Memo(self._find_preemptable)

    @cached_property
    def _bounds(self) -> VictimBounds:
        return VictimBounds(self._session, self._point)

    # Candidates on one node.

    def candidates_on(self, row: int, preemptor: Preemptor) -> list[Task]:
        """The tasks on a node that may be evicted if the plugins allow it, in order."""
        on_node, own, queue = self._preemptable[row], preemptor.job, preemptor.job.queue
        if preemptor.scope is VictimScope.OTHER_QUEUES:
            queues = self._session.queues
            return [
                task
                for task, job in on_node
                if task.status is RUNNING
                and job.queue != queue
                and queues[job.queue].is_reclaimable
            ]
        if preemptor.scope is VictimScope.SAME_JOB:
            tasks = [task for task, job in on_node if task.status in EVICTABLE and job is own]
        else:
            tasks = [
                task
                for task, job in on_node
                if task.status in EVICTABLE and job.queue == queue and job is not own
            ]
        return [task for task in tasks if task.best_effort] if preemptor.best_effort_only else tasks

    def _find_preemptable(self, row: int) -> list[tuple[Task, Job]]:
        jobs = self._session.jobs
        return [
            (task, job)
            for task in self._session.table.rows[row].tasks_in_order()
            if task.pod.preemptable and (job := jobs.get(task.job_id)) is not None
        ]

    # Nodes.

    def rows_to_try(
        self, preemptor: Preemptor, free: Mask | None, scores: Callable[[Preemptor], Floats | None]
    ) -> Iterator[int]:
        """Nodes where evictions might make room, best first, or by name if there are no scores.

        The nodes in ``free`` are tried too, because they may need no victim. The caller reads the next
        node only if the last one failed.
        """
        cached = self._cached_rows(preemptor)
        rows = self.possible_rows(preemptor) if cached is None else cached.rows
        to_try = preemptor.nodes & (rows if free is None else rows | free)
        if not np.count_nonzero(to_try):
            return
        by_score = scores(preemptor)
        none = False if by_score is None else -np.inf
        remaining = to_try if by_score is None else np.where(to_try, by_score, none)
        failed = 0
        while remaining.item(row := int(remaining.argmax())) != none:
            yield row
            remaining[row] = none
            if cached is None:
                continue
            self._session.count("cached_rows_failed")
            failed += 1
            if failed < _MAX_FAILED_ROWS:
                self._rule_out(row, cached, preemptor)
            else:
                # The cached rows contain too many impossible rows.
                cached, rows = None, self.possible_rows(preemptor)
                remaining[~(rows if free is None else rows | free)] = none

    def rows_with_candidates(self, preemptor: Preemptor) -> Mask:
        return self._holdings(preemptor).rows()

    def sufficient_rows(self, preemptor: Preemptor) -> Mask:
        """Nodes where the eviction of all candidates would free enough."""
        if preemptor.scope is VictimScope.SAME_JOB:
            return self._rows_of_own_candidates(preemptor)
        holdings = self._holdings(preemptor)
        return holdings.rows() & holdings.sufficient_rows()

    def possible_rows(self, preemptor: Preemptor) -> Mask:
        """Nodes where the plugins might allow enough victims for the task; read-only."""
        if preemptor.scope is VictimScope.SAME_JOB:
            # Rules only apply to victims of other jobs.
            return self._rows_of_own_candidates(preemptor)
        holdings = self._holdings(preemptor)
        if not len(holdings.job):
            return np.zeros(len(self._session.table), dtype=np.bool_)
        bounds, table = self._synced_bounds(), self._session.table
        limits = bounds.limits(preemptor.task)
        rows = bounds.possible_rows(holdings, limits)
        key = (preemptor.view.class_.number, self._filter_of(preemptor))
        marks = bounds.marks.copy()
        self._cache[key] = _CachedRows(rows, table.changes, limits, marks, len(bounds.changes))
        return rows

    def _rows_of_own_candidates(self, preemptor: Preemptor) -> Mask:
        """Nodes with candidates within the preemptor's job."""
        table, best_effort_only = self._session.table, preemptor.best_effort_only
        rows = np.zeros(len(table), dtype=np.bool_)
        for status in sorted(EVICTABLE):
            for task in preemptor.job.index.with_status(status).values():
                row = table.row_of(task.node_name)
                if row is not None and task.pod.preemptable:
                    rows[row] |= task.best_effort or not best_effort_only
        return rows

    # Rows that are cached from an earlier preemptor.

    def _cached_rows(self, preemptor: Preemptor) -> _CachedRows | None:
        """The cached rows for a preemptor, up to date; None: there are none, or they are not valid."""
        if preemptor.scope is VictimScope.SAME_JOB:
            return None
        candidates = self._filter_of(preemptor)
        cached = self._cache.get((preemptor.view.class_.number, candidates))
        if cached is None or not self._is_valid(cached, preemptor.task, candidates):
            return None
        table = self._session.table
        cached.rows |= table.stamps > cached.table_changes
        cached.table_changes = table.changes
        return cached

    def _is_valid(self, cached: _CachedRows, preemptor: Task, candidates: _CandidateFilter) -> bool:
        """Whether no limit is lower and no mark is higher than for the cached rows.

        Plugins of a tier must agree too: otherwise the last plugin decides alone, and might allow more
        victims if another plugin allows fewer.
        """
        bounds = self._synced_bounds()
        limits = bounds.limits(preemptor)
        for limit, before in zip(limits, cached.limits, strict=True):
            if limit < before:
                return False
        shared_limits = [limits[number] for number in bounds.shared_rules]
        agree = cached.checked_limits == shared_limits
        for rule, job, before, after in bounds.changes[cached.checked :]:
            if after > cached.marks.item(rule, job):
                return False
            if (before > limits[rule]) != (after > limits[rule]) and rule in bounds.shared_rules:
                agree = False
        if not agree and not bounds.agree(limits, self._jobs[candidates]):
            return False
        cached.checked, cached.checked_limits = len(bounds.changes), shared_limits
        return True

    def _rule_out(self, row: int, cached: _CachedRows, preemptor: Preemptor) -> None:
        """Removes a failed row from the cached rows, if it is not possible by the bounds."""
        bounds = self._synced_bounds()
        job_ids = {task.job_id for task in self.candidates_on(row, preemptor)}
        # First for all tasks that may use the cached rows, then for those with at least these limits.
        for limits in (cached.limits, bounds.limits(preemptor.task)):
            if bounds.may_allow(job_ids, limits):
                holdings = self._holdings(preemptor, row)
                if bounds.possible_rows(holdings, limits).item():
                    continue
            cached.rows[row] = False
            cached.limits, cached.marks = limits, bounds.marks.copy()
            return

    # Bounds and holdings.

    def _synced_bounds(self) -> VictimBounds:
        self._bounds.sync()
        return self._bounds

    def _holdings(self, preemptor: Preemptor, row: int | None = None) -> Holdings:
        """The holdings of the candidates for a preemptor, on all nodes or on one."""
        tasks, jobs = self._tasks, self._jobs[self._filter_of(preemptor)]
        tasks.sync()
        running_only = preemptor.scope is VictimScope.OTHER_QUEUES
        found = tasks.candidates(jobs, running_only=running_only, row=row)
        if preemptor.best_effort_only:
            found = found[tasks.best_effort[found]]
        future, needs = self._session.table.future, preemptor.view.needs
        if row is None:
            return Holdings(tasks, found, needs, future)
        return Holdings(tasks, found, needs, future[:, row : row + 1], row)

    def _filter_of(self, preemptor: Preemptor) -> _CandidateFilter:
        job, in_other_queues = preemptor.job, preemptor.scope is VictimScope.OTHER_QUEUES
        own = job.id if not in_other_queues and job.id in self._tasks.job_ids else ""
        return _CandidateFilter(job.queue, in_other_queues, own, preemptor.best_effort_only)

    def _find_jobs(self, candidates: _CandidateFilter) -> Mask:
        victim_jobs = self._session.victim_jobs.get()
        if candidates.in_other_queues:
            return victim_jobs.in_other_queues(candidates.queue)
        jobs = victim_jobs.in_queue(candidates.queue)
        if candidates.job_id:
            jobs[self._tasks.job_ids[candidates.job_id]] = False
        return jobs

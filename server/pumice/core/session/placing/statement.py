"""Statements: placements and evictions that are committed or undone together; and their moves."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, Transaction
from pumice.core.model.fit import Mask
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.status import PIPELINED, TaskStatus
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.views import ClassView

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# An operation as a plain value: kind, task, node, reason, eviction occurred.
SavedOperation = tuple[str, Task, str, str, bool]


class _Kind(Enum):
    EVICT = 1
    PIPELINE = 2
    ALLOCATE = 3


# Module constants, because attribute access to members of enumerations is slow in Python 3.11.
_EVICT, _ALLOCATE = _Kind.EVICT, _Kind.ALLOCATE
_PENDING, _ALLOCATED, _BINDING = TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.BINDING
_RELEASING, _RUNNING = TaskStatus.RELEASING, TaskStatus.RUNNING


class Statement:
    """An undo log over the session: every placement that may be undone, and every eviction.

    A statement that is neither committed nor discarded keeps its effects until the session ends.
    """

    __slots__ = ("_operations", "_session", "domains", "rejection")

    def __init__(self, session: Session) -> None:
        self._session = session
        # Kind, tasks of one job, and the reason of an eviction.
        self._operations: list[tuple[_Kind, list[Task], str]] = []
        # Why a plugin rejected the last placement that failed.
        self.rejection = ""
        # The domain in which a job is placed, and the domains of its sub-jobs; None: no domain.
        self.domains: tuple[str, dict[str, str]] | None = None

    def __len__(self) -> int:
        return sum(len(tasks) for _, tasks, _ in self._operations)

    def place_class(
        self,
        view: ClassView,
        tasks: list[Task],
        within: Mask | None = None,
        terms: tuple[CandidateTerm, ...] = (),
        *,
        all_or_none: bool = False,
    ) -> int:
        """Allocates tasks of the view's class and one sub-job, each on the best node with idle resources.

        The result is the same as for one task after the other. The tasks must be filtered by their
        class, have the same terms in their scores, and be allowed by their queue. Returns the number
        of first tasks that were placed; it is smaller than the number of tasks if idle resources run
        out or a plugin rejects a placement. With ``all_or_none``, all tasks are placed or none.
        """
        moves, count = self._session.moves, len(tasks)
        if count > 1 and not moves.keeps_kube_view:
            # The best rows for several tasks assume that Kubernetes' view includes each placement.
            return 0
        if self._session.shard.is_soft:
            rows = self._best_rows_of_shard(view, count, within, terms)
        else:
            self._session.work["candidates_scored"] += len(view.table.rows)
            rows = view.best_rows(within, count, terms)
        if not rows or (all_or_none and len(rows) < count):
            return 0
        if not moves.can_place(tasks, rows):
            return 0 if all_or_none else self._allocate_each(tasks, rows)
        placed = tasks if len(rows) == count else tasks[: len(rows)]
        moves.place_many(placed, rows)
        self._operations.append((_ALLOCATE, placed, ""))
        return len(rows)

    def _best_rows_of_shard(
        self, view: ClassView, count: int, within: Mask | None, terms: tuple[CandidateTerm, ...]
    ) -> list[int]:
        """The best rows of the scheduler's shard, or else of the other nodes."""
        session, rows = self._session, list[int]()
        nodes = np.ones(len(view.table), dtype=np.bool_) if within is None else within
        for group in session.shard.groups(nodes):
            session.work["candidates_scored"] += len(view.table.rows)
            rows = view.best_rows(group, count, terms)
            if rows:
                break
        return rows

    def _allocate_each(self, tasks: list[Task], rows: list[int]) -> int:
        names = self._session.table.names
        for number, row in enumerate(rows):
            if not self.allocate(tasks[number], names[row]):
                return number
        return len(rows)

    def allocate(self, task: Task, node_name: str) -> bool:
        """Places the task on idle resources; false: a plugin rejects it, and nothing was changed."""
        return self._place(_ALLOCATE, task, node_name, _ALLOCATED)

    def pipeline(self, task: Task, node_name: str, *, eviction_occurred: bool) -> bool:
        """Reserves resources that are being released for the task; false: a plugin rejects it."""
        task.eviction_occurred = eviction_occurred
        return self._place(_Kind.PIPELINE, task, node_name, PIPELINED)

    def _place(self, kind: _Kind, task: Task, node_name: str, status: TaskStatus) -> bool:
        rejections = self._session.moves.place(task, node_name, status)
        if rejections:
            self._session.moves.unplace(task)
            self.rejection = rejections[0]
            return False
        self._operations.append((kind, [task], ""))
        return True

    def evict(self, task: Task, reason: str) -> None:
        self._session.moves.evict(task)
        self._operations.append((_EVICT, [task], reason))

    def discard(self) -> None:
        """Undoes all operations, the last first; ``last_transaction`` keeps what a task had."""
        moves = self._session.moves
        for kind, tasks, _ in reversed(self._operations):
            for task in reversed(tasks):
                task.last_transaction = Transaction(
                    task.status, task.node_name, eviction_occurred=task.eviction_occurred
                )
                if kind is _EVICT:
                    moves.unevict(task)
                else:
                    moves.unplace(task)
        self._operations.clear()

    def commit(self, for_job: str) -> None:
        """Turns allocations and evictions into decisions; pipelined tasks keep their reservations."""
        session = self._session
        for kind, tasks, reason in self._operations:
            if kind is _ALLOCATE:
                session.moves.commit_binds(tasks)
                continue
            for task in tasks:
                task.last_transaction = None
            if kind is _EVICT:
                session.moves.evicted[tasks[0].uid] = tasks[0]
                session.outbox.evict(tasks[0], reason, for_job)
        if self.domains is not None:
            session.topology.occupy(session.jobs[for_job], *self.domains)
        self._operations.clear()

    # For trials that are undone and may be repeated later.

    def save(self) -> list[SavedOperation]:
        """The operations as plain values."""
        return [
            (kind.name, task, task.node_name, reason, task.eviction_occurred)
            for kind, tasks, reason in self._operations
            for task in tasks
        ]

    def replay(self, saved: list[SavedOperation]) -> bool:
        """Repeats saved operations; false: one failed, and those after it were not tried."""
        for kind, task, node_name, reason, occurred in saved:
            if kind == _EVICT.name:
                self.evict(task, reason)
            elif kind == _ALLOCATE.name:
                if not self.allocate(task, node_name):
                    return False
            elif not self.pipeline(task, node_name, eviction_occurred=occurred):
                return False
        return True

    def merge(self, other: Statement) -> None:
        """Takes over the other statement's operations."""
        self._operations += other._operations
        other._operations = []


class Moves:
    """The only code that changes tasks, nodes and phases during a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._origins: dict[str, tuple[Task, TaskStatus, str]] = {}
        self._phases: dict[str, tuple[Job, PodGroupPhase]] = {}
        # Pods that are missing in Kubernetes' view, because this session has removed them from it. As
        # in Volcano, a pod whose eviction was undone stays removed.
        self._kube_hidden: dict[str, tuple[Task, int]] = {}
        # Whether placements change Kubernetes' view.
        self.keeps_kube_view = False
        # Every task that was moved, in order; readers of the log update their sums from it.
        self.log: list[Task] = []
        # Jobs with a task or phase that was changed, even if the change was undone since.
        self.touched_jobs: set[str] = set()
        # Tasks that were pipelined, even if that was undone since.
        self.pipelined: dict[str, Task] = {}
        self.bound: dict[str, Task] = {}
        self.evicted: dict[str, Task] = {}

    # Placing and evicting; each calls the handlers of plugins.

    def place(self, task: Task, node_name: str, status: TaskStatus) -> list[str]:
        """Puts a task on a node, as Allocated or Pipelined; returns why handlers reject it."""
        self._remember(task)
        self._session.jobs[task.job_id].set_status([task], status)
        table = self._session.table
        table.place([task], [table.entries[node_name].row])
        self.log.append(task)
        if status is PIPELINED:
            self.pipelined[task.uid] = task
        problems = []
        for handler in self._session.hooks.handlers:
            problem = handler.allocated(task)
            if problem is not None:
                problems.append(problem)
        return problems

    @cached_property
    def can_place_many(self) -> bool:
        """Whether every handler accepts several tasks at once."""
        return all(h.allocated_many is not None for h in self._session.hooks.handlers)

    @cached_property
    def _tests_of_many(self) -> list[Callable[[list[Task], list[int]], bool]]:
        return [h.accepts_many for h in self._session.hooks.handlers if h.accepts_many is not None]

    def can_place(self, tasks: list[Task], rows: list[int]) -> bool:
        """Whether every handler accepts these tasks on those rows at once."""
        if not self.can_place_many:
            return False
        for accepts_many in self._tests_of_many:  # noqa: SIM110
            if not accepts_many(tasks[: len(rows)], rows):
                return False
        return True

    def place_many(self, tasks: list[Task], rows: list[int]) -> None:
        """Allocates plain tasks of one class and sub-job, which no handler rejects."""
        session, origins, in_view = self._session, self._origins, self.keeps_kube_view
        job_id = tasks[0].job_id
        for task in tasks:
            uid = task.uid
            if uid not in origins:
                origins[uid] = (task, _PENDING, "")
            task.entered_view = in_view
        self.touched_jobs.add(job_id)
        session.jobs[job_id].set_status(tasks, _ALLOCATED)
        session.table.place(tasks, rows, in_kube_view=in_view)
        self.log += tasks
        for handler in session.hooks.handlers:
            if handler.allocated_many is not None:
                handler.allocated_many(tasks)

    def unplace(self, task: Task) -> None:
        self._session.jobs[task.job_id].set_status([task], _PENDING)
        self._session.table.unplace(task)
        self.log.append(task)
        self._call_deallocated(task)
        task.node_name, task.bind_annotations = "", ()

    def evict(self, task: Task) -> None:
        self._remember(task)
        self._restate(task, _RELEASING)
        self._call_deallocated(task)

    def unevict(self, task: Task) -> None:
        # As in Volcano, the task is Running, even if it was Bound before.
        self._restate(task, _RUNNING)
        for handler in self._session.hooks.handlers:
            handler.allocated(task)

    def _restate(self, task: Task, status: TaskStatus) -> None:
        self._session.jobs[task.job_id].set_status([task], status)
        self._session.table.restate(task)
        self.log.append(task)

    def _call_deallocated(self, task: Task) -> None:
        for handler in self._session.hooks.handlers:
            if handler.deallocated is not None:
                handler.deallocated(task)

    def commit_binds(self, tasks: list[Task]) -> None:
        """Commits tasks of one class and sub-job that are allocated."""
        bound, orders, job_id = self.bound, self._session.outbox.orders, tasks[0].job_id
        self._session.jobs[job_id].set_status(tasks, _BINDING)
        for task in tasks:
            task.counted_status, task.last_transaction = _BINDING, None
            bound[task.uid] = task
            orders.append((task, task.node_name, "", job_id))

    # Kubernetes' view, on behalf of the predicates plugin.

    def kube_add(self, task: Task) -> None:
        if task.uid in self._kube_hidden:
            return
        row = self._session.table.row_of(task.node_name)
        if row is not None:
            task.entered_view = True
            self._session.table.kube_change([row], [task], 1)

    def kube_remove(self, task: Task) -> None:
        row = self._session.table.row_of(task.node_name)
        if row is None or task.uid in self._kube_hidden:
            return
        if not task.entered_view:
            self._kube_hidden[task.uid] = (task, row)
        task.entered_view = False
        self._session.table.kube_change([row], [task], -1)

    def is_in_kube_view(self, task: Task) -> bool:
        """Whether a task on a node is also in Kubernetes' view of the node."""
        if task.uid in self._kube_hidden:
            return False
        return (
            task.uid not in self._origins
            or task.entered_view
            or (self._origins[task.uid][2] == task.node_name)
        )

    # The state before the session, and the end of the session.

    def _remember(self, task: Task) -> None:
        if task.uid not in self._origins:
            self._origins[task.uid] = (task, task.status, task.node_name)
            self.touched_jobs.add(task.job_id)

    def origin_of(self, task: Task) -> tuple[TaskStatus, str]:
        """The status and node that a task had when the session began."""
        origin = self._origins.get(task.uid)
        return (task.status, task.node_name) if origin is None else origin[1:]

    def remember_phase(self, job: Job) -> None:
        self._phases.setdefault(job.id, (job, job.phase))
        self.touched_jobs.add(job.id)

    def finish(self) -> None:
        """Keeps what was committed, and restores the rest."""
        self._restore(keep=True)

    def abort(self) -> None:
        """Undoes everything."""
        self.bound.clear()
        self.evicted.clear()
        self._restore(keep=False)

    def _restore(self, *, keep: bool) -> None:
        table, bound = self._session.table, self.bound
        for task, row in self._kube_hidden.values():
            table.kube_change([row], [task], 1)
        self._kube_hidden.clear()
        for uid, (task, status, node_name) in self._origins.items():
            if keep and uid in bound:
                where = table.row_of(task.node_name)
                if where is not None and not task.entered_view:
                    table.kube_change([where], [task], 1)
            elif not (keep and uid in self.evicted):
                self._restore_task(task, status, node_name)
            task.eviction_occurred = task.entered_view = False
        for job, phase in self._phases.values():
            job.phase = phase
        for job_id in {t.job_id: 0 for t in (*bound.values(), *self.evicted.values())}:
            self._session.jobs[job_id].touch()
        self._origins.clear()
        self._phases.clear()
        self.touched_jobs = set()

    def _restore_task(self, task: Task, status: TaskStatus, node_name: str) -> None:
        table = self._session.table
        job = self._session.jobs[task.job_id]
        if node_name:
            if task.status is not status:
                self._restate(task, status)
            return
        # Both views are restored separately, because a plugin may have raised between their changes.
        row = table.row_of(task.node_name)
        if row is not None and task.entered_view:
            table.kube_change([row], [task], -1)
        if task.counted_status is not None:
            table.unplace(task)
        if task.status is not status:
            job.set_status([task], status)
        task.node_name, task.bind_annotations = "", ()

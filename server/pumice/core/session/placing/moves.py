"""Moves tasks inside a session, and puts back what was not committed when it ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.status import PIPELINED, TaskStatus

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# Names of their own: Python 3.11 is slow to find members of enumerations.
_PENDING, _ALLOCATED, _BINDING = TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.BINDING
_RELEASING, _RUNNING = TaskStatus.RELEASING, TaskStatus.RUNNING


class Moves:
    """The only code that changes tasks, nodes and phases during a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._origins: dict[str, tuple[Task, TaskStatus, str]] = {}
        self._phases: dict[str, tuple[Job, PodGroupPhase]] = {}
        # Kubernetes' view differs from the ledger by pods taken out of it in this session. A pod
        # whose eviction was undone stays out of it.
        self._kube_hidden: dict[str, tuple[Task, int]] = {}
        # Whether that view is kept up: else nothing that is placed here changes it.
        self.keeps_kube_view = False
        # Every task that was moved, in order; sums are updated from it.
        self.log: list[Task] = []
        # Jobs with a task or phase that was changed, be it put back since.
        self.touched_jobs: set[str] = set()
        # Tasks that were promised a place, be it taken back since.
        self.pipelined: dict[str, Task] = {}
        self.bound: dict[str, Task] = {}
        self.evicted: dict[str, Task] = {}

    # Placing and evicting; each calls the handlers of plugins.

    def place(self, task: Task, node_name: str, status: TaskStatus) -> list[str]:
        """Puts a task on a node, as Allocated or Pipelined; returns what handlers object to."""
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
    def _handlers_of_many(self) -> list[Callable[[list[Task]], None]]:
        handlers = self._session.hooks.handlers
        return [h.allocated_many for h in handlers if h.allocated_many is not None]

    @cached_property
    def _tests_of_many(self) -> list[Callable[[list[Task], list[int]], bool]]:
        return [h.accepts_many for h in self._session.hooks.handlers if h.accepts_many is not None]

    def can_place(self, tasks: list[Task], rows: list[int]) -> bool:
        """Whether every handler accepts these tasks on those rows at once."""
        if not self.can_place_many:
            return False
        for test in self._tests_of_many:  # noqa: SIM110
            if not test(tasks[: len(rows)], rows):
                return False
        return True

    def place_many(self, tasks: list[Task], rows: list[int]) -> None:
        """Allocates plain tasks of one class and sub-job; handlers do not object to those."""
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
        for allocated_many in self._handlers_of_many:
            allocated_many(tasks)

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
        # Running, even if it was only Bound: the reference forgets what it was.
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
            task.ledger_status, task.last_transaction = _BINDING, None
            bound[task.uid] = task
            orders.append((task, task.node_name, "", job_id))

    def commit_evict(self, task: Task) -> None:
        self.evicted[task.uid] = task

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
        """Whether a task on a node is also in Kubernetes' view of it."""
        if task.uid in self._kube_hidden:
            return False
        return (
            task.uid not in self._origins
            or task.entered_view
            or (self._origins[task.uid][2] == task.node_name)
        )

    # Remembering and putting back.

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
        """Keeps what was committed, puts back the rest."""
        self._put_back(keep=True)

    def abort(self) -> None:
        """Undoes everything."""
        self.bound.clear()
        self.evicted.clear()
        self._put_back(keep=False)

    def _put_back(self, *, keep: bool) -> None:
        table, bound = self._session.table, self.bound
        for task, row in self._kube_hidden.values():
            table.kube_change([row], [task], 1)
        self._kube_hidden.clear()
        for uid, (task, status, node_name) in self._origins.items():
            if keep and uid in bound:
                if not task.entered_view:
                    self._keep_bound(task)
            elif not (keep and uid in self.evicted):
                self._return(task, status, node_name)
            task.eviction_occurred = task.entered_view = False
        for job, phase in self._phases.values():
            job.phase = phase
        for job_id in {t.job_id: 0 for t in (*bound.values(), *self.evicted.values())}:
            self._session.jobs[job_id].touch()
        self._origins.clear()
        self._phases.clear()
        self.touched_jobs = set()

    def _keep_bound(self, task: Task) -> None:
        row = self._session.table.row_of(task.node_name)
        if row is not None:
            self._session.table.kube_change([row], [task], 1)

    def _return(self, task: Task, status: TaskStatus, node_name: str) -> None:
        table = self._session.table
        job = self._session.jobs[task.job_id]
        if node_name:
            if task.status is not status:
                self._restate(task, status)
            return
        # Both views are restored separately: a plugin may have raised in between.
        row = table.row_of(task.node_name)
        if row is not None and task.entered_view:
            table.kube_change([row], [task], -1)
        if task.ledger_status is not None:
            table.unplace(task)
        if task.status is not status:
            job.set_status([task], status)
        task.node_name, task.bind_annotations = "", ()

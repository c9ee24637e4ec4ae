"""Tasks by status, with the counts that readiness depends on."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus

_READY = HOLDS_RESOURCES | {TaskStatus.SUCCEEDED}
_SCHEDULED = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.FAILED, TaskStatus.SUCCEEDED)
_NONE: dict[str, Task] = {}
# Names of their own: Python 3.11 is slow to find members of enumerations.
_PENDING, _PIPELINED = TaskStatus.PENDING, TaskStatus.PIPELINED
_RELEASING = TaskStatus.RELEASING


class TaskIndex:
    """The tasks of a job, or of a part of one."""

    __slots__ = (
        "allocated",
        "by_status",
        "pending_best_effort",
        "ready_count",
        "tasks",
        "total_request",
    )

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.by_status: dict[TaskStatus, dict[str, Task]] = {}
        # Counted here because readiness is asked for after every placement.
        self.ready_count = 0
        self.pending_best_effort = 0
        self.allocated = Resources()
        self.total_request = Resources()

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks.values())

    def add(self, task: Task) -> None:
        status, request = task.status, task.request
        self.tasks[task.uid] = task
        self.total_request.add(request)
        self._enter(task, status)
        if status in HOLDS_RESOURCES:
            self.allocated.add(request)

    def add_alike(self, tasks: dict[str, Task]) -> None:
        """Like ``add`` for tasks of one class and status, by uid."""
        first, count = next(iter(tasks.values())), len(tasks)
        status, request = first.status, first.request
        self.tasks.update(tasks)
        self.by_status.setdefault(status, {}).update(tasks)
        self.total_request.add_times(request, count)
        if status in _READY:
            self.ready_count += count
        elif first.best_effort and status is _PENDING:
            self.pending_best_effort += count
        if status in HOLDS_RESOURCES:
            self.allocated.add_times(request, count)

    def remove(self, task: Task) -> None:
        del self.tasks[task.uid]
        self.total_request.subtract(task.request)
        self._leave(task, task.status)
        if task.status in HOLDS_RESOURCES:
            self.allocated.subtract(task.request)

    def move(self, task: Task, new: TaskStatus) -> None:
        """The task is about to change its status; the caller sets it."""
        old = task.status
        self._leave(task, old)
        self._enter(task, new)
        held_before, holds = old in HOLDS_RESOURCES, new in HOLDS_RESOURCES
        if holds and not held_before:
            self.allocated.add(task.request)
        elif held_before and not holds:
            self.allocated.subtract(task.request)

    def move_many(self, tasks: list[Task], old: TaskStatus, new: TaskStatus) -> None:
        """Like ``move`` for tasks of one class; pending ones must not be best-effort."""
        by_status, count = self.by_status, len(tasks)
        leave, enter = by_status[old], by_status.get(new)
        if len(leave) == count and not enter:
            by_status[new] = by_status.pop(old)
        else:
            enter = by_status.setdefault(new, {})
            for task in tasks:
                del leave[task.uid]
                enter[task.uid] = task
        self.ready_count += count * ((new in _READY) - (old in _READY))
        held_before, holds = old in HOLDS_RESOURCES, new in HOLDS_RESOURCES
        if holds != held_before:
            self.allocated.add_times(tasks[0].request, count if holds else -count)

    def _enter(self, task: Task, status: TaskStatus) -> None:
        group = self.by_status.get(status)
        if group is None:
            group = self.by_status[status] = {}
        group[task.uid] = task
        if status in _READY:
            self.ready_count += 1
        elif task.best_effort and status is _PENDING:
            self.pending_best_effort += 1

    def _leave(self, task: Task, status: TaskStatus) -> None:
        group = self.by_status[status]
        del group[task.uid]
        if not group:
            # An empty dictionary keeps the room of all that was in it.
            del self.by_status[status]
        if status in _READY:
            self.ready_count -= 1
        elif task.best_effort and status is _PENDING:
            self.pending_best_effort -= 1

    @property
    def pending(self) -> dict[str, Task]:
        return self.by_status.get(_PENDING, _NONE)

    def with_status(self, status: TaskStatus) -> dict[str, Task]:
        return self.by_status.get(status, _NONE)

    def in_order(self, status: TaskStatus) -> list[Task]:
        """The tasks of a status by age and name, whatever order they arrived in."""
        group = self.by_status.get(status)
        return sorted(group.values(), key=lambda task: task.order_key) if group else []

    def count(self, *statuses: TaskStatus) -> int:
        by_status, number = self.by_status, 0
        for status in statuses:
            group = by_status.get(status)
            if group:
                number += len(group)
        return number

    @property
    def allocated_count(self) -> int:
        return self.count(*HOLDS_RESOURCES)

    @property
    def waiting_count(self) -> int:
        return len(self.by_status.get(_PIPELINED, _NONE))

    @property
    def valid_count(self) -> int:
        return self.count(*_READY, TaskStatus.PIPELINED, TaskStatus.PENDING)

    @property
    def scheduled_count(self) -> int:
        return self.count(*_SCHEDULED)

    @property
    def releasing_scheduled_count(self) -> int:
        releasing = self.with_status(_RELEASING).values()
        return sum(1 for task in releasing if task.node_name)

    def is_ready(self, minimum: int) -> bool:
        return self.ready_count + self.pending_best_effort >= minimum

    def is_pipelined(self, minimum: int) -> bool:
        return self.waiting_count + self.ready_count + self.pending_best_effort >= minimum

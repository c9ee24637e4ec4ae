"""Tasks by status, with the counts that readiness depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.model.status import (
    BOUND,
    FAILED,
    HOLDS_RESOURCES,
    PENDING,
    PIPELINED,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    TaskStatus,
)

_READY = HOLDS_RESOURCES | {SUCCEEDED}
_SCHEDULED = (RUNNING, BOUND, FAILED, SUCCEEDED)
_NONE: dict[str, Task] = {}


@dataclass(slots=True, eq=False)
class TaskIndex:
    """The tasks of a job, or of a part of one."""

    tasks: dict[str, Task] = field(default_factory=dict)
    by_status: dict[TaskStatus, dict[str, Task]] = field(default_factory=dict)
    # Kept as counts, because readiness is checked after every placement.
    ready_count: int = 0
    pending_best_effort: int = 0
    allocated: Resources = field(default_factory=Resources)
    total_request: Resources = field(default_factory=Resources)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks.values())

    def add(self, tasks: dict[str, Task]) -> None:
        """Adds tasks of one class and status, by uid."""
        first, count = next(iter(tasks.values())), len(tasks)
        self.tasks.update(tasks)
        group = self.by_status.get(first.status)
        if group is None:
            group = self.by_status[first.status] = {}
        group.update(tasks)
        self.total_request.add_times(first.request, count)
        self._count(first, count, None, first.status)

    def remove(self, task: Task) -> None:
        del self.tasks[task.uid]
        self.total_request.subtract(task.request)
        group = self.by_status[task.status]
        del group[task.uid]
        if not group:
            # An empty dictionary keeps the memory of what was in it.
            del self.by_status[task.status]
        self._count(task, 1, task.status, None)

    def move(self, tasks: list[Task], new: TaskStatus) -> None:
        """Moves tasks of one class and status to another status; the caller then sets it on the tasks."""
        by_status, count, old = self.by_status, len(tasks), tasks[0].status
        leave = by_status[old]
        if len(leave) == count and new not in by_status:
            by_status[new] = by_status.pop(old)
        elif new is not old:
            enter = by_status.setdefault(new, {})
            for task in tasks:
                del leave[task.uid]
                enter[task.uid] = task
            if not leave:
                del by_status[old]
        # Between two statuses that hold resources, no count changes.
        if old not in HOLDS_RESOURCES or new not in HOLDS_RESOURCES:
            self._count(tasks[0], count, old, new)

    def _count(
        self, like: Task, count: int, old: TaskStatus | None, new: TaskStatus | None
    ) -> None:
        """Counts tasks of one class that change their status; None: they are added or removed."""
        self.ready_count += count * ((new in _READY) - (old in _READY))
        if like.best_effort:
            self.pending_best_effort += count * ((new is PENDING) - (old is PENDING))
        hold = (new in HOLDS_RESOURCES) - (old in HOLDS_RESOURCES)
        if hold:
            self.allocated.add_times(like.request, hold * count)

    @property
    def pending(self) -> dict[str, Task]:
        return self.by_status.get(PENDING, _NONE)

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
        return len(self.by_status.get(PIPELINED, _NONE))

    @property
    def valid_count(self) -> int:
        return self.count(*_READY, PIPELINED, PENDING)

    @property
    def scheduled_count(self) -> int:
        return self.count(*_SCHEDULED)

    @property
    def releasing_scheduled_count(self) -> int:
        releasing = self.with_status(RELEASING).values()
        return sum(1 for task in releasing if task.node_name)

    def is_ready(self, minimum: int) -> bool:
        return self.ready_count + self.pending_best_effort >= minimum

    def is_pipelined(self, minimum: int) -> bool:
        return self.waiting_count + self.ready_count + self.pending_best_effort >= minimum

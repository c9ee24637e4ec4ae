"""A trial: placements and evictions that are committed together or undone together."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task, Transaction
from pumice.core.model.status import TaskStatus

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# An operation as a plain value: kind, task, node, reason, eviction occurred.
SavedOperation = tuple[str, Task, str, str, bool]


class _Kind(Enum):
    EVICT = 1
    PIPELINE = 2
    ALLOCATE = 3


class Statement:
    """An undo log over the session. Left alone, its effects last until the session ends."""

    __slots__ = ("_alike", "_operations", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._operations: list[tuple[_Kind, Task, str]] = []
        # So many of the first ones are allocations of one class and sub-job.
        self._alike = 0

    def __len__(self) -> int:
        return len(self._operations)

    @property
    def has_evictions(self) -> bool:
        return any(kind is _Kind.EVICT for kind, _, _ in self._operations)

    def allocate(self, task: Task, node_name: str) -> bool:
        """Puts the task on idle room; false when a plugin objects, and then nothing happened."""
        if self._session.moves.place(task, node_name, TaskStatus.ALLOCATED):
            self._session.moves.unplace(task)
            return False
        self._operations.append((_Kind.ALLOCATE, task, ""))
        return True

    def allocate_many(self, tasks: list[Task], rows: list[int]) -> None:
        """Puts plain tasks of one class and sub-job on idle room, each on its row's node."""
        self._session.moves.place_many(tasks, rows)
        if not self._operations:
            self._alike = len(tasks)
        self._operations += [(_Kind.ALLOCATE, task, "") for task in tasks]

    def pipeline(self, task: Task, node_name: str, *, eviction_occurred: bool) -> bool:
        """Promises the task room that is being released."""
        task.eviction_occurred = eviction_occurred
        if self._session.moves.place(task, node_name, TaskStatus.PIPELINED):
            self._session.moves.unplace(task)
            return False
        self._operations.append((_Kind.PIPELINE, task, ""))
        return True

    def evict(self, task: Task, reason: str) -> None:
        self._session.moves.evict(task)
        self._operations.append((_Kind.EVICT, task, reason))

    def discard(self) -> None:
        """Undoes everything, last first; each task remembers where it could have been."""
        moves = self._session.moves
        for kind, task, _ in reversed(self._operations):
            task.last_transaction = Transaction(
                task.status, task.node_name, eviction_occurred=task.eviction_occurred
            )
            if kind is _Kind.EVICT:
                moves.unevict(task)
            else:
                moves.unplace(task)
        self._clear()

    def _clear(self) -> None:
        self._operations.clear()
        self._alike = 0

    def commit(self, for_job: str) -> None:
        """Makes decisions of the allocations and evictions; pipelined tasks wait."""
        moves, outbox = self._session.moves, self._session.outbox
        if self._alike:
            together = [task for _, task, _ in self._operations[: self._alike]]
            for task in together:
                task.last_transaction = None
            moves.commit_binds(together)
            outbox.bind(together)
        for kind, task, reason in self._operations[self._alike :]:
            task.last_transaction = None
            if kind is _Kind.EVICT:
                moves.commit_evict(task)
                outbox.evict(task, reason, for_job)
            elif kind is _Kind.ALLOCATE:
                moves.commit_bind(task)
                outbox.bind([task])
        self._clear()

    # For trials that are undone and may be repeated later.

    def save(self) -> list[SavedOperation]:
        """The operations as plain values."""
        return [
            (kind.name, task, task.node_name, reason, task.eviction_occurred)
            for kind, task, reason in self._operations
        ]

    def replay(self, saved: list[SavedOperation]) -> bool:
        """Repeats saved operations; stops at the first that does not succeed."""
        for kind, task, node_name, reason, occurred in saved:
            if kind == _Kind.EVICT.name:
                self.evict(task, reason)
            elif kind == _Kind.ALLOCATE.name:
                if not self.allocate(task, node_name):
                    return False
            elif not self.pipeline(task, node_name, eviction_occurred=occurred):
                return False
        return True

    def merge(self, other: Statement) -> None:
        """Takes over the other statement's operations."""
        if not self._operations:
            self._alike = other._alike
        self._operations += other._operations
        other._operations = []
        other._alike = 0

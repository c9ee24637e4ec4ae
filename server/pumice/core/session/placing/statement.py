"""Statements: placements and evictions that are committed or undone together; and their decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, Transaction
from pumice.core.decisions import Bind, Decision, Event, Evict, Gang, SharedDevice, VolumeChoice
from pumice.core.model.devices import ClaimChoice
from pumice.core.model.fit import Mask
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.placing.batch import best_rows

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# An operation as a plain value: kind, task, node, reason, eviction occurred.
SavedOperation = tuple[str, Task, str, str, bool]


class _Kind(Enum):
    EVICT = 1
    PIPELINE = 2
    ALLOCATE = 3


# Names of their own: Python 3.11 is slow to find members of enumerations.
_EVICT, _ALLOCATE = _Kind.EVICT, _Kind.ALLOCATE


class Statement:
    """An undo log over the session: every placement that may be undone, and every eviction.

    A statement that is neither committed nor discarded keeps its effects until the session ends.
    """

    __slots__ = ("_operations", "_session", "objection")

    def __init__(self, session: Session) -> None:
        self._session = session
        # Kind, tasks of one job, and the reason of an eviction.
        self._operations: list[tuple[_Kind, list[Task], str]] = []
        # What a plugin said against the last placement that failed.
        self.objection = ""

    @classmethod
    def of_allocated(cls, session: Session, tasks: list[Task]) -> Statement:
        """Tasks of one job that earlier statements of the session left allocated."""
        statement = cls(session)
        statement._operations.append((_ALLOCATE, tasks, ""))
        return statement

    def __len__(self) -> int:
        return sum(len(tasks) for _, tasks, _ in self._operations)

    @property
    def has_evictions(self) -> bool:
        return any(kind is _EVICT for kind, _, _ in self._operations)

    def place_class(
        self,
        view: ClassView,
        tasks: list[Task],
        within: Mask | None = None,
        terms: tuple[CandidateTerm, ...] = (),
        *,
        whole: bool = False,
    ) -> int:
        """Allocates tasks of the view's class and one sub-job, each on the best node with idle resources.

        The result is that of placing one after the other. It is for tasks that go by their class,
        with the same terms added to their scores, and that their queue may take. Returns how many
        of the first ones were placed: fewer where idle resources run out or a plugin objects, or
        none, if all or none are wanted (``whole``).
        """
        moves, count = self._session.moves, len(tasks)
        if count > 1 and not moves.keeps_kube_view:
            # The best rows for several tasks are those of a view that follows each placement.
            return 0
        rows = self._best_rows(view, count, within, terms)
        if not rows or (whole and len(rows) < count):
            return 0
        if not moves.can_place(tasks, rows):
            return 0 if whole else self._allocate_each(tasks, rows)
        placed = tasks if len(rows) == count else tasks[: len(rows)]
        moves.place_many(placed, rows)
        self._operations.append((_ALLOCATE, placed, ""))
        return len(rows)

    def _best_rows(
        self, view: ClassView, count: int, within: Mask | None, terms: tuple[CandidateTerm, ...]
    ) -> list[int]:
        session, table = self._session, self._session.table
        groups: Sequence[Mask | None] = (within,)
        if session.shard.is_soft:
            everywhere = np.ones(len(table), dtype=np.bool_)
            groups = session.shard.groups(everywhere if within is None else within)
        for group in groups:
            session.work["candidates_scored"] += len(table.rows)
            rows = view.best_rows(group, count, terms)
            if rows is None:
                rows = best_rows(table, view, group, count)
            if rows:
                return rows
        return []

    def _allocate_each(self, tasks: list[Task], rows: list[int]) -> int:
        names = self._session.table.names
        for number, row in enumerate(rows):
            if not self.allocate(tasks[number], names[row]):
                return number
        return len(rows)

    def allocate(self, task: Task, node_name: str) -> bool:
        """Places the task on idle resources; false: a plugin objects, and nothing happened."""
        return self._place(_ALLOCATE, task, node_name, TaskStatus.ALLOCATED)

    def pipeline(self, task: Task, node_name: str, *, eviction_occurred: bool) -> bool:
        """Reserves resources that are being released for the task; false: a plugin objects."""
        task.eviction_occurred = eviction_occurred
        return self._place(_Kind.PIPELINE, task, node_name, TaskStatus.PIPELINED)

    def _place(self, kind: _Kind, task: Task, node_name: str, status: TaskStatus) -> bool:
        objections = self._session.moves.place(task, node_name, status)
        if objections:
            self._session.moves.unplace(task)
            self.objection = objections[0]
            return False
        self._operations.append((kind, [task], ""))
        return True

    def evict(self, task: Task, reason: str) -> None:
        self._session.moves.evict(task)
        self._operations.append((_EVICT, [task], reason))

    def discard(self) -> None:
        """Undoes everything, last first; each task remembers where it could have been."""
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
        """Makes decisions of the allocations and evictions; pipelined tasks wait."""
        session = self._session
        for kind, tasks, reason in self._operations:
            if kind is _ALLOCATE:
                session.moves.commit_binds(tasks)
                continue
            for task in tasks:
                task.last_transaction = None
            if kind is _EVICT:
                session.moves.commit_evict(tasks[0])
                session.outbox.evict(tasks[0], reason, for_job)
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
        """Repeats saved operations; stops at the first that does not succeed."""
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


# Task, node, reason (empty for a bind), and the job that it is done for.
_Order = tuple[Task, str, str, str]


class Outbox:
    """Collects binds and evictions that were committed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.orders: list[_Order] = []
        self._volumes: dict[str, tuple[VolumeChoice, ...]] = {}
        self._claims: dict[str, tuple[ClaimChoice, ...]] = {}
        self._devices: dict[str, SharedDevice] = {}
        # The actions that have run, each with the number of orders by its end.
        self.made_by: list[tuple[str, int]] = []

    def action_ended(self, name: str) -> None:
        self.made_by.append((name, len(self.orders)))

    def evict(self, task: Task, reason: str, for_job: str) -> None:
        self.orders.append((task, task.node_name, reason, for_job))
        message = f"{reason}: makes room for {for_job}" if for_job else reason
        victim_job = self._session.jobs.get(task.job_id)
        if victim_job is not None:
            self._session.record_event(victim_job, "Evict", message)
        pod = task.pod
        self._session.events.append(Event.about(pod, "Evict", message))

    def attach_volumes(self, task: Task, volumes: tuple[VolumeChoice, ...]) -> None:
        """Sets the volumes for the task's claims in its bind."""
        if volumes:
            self._volumes[task.uid] = volumes
        else:
            self._volumes.pop(task.uid, None)

    def attach_claims(self, task: Task, claims: tuple[ClaimChoice, ...]) -> None:
        """Sets the devices for the task's claims in its bind."""
        if claims:
            self._claims[task.uid] = claims
        else:
            self._claims.pop(task.uid, None)

    def attach_device(self, task: Task, device: SharedDevice | None) -> None:
        """Sets the device for which the task's node is locked in its bind."""
        if device is not None:
            self._devices[task.uid] = device
        else:
            self._devices.pop(task.uid, None)

    def decisions(self) -> tuple[Decision, ...]:
        session = self._session
        sizes = Counter([for_job for _, _, _, for_job in self.orders])
        prefix = f"{session.id_prefix}{session.number}"
        gangs = {id_: _gang(prefix, session.jobs.get(id_), size) for id_, size in sizes.items()}
        takes = bool(self._volumes or self._claims or self._devices)
        decisions: list[Decision] = []
        for number, (task, node, reason, for_job) in enumerate(self.orders):
            pod, uid, gang, id_ = task.pod, task.uid, gangs[for_job], f"{prefix}.{number}"
            space, name, added = pod.namespace, pod.name, task.bind_annotations
            if reason:
                job = task.job_id
                decisions.append(Evict(id_, space, name, uid, node, reason, for_job, gang, job))
            elif takes:
                decisions.append(
                    Bind(id_, space, name, uid, node, gang, added, *self._taken_by(uid))
                )
            else:
                decisions.append(Bind(id_, space, name, uid, node, gang, added))
        return tuple(decisions)

    def _taken_by(
        self, uid: str
    ) -> tuple[tuple[VolumeChoice, ...], tuple[ClaimChoice, ...], SharedDevice | None]:
        """What a bind takes beside its node."""
        return self._volumes.get(uid, ()), self._claims.get(uid, ()), self._devices.get(uid)


def _gang(prefix: str, job: Job | None, size: int) -> Gang | None:
    group = None if job is None else job.group
    if job is None or group is None:
        return None
    return Gang(f"{prefix}/{job.id}", job.id, group.uid, group.spec_hash, size)

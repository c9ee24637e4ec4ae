"""The node table: one array a quantity, one position a node, in the order of the nodes' names.

A session works on these arrays in place and puts them back. Everything that changes a row writes
the row into a log, so that whoever keeps something computed from the rows (masks, scores) has to
compute again only what was touched since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.tasks import ClassWeights, Task, TaskClass
from pumice.core.model.node import Node
from pumice.core.model.resources import CPU, MEMORY, PODS, Resources
from pumice.core.model.status import TaskStatus
from pumice.core.model.tolerance import Tolerance

Floats = NDArray[np.float64]

CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN = 0, 1, 2
_FIXED_COLUMNS = (CPU, MEMORY, PODS)
# Beyond so many touched rows a reader starts afresh instead of reading the log.
_LONGEST_LOG = 100_000
# A CSI driver that publishes no limit.
_NO_LIMIT = 2**31 - 1


class NodeEntry:
    """A node and the tasks on it; tasks may be known before the node is."""

    __slots__ = ("csi_limits", "name", "node", "row", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        # By uid: a pod may come before the end of its predecessor of the same name is told.
        self.tasks: dict[str, Task] = {}
        self.csi_limits: tuple[tuple[str, int], ...] = ()
        # -1: not in the arrays (yet); its tasks are counted when it gets a row.
        self.row = -1

    def allocatable(self) -> Resources:
        """What scheduling may give away: the node's own word, oversubscription and CSI limits."""
        if self.node is None:
            return Resources()
        total = Resources.of(self.node.allocatable)
        total.milli_cpu += self.node.oversubscription_milli_cpu
        total.memory += self.node.oversubscription_memory_bytes
        for driver, limit in self.csi_limits:
            total.scalars[csi_resource(driver)] = _NO_LIMIT if limit < 0 else limit
        return total

    def tasks_in_order(self) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: task.order_key)


def csi_resource(driver: str) -> str:
    return f"attachable-volumes-csi-{driver.replace('/', '-')}"


class NodeTable:
    """Amounts of every node by resource: arrays of shape (resources, nodes)."""

    def __init__(self) -> None:
        self.entries: dict[str, NodeEntry] = {}
        self.columns: list[str] = list(_FIXED_COLUMNS)
        self.names: list[str] = []
        self.rows: list[NodeEntry] = []
        # Grows when columns or rows move: everything kept by position is void.
        self.layout = 0
        # Grows when a node's labels, taints or amounts change.
        self.objects_version = 0
        self.log: list[int] = []
        # Hears of every pod that enters (1) or leaves (-1) Kubernetes' view of a row.
        self.watcher: Callable[[int, Task, int], None] | None = None
        self.log_start = 0
        # None: nothing that is short fits.
        self.tolerance: Tolerance | None = None
        self._scalar_names: tuple[int, list[str]] = (-1, [])
        self._wanted_columns: set[str] = set(_FIXED_COLUMNS)
        self._moved = False
        self._allocate_arrays(0)

    def _allocate_arrays(self, count: int) -> None:
        width = len(self.columns)
        # What nodes offer: by Volcano's reckoning, and by their own word.
        self.offered: Floats = np.zeros((2 * width, count))
        self.allocatable = self.offered[:width]
        self.kube_allocatable = self.offered[width:]
        # What became of it, in one array so that a placement is one operation. First Volcano's
        # ledger, where future is what will be idle once releasing tasks are gone and pipelined
        # ones have come; then Kubernetes' view of the same nodes, for filters and scores.
        self.amounts: Floats = np.zeros((5 * width + 3, count))
        self.idle, self.used, self.releasing, self.future, self.kube_requested = (
            self.amounts[part * width : (part + 1) * width] for part in range(5)
        )
        self.kube_non_zero = self.amounts[5 * width : 5 * width + 2]
        self.kube_pods = self.amounts[5 * width + 2]

    def __len__(self) -> int:
        return len(self.names)

    def entry(self, name: str) -> NodeEntry:
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = NodeEntry(name)
        return entry

    def row_of(self, name: str) -> int | None:
        """The position of a node that may be scheduled on."""
        entry = self.entries.get(name)
        return None if entry is None or entry.row < 0 else entry.row

    def column_of(self, resource: str) -> int | None:
        try:
            return self.columns.index(resource)
        except ValueError:
            return None

    # Nodes come and go.

    def set_node(self, node: Node) -> None:
        entry = self.entry(node.name)
        self._want_columns(name for name, _ in node.allocatable)
        entry.node = node
        self._changed(entry)

    def set_csi_limits(self, name: str, limits: tuple[tuple[str, int], ...]) -> None:
        entry = self.entry(name)
        if entry.csi_limits != limits:
            entry.csi_limits = limits
            self._want_columns(csi_resource(driver) for driver, _ in limits)
            self._changed(entry)

    def remove_node(self, name: str) -> None:
        """The node is gone; its tasks stay known until their own end is told."""
        entry = self.entries.get(name)
        if entry is None:
            return
        entry.node = None
        self._moved = True
        self.objects_version += 1
        self.forget_if_empty(entry)

    def forget_if_empty(self, entry: NodeEntry) -> None:
        if entry.node is None and not entry.tasks and not entry.csi_limits:
            self.entries.pop(entry.name, None)
            self._moved = self._moved or entry.row >= 0

    def _changed(self, entry: NodeEntry) -> None:
        self.objects_version += 1
        if entry.row < 0 or self._moved:
            self._moved = True
        else:
            self._fill_row(entry)

    def want_class(self, class_: TaskClass) -> None:
        self._want_columns(name for name, _ in class_.amounts)

    def _want_columns(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._wanted_columns:
                self._wanted_columns.add(name)
                self._moved = True

    # Tasks come, go and change their status; each status weighs on the ledger in its own way.

    def add_task(self, task: Task) -> None:
        entry = self.entry(task.node_name)
        entry.tasks[task.uid] = task
        task.ledger_status = task.status
        if entry.row >= 0 and not self._moved:
            self._weigh(entry.row, task, task.status, 1)

    def add_tasks(self, tasks: list[Task], rows: list[int]) -> None:
        """Tasks of one class that hold room; each has its node's row beside it."""
        for task, row in zip(tasks, rows, strict=True):
            self.rows[row].tasks[task.uid] = task
            task.ledger_status = task.status
        self._weigh_many(rows, self.weights(tasks[0].class_).held)

    def kube_add_many(self, tasks: list[Task], rows: list[int]) -> None:
        self._weigh_many(rows, self.weights(tasks[0].class_).kube)
        if self.watcher is not None:
            for task, row in zip(tasks, rows, strict=True):
                self.watcher(row, task, 1)

    def _weigh_many(self, rows: list[int], weight: Floats) -> None:
        if len(set(rows)) == len(rows):
            self.amounts[:, rows] += weight[:, None]
        else:
            np.add.at(self.amounts.T, rows, weight)
        self.log += rows

    def remove_task(self, task: Task) -> None:
        entry = self.entries.get(task.node_name)
        if entry is None or task.ledger_status is None:
            return
        if entry.row >= 0 and not self._moved:
            self._weigh(entry.row, task, task.ledger_status, -1)
        del entry.tasks[task.uid]
        task.ledger_status = None

    def restate_task(self, task: Task) -> None:
        """The task's status changed: count it the new way."""
        row = self.entries[task.node_name].row
        if row >= 0 and not self._moved and task.ledger_status is not None:
            self._weigh(row, task, task.ledger_status, -1)
            self._weigh(row, task, task.status, 1)
        task.ledger_status = task.status

    def _weigh(self, row: int, task: Task, status: TaskStatus, sign: int) -> None:
        weight = self.weights(task.class_).of(status)
        if sign > 0:
            self.amounts[:, row] += weight
        else:
            self.amounts[:, row] -= weight
        self.log.append(row)

    def kube_add(self, row: int, task: Task) -> None:
        self.amounts[:, row] += self.weights(task.class_).kube
        self.log.append(row)
        if self.watcher is not None:
            self.watcher(row, task, 1)

    def kube_remove(self, row: int, task: Task) -> None:
        self.amounts[:, row] -= self.weights(task.class_).kube
        self.log.append(row)
        if self.watcher is not None:
            self.watcher(row, task, -1)

    def weights(self, class_: TaskClass) -> ClassWeights:
        """What a task of the class does to ``amounts``, by status."""
        if class_.layout != self.layout:
            get = class_.request.get
            vector = np.array([get(name) for name in self.columns], dtype=np.float64)
            class_.weights = ClassWeights(vector, class_)
            class_.layout = self.layout
        return class_.weights

    def vector(self, class_: TaskClass) -> Floats:
        """The class's request by column."""
        return self.weights(class_).request

    # Between batches and sessions the table is put in order.

    def settle(self) -> None:
        """Gives every known node its row, by name; called before a session looks."""
        if len(self.log) > _LONGEST_LOG:
            self.log_start += len(self.log)
            self.log.clear()
        if not self._moved:
            return
        self._moved = False
        self.layout += 1
        self.log_start += len(self.log)
        self.log.clear()
        self.columns = [*_FIXED_COLUMNS, *sorted(self._wanted_columns - set(_FIXED_COLUMNS))]
        self.rows = [self.entries[n] for n in sorted(self.entries) if self.entries[n].node]
        for entry in self.entries.values():
            entry.row = -1
        self.names = [entry.name for entry in self.rows]
        self._allocate_arrays(len(self.rows))
        for row, entry in enumerate(self.rows):
            entry.row = row
            self._fill_amounts(entry)
        self._weigh_all(self.rows)

    def _fill_amounts(self, entry: NodeEntry) -> None:
        total = entry.allocatable()
        row = entry.row
        amounts = [total.get(name) for name in self.columns]
        self.allocatable[:, row] = amounts
        self.idle[:, row] = amounts
        self.future[:, row] = amounts
        own = dict(entry.node.allocatable if entry.node else ())
        self.kube_allocatable[:, row] = [own.get(name, 0) for name in self.columns]

    def _fill_row(self, entry: NodeEntry) -> None:
        row = entry.row
        self.amounts[:, row] = 0
        self._fill_amounts(entry)
        self._weigh_all([entry])
        self.log.append(row)

    def _weigh_all(self, entries: Iterable[NodeEntry]) -> None:
        """Counts every task of these nodes, class by class, in one array operation."""
        rows: list[int] = []
        numbers: list[int] = []
        known: dict[tuple[TaskClass, bool], int] = {}
        for entry in entries:
            for task in entry.tasks.values():
                leaves = task.ledger_status is TaskStatus.RELEASING
                rows.append(entry.row)
                numbers.append(known.setdefault((task.class_, leaves), len(known)))
        if not rows:
            return
        weights = []
        for class_, leaves in known:
            weight = self.weights(class_)
            weights.append((weight.releasing if leaves else weight.held) + weight.kube)
        np.add.at(self.amounts.T, np.array(rows), np.stack(weights)[np.array(numbers)])

    @property
    def unsettled(self) -> bool:
        """Rows are about to move: what is added now is counted when they have."""
        return self._moved

    # Reading the log.

    @property
    def log_end(self) -> int:
        return self.log_start + len(self.log)

    def touched_since(self, position: int) -> list[int] | None:
        """Rows touched since a position of the log; None when it no longer reaches back there."""
        if position < self.log_start:
            return None
        return self.log[position - self.log_start :]

    def scalar_names(self) -> list[str]:
        """Every resource beside cpu and memory that some node lists, be it with nothing of it."""
        version, names = self._scalar_names
        if version != self.objects_version:
            found = {name for entry in self.rows for name in entry.allocatable().scalars}
            names = sorted(found)
            self._scalar_names = (self.objects_version, names)
        return names

    def sum_allocatable(self) -> Resources:
        """All there is, exact whatever its size."""
        return self._sum(self.allocatable)

    def sum_used(self) -> Resources:
        return self._sum(self.used)

    def _sum(self, amounts: Floats) -> Resources:
        # Every single amount is a whole number below 2^53; their sum may be larger.
        sums = amounts.astype(np.int64).sum(axis=1)
        return Resources.of(
            (name, int(total))
            for name, total in zip(self.columns, sums, strict=True)
            if total or name in (CPU, MEMORY)
        )

"""The node table: one array per quantity, one position per node, in the order of the nodes' names.

A session changes these arrays in place and undoes its changes. Every change of a row stamps the row
with the number of the change, so that results computed from other rows stay valid.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.entries import NO_OFFER, Amounts, NodeEntry, NodeOffer
from pumice.core.cache.images import ImageIndex
from pumice.core.cache.tasks import ClassWeights, Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.integers import add_amount, exact_sums
from pumice.core.model.node import Node
from pumice.core.model.resources import CPU, MEMORY, PODS, Resources
from pumice.core.model.status import PIPELINED, RELEASING

if TYPE_CHECKING:
    from pumice.core.cache.pods import PodIndex

Floats = NDArray[np.float64]

CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, ABSENT_COLUMN = 0, 1, 2, 3
# The name of a column that is zero everywhere: it stands for every resource that no node offers.
_ABSENT = ""
_FIXED_COLUMNS = (CPU, MEMORY, PODS, _ABSENT)
_labelled = attrgetter("labels", "taints", "unschedulable")


class NodeTable:
    """Amounts of every node by resource: arrays of shape (resources, nodes).

    There is a column for each resource that some node offers, whatever pods ask for.
    """

    def __init__(self) -> None:
        self.entries: dict[str, NodeEntry] = {}
        self.columns: list[str] = list(_FIXED_COLUMNS)
        self.names: list[str] = []
        self.rows: list[NodeEntry] = []
        self.layout = 0  # Grows when columns or rows move, which invalidates all positions.
        self.objects_version = 0  # Grows when a node object changes.
        # Grows when labels, taints or schedulability of nodes change; and the old nodes, by row.
        self.labels_version = 0
        self.relabelled: dict[int, Node] = {}
        self.images = ImageIndex(self)
        self.has_states = (
            False  # Plugins keep states of nodes, so that any change of a node touches its row.
        )
        self.changes = 0  # Grows with every change of a row.
        # Is told of every pod that enters or leaves Kubernetes' view of a row.
        self.pods: PodIndex | None = None
        # How many nodes list a resource, even with an amount of zero.
        self.offering_nodes: dict[str, int] = {}
        # Rows will move at the next ``settle``. Until then tasks are not counted; their nodes are noted.
        self.unsettled = False
        self._uncounted: set[str] = set()
        self._allocate_arrays(0)

    def _allocate_arrays(self, count: int) -> None:
        width = len(self.columns)
        # What nodes offer: as Volcano counts it, and as the node reports it.
        self.offered: Floats = np.zeros((2 * width, count))
        self.allocatable = self.offered[:width]
        self.kube_allocatable = self.offered[width:]
        # What is idle and used, in one array, so that a placement is one operation. First Volcano's
        # view, where ``future`` is the idle amount after releasing tasks are gone and pipelined
        # tasks are placed; then Kubernetes' view of the same nodes, for filters and scores.
        self.amounts: Floats = np.zeros((5 * width + 3, count))
        self.idle, self.used, self.releasing, self.future, self.kube_requested = (
            self.amounts[part * width : (part + 1) * width] for part in range(5)
        )
        self.kube_non_zero = self.amounts[5 * width : 5 * width + 2]
        self.kube_pods = self.amounts[5 * width + 2]
        # Shared by all classes that fit nowhere, and never written to.
        self.nowhere: Mask = np.zeros(count, dtype=np.bool_)
        self.nothing: Floats = np.zeros(count)
        self.never: Floats = np.full(count, -np.inf)
        # The number of the last change of each row.
        self.changes += 1
        self.stamps: NDArray[np.int64] = np.full(count, self.changes, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def entry(self, name: str) -> NodeEntry:
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = NodeEntry(name)
        return entry

    def row_of(self, name: str) -> int | None:
        """The row of a node; None: it has none."""
        entry = self.entries.get(name)
        return None if entry is None or entry.row < 0 else entry.row

    def column_of(self, resource: str) -> int | None:
        return self.columns.index(resource) if resource in self.columns else None

    # Nodes are added and deleted.

    def set_node(self, node: Node) -> None:
        entry = self.entry(node.name)
        old, entry.node = entry.node, node
        if old is None or _labelled(old) != _labelled(node):
            self.labels_version += 1
            if old is not None and entry.row >= 0:
                self.relabelled.setdefault(entry.row, old)
        if old is not None and old.images != node.images and not self.unsettled:
            self.images.change(entry.row, node.images)
        self._changed(entry, offers_other=self._update_offer(entry))

    def set_csi_limits(self, name: str, limits: Amounts) -> None:
        """Sets the most volumes of a node by CSI driver."""
        entry = self.entry(name)
        entry.csi_limits = limits
        self._extra_changed(entry)

    def set_devices(self, name: str, devices: Amounts) -> None:
        """Sets the extended resources of a node that stand for devices."""
        entry = self.entry(name)
        entry.device_offers = devices
        self._extra_changed(entry)

    def _extra_changed(self, entry: NodeEntry) -> None:
        if self._update_offer(entry):
            self._changed(entry, offers_other=True)
        self.forget_if_empty(entry)

    def remove_node(self, name: str) -> None:
        """Removes a node; its tasks stay until their own deletions arrive."""
        entry = self.entries.get(name)
        if entry is None:
            return
        entry.node = None
        self._update_offer(entry)
        self.unsettled = True
        self.objects_version += 1
        self.forget_if_empty(entry)

    def forget_if_empty(self, entry: NodeEntry) -> None:
        if entry.node is None and not (entry.tasks or entry.csi_limits or entry.device_offers):
            self.entries.pop(entry.name, None)
            self._uncounted.discard(entry.name)
            self.unsettled = self.unsettled or entry.row >= 0

    def _changed(self, entry: NodeEntry, *, offers_other: bool) -> None:
        # A heartbeat changes no amount: it touches the row only for plugins that keep states.
        self.objects_version += 1
        if entry.row < 0 or self.unsettled:
            self.unsettled = True
            self._uncounted.add(entry.name)
        elif offers_other:
            self._fill_row(entry)
        elif self.has_states:
            self.touch(entry.row)

    def _update_offer(self, entry: NodeEntry) -> bool:
        """Whether a node offers something else than before."""
        before, after = entry.offer, NO_OFFER
        if entry.node is not None:
            after = NodeOffer.of(entry.node, entry.csi_limits, entry.device_offers)
        if before == after:
            return False
        entry.offer = after
        counts, resources = self.offering_nodes, len(self.offering_nodes)
        for name in after.names():
            add_amount(counts, name, 1)
        # A resource that is offered by its first node, or no longer by any node, moves columns.
        moves = len(counts) > resources
        for name in before.names():
            add_amount(counts, name, -1)
            moves = moves or name not in counts
        self.unsettled = moves or self.unsettled
        return True

    # Tasks are added, removed and change their status; each status changes other amounts.

    def add(self, tasks: dict[str, Task]) -> None:
        """Puts tasks of one class and status, by uid, on the nodes they name, in both views."""
        known, status = self.entries, next(iter(tasks.values())).status
        placed: list[Task] = []
        rows: list[int] = []
        for uid, task in tasks.items():
            entry = known.get(task.node_name) or self.entry(task.node_name)
            entry.tasks[uid] = task
            task.counted_status = status
            if self.unsettled:
                self._uncounted.add(entry.name)
            elif entry.row >= 0:
                placed.append(task)
                rows.append(entry.row)
        # Nothing is counted for nodes that are not known.
        if placed:
            self._weigh(rows, self.weights(placed[0].class_).of(status))
            self.kube_change(rows, placed, 1)

    def place(self, tasks: list[Task], rows: list[int], *, in_kube_view: bool = False) -> None:
        """Puts tasks of one class, which are Allocated or Pipelined, on nodes in Volcano's view.

        Only Allocated tasks may enter Kubernetes' view at the same time.
        """
        entries, status = self.rows, tasks[0].status
        for task, row in zip(tasks, rows, strict=True):
            entry = entries[row]
            entry.tasks[task.uid] = task
            task.node_name = entry.name
            task.counted_status = status
        weights = self.weights(tasks[0].class_)
        if not in_kube_view:
            self._weigh(rows, weights.pipelined if status is PIPELINED else weights.held)
            return
        self._weigh(rows, weights.placed)
        if self.pods is not None:
            self.pods.change(rows, tasks, 1)

    def kube_change(self, rows: list[int], tasks: list[Task], sign: int) -> None:
        """Adds tasks of one class to Kubernetes' view of these rows (1), or removes them (-1)."""
        weight = self.weights(tasks[0].class_).kube
        self._weigh(rows, weight if sign > 0 else -weight)
        if self.pods is not None:
            self.pods.change(rows, tasks, sign)

    def _weigh(self, rows: list[int], weight: Floats) -> None:
        self.changes += 1
        if kernel.rows is not None:
            kernel.rows.weigh(self.amounts, self.stamps, rows, weight, self.changes)
            return
        if len(set(rows)) == len(rows):
            self.amounts[:, rows] += weight[:, None]
        else:
            np.add.at(self.amounts.T, rows, weight)
        self.stamps[rows] = self.changes

    def unplace(self, task: Task) -> None:
        """Takes a task out of Volcano's view."""
        entry, status = self.entries[task.node_name], task.counted_status
        assert status is not None
        if self.unsettled:
            self._uncounted.add(entry.name)
        elif entry.row >= 0:
            self._weigh([entry.row], -self.weights(task.class_).of(status))
        del entry.tasks[task.uid]
        task.counted_status = None

    def remove(self, task: Task) -> None:
        """Removes a task from its node, in both views."""
        entry = self.entries[task.node_name]
        if entry.row >= 0 and not self.unsettled:
            self.kube_change([entry.row], [task], -1)
        self.unplace(task)
        self.forget_if_empty(entry)

    def restate(self, task: Task) -> None:
        """Counts a task by its new status."""
        row = self.entries[task.node_name].row
        if self.unsettled:
            self._uncounted.add(task.node_name)
        elif row >= 0 and task.counted_status is not None:
            weights = self.weights(task.class_)
            before, after = weights.of(task.counted_status), weights.of(task.status)
            if before is after:
                self.touch(row)
            else:
                self._weigh([row], after - before)
        task.counted_status = task.status

    def touch(self, row: int) -> None:
        self.changes += 1
        self.stamps[row] = self.changes

    def weights(self, class_: TaskClass) -> ClassWeights:
        """What a task of the class adds to ``amounts``, by status."""
        weights = class_.weights
        if weights is None or class_.layout != self.layout:
            get = class_.request.get
            vector = np.array([get(name) for name in self.columns], dtype=np.float64)
            weights = class_.weights = ClassWeights(vector, class_)
            class_.layout = self.layout
        return weights

    def vector(self, class_: TaskClass) -> Floats:
        """The class's request by column."""
        return self.weights(class_).request

    # Rows and columns move only here, between batches and sessions.

    def settle(self) -> None:
        """Gives every known node its row, by name; called before a session reads the table."""
        if not self.unsettled:
            return
        self.unsettled = False
        self.layout += 1
        columns = [*_FIXED_COLUMNS, *sorted(self.offering_nodes.keys() - set(_FIXED_COLUMNS))]
        same_columns, self.columns = columns == self.columns, columns
        self.rows = [self.entries[n] for n in sorted(self.entries) if self.entries[n].node]
        self.names = [entry.name for entry in self.rows]
        amounts, offered = self.amounts, self.offered
        self._allocate_arrays(len(self.rows))
        kept = [
            (row, entry.row)
            for row, entry in enumerate(self.rows)
            if same_columns and entry.row >= 0 and entry.name not in self._uncounted
        ]
        if kept:
            new, old = np.array(kept).T
            self.amounts[:, new] = amounts[:, old]
            self.offered[:, new] = offered[:, old]
        self._place_rows({row for row, _ in kept})

    def _place_rows(self, kept: set[int]) -> None:
        """Sets the row of every entry, and counts the tasks on rows that were not kept."""
        self._uncounted.clear()
        for entry in self.entries.values():
            entry.row = -1
        for row, entry in enumerate(self.rows):
            entry.row = row
        others = [entry for entry in self.rows if entry.row not in kept]
        self._fill_amounts(others)
        self._weigh_all(others)

    def _fill_amounts(self, entries: list[NodeEntry]) -> None:
        """Writes what nodes offer, without their tasks; nodes that offer the same are written together."""
        alike: dict[NodeOffer, list[NodeEntry]] = {}
        for entry in entries:
            alike.setdefault(entry.offer, []).append(entry)
        for offer, same in alike.items():
            total, own = offer.total(), dict(offer.own)
            rows = [entry.row for entry in same]
            amounts = np.array([[float(total.get(name))] for name in self.columns])
            self.allocatable[:, rows] = amounts
            self.idle[:, rows] = amounts
            self.future[:, rows] = amounts
            self.kube_allocatable[:, rows] = [[own.get(name, 0)] for name in self.columns]

    def _fill_row(self, entry: NodeEntry) -> None:
        self.amounts[:, entry.row] = 0
        self._fill_amounts([entry])
        self._weigh_all([entry])
        self.touch(entry.row)

    def _weigh_all(self, entries: list[NodeEntry]) -> None:
        """Counts every task of these nodes, part by part in one array operation."""
        tasks = [task for entry in entries for task in entry.tasks.values()]
        if not tasks:
            return
        rows = np.repeat([e.row for e in entries], [len(e.tasks) for e in entries])
        classes = {task.class_.number: task.class_ for task in tasks}
        # Classes of releasing tasks have negative numbers.
        numbers, which = np.unique(
            [~t.class_.number if t.counted_status is RELEASING else t.class_.number for t in tasks],
            return_inverse=True,
        )
        weights = []
        for number in numbers.tolist():
            weight = self.weights(classes[number if number >= 0 else ~number])
            weights.append((weight.held if number >= 0 else weight.releasing) + weight.kube)
        # The amounts are whole numbers, so that the order of additions does not matter.
        for part, values in zip(self.amounts, np.stack(weights, axis=1), strict=True):
            if values.any():
                np.add(part, np.bincount(rows, values[which], minlength=len(part)), out=part)

    def touched_since(self, changes: int) -> NDArray[np.intp]:
        """The rows that changed after the change with this number."""
        return np.flatnonzero(self.stamps > changes)

    def sum_allocatable(self) -> Resources:
        return self.sum_of(self.allocatable)

    def sum_used(self) -> Resources:
        return self.sum_of(self.used)

    def sum_of(self, amounts: Floats) -> Resources:
        """The sum of each resource; resources other than cpu and memory are left out where it is 0."""
        return Resources.of(
            (name, total)
            for name, total in zip(self.columns, exact_sums(amounts), strict=True)
            if total or name in (CPU, MEMORY)
        )

"""Which nodes are feasible for a task, and why the others are not."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import PODS_COLUMN, NodeTable
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import FitErrors, Mask, Refusal, node_refusal, refusals_by_row
from pumice.core.model.memo import Memo
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.feasibility.terms import PodLimit
from pumice.core.session.policies import RowTerms, concerns

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session

_NOT_PREPARED = "the filters were not prepared for the pod"


class Feasibility:
    """Evaluates predicates in one session; masks are by row of the node table."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Uids of tasks with a nominated node for which the pre-predicates were evaluated.
        self._prepared: set[str] = set()
        # By class: its refusals, and the nodes where evictions could resolve all of them.
        self._resolvable: dict[int, tuple[list[tuple[str, list[Refusal]]], Mask]] = {}
        # By class: whether pod limits are its only row predicates.
        self._pods_only = Memo(self._has_pod_limits_only)

    def prepare(self, task: Task) -> None:
        """Records that the pre-predicates were evaluated for a task, or need not be."""
        if task.pod.nominated_node_name:
            self._prepared.add(task.uid)

    def why_not_anywhere(self, task: Task) -> str | None:
        """Evaluates the pre-predicates; a text says why no node can take the task."""
        self.prepare(task)
        if self._session.plain.is_class_plain(task.class_):
            return None
        problem = self._session.plain.why_not_bindable(task.class_.spec)
        if problem is not None:
            return problem
        for function in self._session.chains.flat("pre_predicate"):
            refusal: str | None = function(task)
            if refusal is not None:
                return refusal
        return None

    def allows(self, task: Task, view: ClassView) -> Mask:
        """Nodes on which all predicates pass; resources are not checked."""
        mask = view.open
        for refusals in self._dynamic(task).values():
            for refusal in refusals:
                mask = mask & ~refusal.rows
        return mask

    def is_static(self, task: Task) -> bool:
        """Whether the predicates for a task depend only on its class and the rows."""
        return self._session.plain.is_class_plain(task.class_) or not self._dynamic(task)

    def _dynamic(self, task: Task) -> dict[str, list[Refusal]]:
        """The refusals of task and node predicates, by plugin; without plugins that have none."""
        refusals: dict[str, list[Refusal]] = {}
        for name, function in self._session.chains.named("task_predicate"):
            found = function(task)
            if found is not None:
                refusals.setdefault(name, []).extend(found)
        for name, function in self._session.chains.named("node_predicate"):
            refusals.setdefault(name, []).extend(self._node_by_node(task, function))
        return refusals

    def _node_by_node(self, task: Task, function: Any) -> list[Refusal]:
        table = self._session.table
        rows: dict[tuple[str, bool], list[int]] = {}
        for row, node in enumerate(table.names):
            found = function(task, node)
            if found is None:
                continue
            # A text is an error of the plugin, which no eviction resolves.
            key = (str(found), True)
            if isinstance(found, Refusal):
                key = (found.reason, found.unresolvable)
            rows.setdefault(key, []).append(row)
        return refusals_by_row(rows, len(table))

    def refusals(self, task: Task, view: ClassView) -> list[list[Refusal]]:
        """All refusals by plugin, in the order of plugins."""
        dynamic = self._dynamic(task)
        all_rows = NodeRows(self._session.table)
        result = []
        static = view.class_refusals()
        for name in self._session.plugin_names:
            by_row = view.by_numpy.refusals(name, all_rows)
            of_plugin = [*by_row, *static.get(name, ()), *dynamic.get(name, ())]
            if of_plugin:
                result.append(of_plugin)
        return result

    def refused_by(
        self, task: Task, view: ClassView, row: int, *, nominated: bool = False
    ) -> list[Refusal] | str:
        """The refusals of one node by the first plugin that refuses it; empty: no plugin does.

        A text is an error of a plugin. For the ``nominated`` node, Volcano calls its filters even if
        this session has not prepared them for the task. Then they fail, which counts as a refusal
        that an eviction may resolve.
        """
        prepared = not nominated or task.uid in self._prepared
        pre_predicates = dict(self._session.chains.named("pre_predicate"))
        rows = NodeRows(self._session.table, np.array([row], dtype=np.intp))
        static = view.class_refusals()
        for name, by_task, by_node in self._predicates:
            refusals = [r for r in view.by_numpy.refusals(name, rows) if r.rows[0]]
            refusals += [r for r in static.get(name, ()) if r.rows[row]]
            if by_task is not None and (prepared or name not in pre_predicates):
                refusals += [r for r in by_task(task) or () if r.rows[row]]
            elif by_task is not None and not refusals:
                refusals.append(node_refusal(_NOT_PREPARED, unresolvable=False))
            if by_node is not None:
                found = by_node(task, self._session.table.names[row])
                if isinstance(found, Refusal):
                    refusals.append(found)
                elif found is not None and not refusals:
                    return str(found)
            if refusals:
                return refusals
        return []

    def is_refused(self, task: Task, view: ClassView, row: int) -> bool:
        """Whether one node refuses the task, or a plugin returns an error for it."""
        if len(self._predicates) == 1 and self._pods_only[view.class_] and self.is_static(task):
            table = self._session.table
            full = table.allocatable.item(PODS_COLUMN, row) <= table.kube_pods.item(row)
            return full or not view.static_ok.item(row)
        return bool(self.refused_by(task, view, row))

    def _has_pod_limits_only(self, class_: TaskClass) -> bool:
        """Whether pod limits, which evictions can resolve, are the only row predicates."""
        flat = self._session.chains.flat("row_predicate")
        rules = [rule for rule in flat if concerns(rule, class_)]
        return bool(rules) and all(
            isinstance(rule, RowTerms) and isinstance(rule.term(class_), PodLimit) for rule in rules
        )

    @cached_property
    def _predicates(self) -> list[tuple[str, Any, Any]]:
        """The plugins that filter, in order, with their task and node predicates."""
        points = ("class_predicate", "row_predicate", "task_predicate", "node_predicate")
        by_class, by_row, by_task, by_node = (
            dict(self._session.chains.named(point)) for point in points
        )
        return [
            (name, by_task.get(name), by_node.get(name))
            for name in self._session.plugin_names
            if name in {*by_class, *by_row, *by_task, *by_node}
        ]

    def resolvable_by_eviction(self, task: Task, view: ClassView) -> Mask:
        """Nodes without unresolvable refusals."""
        if len(self._predicates) == 1 and self.is_static(task):
            return self._resolvable_of_class(view)
        failed = np.zeros(len(self._session.table), dtype=np.bool_)
        unresolvable = failed.copy()
        for refusals in self.refusals(task, view):
            failed_now = failed.copy()
            for refusal in refusals:
                if refusal.unresolvable:
                    # Plugins after the first that fails are not called for that node.
                    unresolvable |= refusal.rows & ~failed
                failed_now |= refusal.rows
            failed = failed_now
        return ~unresolvable

    def _resolvable_of_class(self, view: ClassView) -> Mask:
        """The same if only one plugin filters, and only by class and row."""
        name = self._predicates[0][0]
        known = self._resolvable.get(view.class_.number)
        if known is None or known[0] is not view.static:
            resolvable = np.ones(len(self._session.table), dtype=np.bool_)
            for refusal in dict(view.static).get(name, ()):
                if refusal.unresolvable:
                    resolvable &= ~refusal.rows
            resolvable.setflags(write=False)
            known = self._resolvable[view.class_.number] = (view.static, resolvable)
        resolvable = known[1]
        if self._pods_only[view.class_]:
            return resolvable
        for refusal in view.by_numpy.refusals(name, NodeRows(self._session.table)):
            if refusal.unresolvable:
                resolvable = resolvable & ~refusal.rows
        return resolvable

    def fit_errors(self, task: Task, view: ClassView, within: Mask | None = None) -> FitErrors:
        """Why no node is feasible: the first insufficient resource of each node, or its refusals."""
        if within is None and self.is_static(task):
            return self.class_errors(task, view)
        return self._fit_errors(task, view, within)

    def class_errors(self, task: Task, view: ClassView) -> FitErrors:
        """The same for any task of a class whose predicates only depend on class and row."""
        return view.fit_errors(lambda: self._fit_errors(task, view, None))

    def _fit_errors(self, task: Task, view: ClassView, within: Mask | None) -> FitErrors:
        table = self._session.table
        counts: dict[str, int] = {}
        nodes = np.ones(len(table), dtype=np.bool_) if within is None else within
        short = _first_short(table, view)
        outside = self._session.shard.refused
        if outside is not None:
            # Volcano checks the shard before resources.
            short = np.where(outside, -1, short)
        for position, count in zip(
            *np.unique(short[nodes & (short >= 0)], return_counts=True), strict=True
        ):
            counts[self._insufficient(view.need_names[position])] = int(count)
        unresolvable = self._count_refusals(task, view, nodes & (short < 0), counts)
        return FitErrors(int(nodes.sum()), tuple(counts.items()), unresolvable)

    def _insufficient(self, resource: str) -> str:
        text = f"Insufficient {resource}"
        if not len(self._session.cache.devices.classes) or resource in self._session.table.columns:
            return text
        class_ = self._session.cache.devices.extended.class_behind(resource)
        return f"{text}: no node has devices of class {class_}" if class_ else text

    def predicate_errors(self, task: Task, view: ClassView) -> FitErrors:
        """Why the predicates pass on no node; resources are not checked."""
        counts: dict[str, int] = {}
        nodes = np.ones(len(self._session.table), dtype=np.bool_)
        unresolvable = self._count_refusals(task, view, nodes, counts)
        return FitErrors(len(nodes), tuple(counts.items()), unresolvable)

    def _count_refusals(
        self, task: Task, view: ClassView, nodes: Mask, counts: dict[str, int]
    ) -> Mask | None:
        """Counts reasons as if the nodes were checked one after the other.

        A node has no further reason after an unresolvable one, and plugins after the first one that
        refuses it are not called.
        """
        unresolvable = np.zeros(len(nodes), dtype=np.bool_)
        remaining = nodes.copy()
        for refusals in self.refusals(task, view):
            of_plugin = remaining.copy()
            for refusal in refusals:
                rows = refusal.rows & of_plugin
                number = int(rows.sum())
                if not number:
                    continue
                counts[refusal.reason] = counts.get(refusal.reason, 0) + number
                remaining &= ~rows
                if refusal.unresolvable:
                    unresolvable |= rows
                    of_plugin &= ~rows
        return unresolvable if unresolvable.any() else None


def _first_short(table: NodeTable, view: ClassView) -> NDArray[np.intp]:
    """By row, the index of the first need that even future resources do not satisfy; -1: none."""
    result = np.full(len(table), -1, dtype=np.intp)
    for position, (column, need) in enumerate(view.needs):
        short = (table.future[column] < need) & (result < 0)
        result[short] = position
    return result

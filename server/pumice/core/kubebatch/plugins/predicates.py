"""predicates, as in kube-batch: the filters of its Kubernetes version, without volumes and spread.

The core does not know the conditions of nodes. Kubernetes adds a taint for each of them, so where
kube-batch checks a condition, the taint of that condition is checked, tolerated or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, PluginOptions
from pumice.core.kubebatch.plugins.affinity import RequiredAffinity
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import HostPort, PodSpec
from pumice.core.model.resources import PODS
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.session import Session

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_NO_NETWORK = "node.kubernetes.io/network-unavailable"
_PRESSURES = {
    "predicate.MemoryPressureEnable": ("node.kubernetes.io/memory-pressure", "memory pressure"),
    "predicate.DiskPressureEnable": ("node.kubernetes.io/disk-pressure", "disk pressure"),
    "predicate.PIDPressureEnable": ("node.kubernetes.io/pid-pressure", "pid pressure"),
}
_MEMORY = "predicate.MemoryPressureEnable"
_ANY_ADDRESS = "0.0.0.0"


class KubeBatchPredicatesPlugin:
    """Filters nodes; every refusal counts as one that no eviction can resolve."""

    name: ClassVar[str] = "predicates"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        dict.fromkeys(_PRESSURES, ArgumentType.BOOL)
    )

    def __init__(self, options: PluginOptions) -> None:
        self._pressures = [
            key for key in _PRESSURES if options.arguments.boolean(key, default=False)
        ]

    def open(self, session: Session) -> None:
        self._session = session
        self._labels = session.labels
        self._affinity = RequiredAffinity(session)
        hooks = session.hooks
        hooks.row_predicate[self.name] = self._pod_count
        hooks.class_predicate[self.name] = self._of_class
        hooks.task_predicate[self.name] = self._of_task

    def _pod_count(self, _class: TaskClass, rows: NodeRows) -> Iterable[Refusal]:
        column = rows.column(PODS)
        full = rows.kube_allocatable[column] <= rows.kube_pods
        return (_refused("node(s) pod number exceeded", full),)

    def _of_class(self, class_: TaskClass) -> Iterable[Refusal]:
        spec = class_.spec
        yield _refused("node(s) were not ready", self._tainted(_NOT_READY, _UNREACHABLE))
        yield _refused("node(s) had no network", self._tainted(_NO_NETWORK))
        yield _refused("node(s) were unschedulable", self._unschedulable())
        if spec.node_selector or spec.required_node_terms is not None:
            yield _refused("node(s) didn't match node selector", ~self._labels.admits(spec))
        repelled = self._labels.repels(spec.tolerations)
        yield _refused("node(s) had taints that the pod didn't tolerate", repelled)
        for key in self._pressures:
            taint, words = _PRESSURES[key]
            # A pod that requests memory passes on a node under memory pressure.
            if key != _MEMORY or _requests_nothing(spec):
                yield _refused(f"node(s) were under {words}", self._tainted(taint))

    def _tainted(self, *keys: str) -> Mask:
        codes, sets = self._labels.taint_sets()
        if not sets:
            return np.zeros(0, dtype=np.bool_)
        marked = [any(taint.key in keys for taint in taints) for taints in sets]
        return np.array(marked, dtype=np.bool_)[codes]

    def _unschedulable(self) -> Mask:
        """Whatever the pod tolerates: kube-batch checks this among the conditions, too."""
        rows = self._session.table.rows
        return np.array([bool(e.node and e.node.unschedulable) for e in rows], dtype=np.bool_)

    def _of_task(self, task: Task) -> Iterable[Refusal] | None:
        refusals = []
        if task.class_.spec.host_ports:
            taken = self._taken(task.class_.spec.host_ports)
            refusals.append(_refused("node(s) didn't have free ports", taken))
        apart = self._affinity.refused(task)
        if apart is not None:
            refusals.append(_refused("node(s) didn't satisfy pod affinity", apart))
        return refusals or None

    def _taken(self, wanted: tuple[HostPort, ...]) -> Mask:
        taken = np.zeros(len(self._session.table), dtype=np.bool_)
        for port in wanted:
            taken[self._session.cache.pods.rows_with_port(port)] = True
        return taken


def _refused(reason: str, rows: Mask) -> Refusal:
    return Refusal(reason, rows, unresolvable=True)


def _requests_nothing(spec: PodSpec) -> bool:
    return not any(amount for name, amount in spec.requests if name != PODS)

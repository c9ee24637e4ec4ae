"""predicates, as in kube-batch: the filters of its Kubernetes version, without volumes and spread.

The core does not know the conditions of nodes. Kubernetes adds a taint for each of them, so where
kube-batch checks a condition, the taint of that condition is checked, tolerated or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, PluginOptions, boolean
from pumice.core.kubebatch.plugins.affinity import required_refused
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.model.resources import PODS
from pumice.core.plugins.predicates.node_filters import port_refusal
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.session import Session

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_NO_NETWORK = "node.kubernetes.io/network-unavailable"
_MEMORY = "memory"
_PRESSURES = (_MEMORY, "disk", "pid")


class KubeBatchPredicatesArguments(Arguments):
    """The conditions of nodes that are checked."""

    memory = boolean(
        "predicate.MemoryPressureEnable",
        "refuses nodes under memory pressure to pods that ask for nothing",
        default=False,
    )
    disk = boolean(
        "predicate.DiskPressureEnable", "refuses nodes under disk pressure", default=False
    )
    processes = boolean(
        "predicate.PIDPressureEnable", "refuses nodes under pid pressure", default=False
    )


class KubeBatchPredicatesPlugin:
    """Filters nodes; every refusal counts as one that no eviction can resolve."""

    name: ClassVar[str] = "predicates"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = KubeBatchPredicatesArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = KubeBatchPredicatesArguments(options.arguments)
        switches = (arguments.memory, arguments.disk, arguments.processes)
        self._pressures = [name for name, on in zip(_PRESSURES, switches, strict=True) if on]

    def open(self, session: Session) -> None:
        self._session = session
        self._labels = session.labels
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
        # Whatever the pod tolerates: kube-batch checks this among the conditions, too.
        yield _refused("node(s) were unschedulable", self._labels.unschedulable())
        if spec.node_selector or spec.required_node_terms is not None:
            yield _refused("node(s) didn't match node selector", ~self._labels.admits(spec))
        repelled = self._labels.repels(spec.tolerations)
        yield _refused("node(s) had taints that the pod didn't tolerate", repelled)
        for name in self._pressures:
            # A pod that requests memory passes on a node under memory pressure.
            if name != _MEMORY or _requests_nothing(spec):
                tainted = self._tainted(f"node.kubernetes.io/{name}-pressure")
                yield _refused(f"node(s) were under {name} pressure", tainted)

    def _tainted(self, *keys: str) -> Mask:
        codes, sets = self._labels.taint_sets()
        if not sets:
            return np.zeros(0, dtype=np.bool_)
        marked = [any(taint.key in keys for taint in taints) for taints in sets]
        return np.array(marked, dtype=np.bool_)[codes]

    def _of_task(self, task: Task) -> Iterable[Refusal] | None:
        refusals = []
        if task.class_.spec.host_ports:
            taken = port_refusal(self._session, task.class_.spec.host_ports)
            refusals.append(_refused("node(s) didn't have free ports", taken.rows))
        apart = required_refused(self._session, task)
        if apart is not None:
            refusals.append(_refused("node(s) didn't satisfy pod affinity", apart))
        return refusals or None


def _refused(reason: str, rows: Mask) -> Refusal:
    return Refusal(reason, rows, unresolvable=True)


def _requests_nothing(spec: PodSpec) -> bool:
    return not any(amount for name, amount in spec.requests if name != PODS)

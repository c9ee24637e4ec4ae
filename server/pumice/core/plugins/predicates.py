"""predicates: where Kubernetes itself would let a pod run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, PluginOptions
from pumice.core.model.fit import Refusal
from pumice.core.model.pod import HostPort, PodSpec
from pumice.core.model.resources import PODS
from pumice.core.model.selectors import Taint, TaintEffect, Toleration
from pumice.core.session.hooks import EventHandler
from pumice.core.session.rows import NodeRows
from pumice.core.session.session import Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
_REPELLING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_ANY_IP = "0.0.0.0"

_SWITCHES = (
    "predicate.NodeAffinityEnable",
    "predicate.NodePortsEnable",
    "predicate.TaintTolerationEnable",
    "predicate.PodAffinityEnable",
    "predicate.NodeVolumeLimitsEnable",
    "predicate.VolumeZoneEnable",
    "predicate.PodTopologySpreadEnable",
    "predicate.VolumeBindingEnable",
)


class PredicatesPlugin:
    """Filters nodes by taints, affinity, ports and the number of pods."""

    name: ClassVar[str] = "predicates"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            **dict.fromkeys(_SWITCHES, ArgumentType.BOOL),
            "predicate.CacheEnable": ArgumentType.BOOL,
        }
    )

    def __init__(self, options: PluginOptions) -> None:
        self._on = {key: options.arguments.boolean(key, default=True) for key in _SWITCHES}

    def open(self, session: Session) -> None:
        self._session = session
        self._labels = session.labels
        hooks = session.hooks
        hooks.row_predicate[self.name] = self._pod_count
        hooks.class_predicate[self.name] = self._static
        hooks.task_predicate[self.name] = self._dynamic
        moves = session.moves
        hooks.handlers.append(EventHandler(moves.kube_add, moves.kube_remove))

    def _pod_count(self, _class: TaskClass, rows: NodeRows) -> Iterable[Refusal]:
        column = rows.column(PODS)
        full = rows.kube_allocatable[column] <= rows.kube_pods
        return (Refusal("node(s) pod number exceeded", full, unresolvable=False),)

    def _static(self, class_: TaskClass) -> Iterable[Refusal]:
        spec = class_.spec
        yield Refusal("node(s) were unschedulable", self._unschedulable(spec), unresolvable=True)
        if self._on["predicate.NodeAffinityEnable"] and wants_certain_nodes(spec):
            reason = "node(s) didn't match Pod's node affinity/selector"
            yield Refusal(reason, ~matching_nodes(self._labels, spec), unresolvable=True)
        if self._on["predicate.TaintTolerationEnable"]:
            reason = "node(s) had untolerated taint(s)"
            yield Refusal(reason, repelled(self._labels, spec), unresolvable=True)

    def _unschedulable(self, spec: PodSpec) -> np.ndarray:
        rows = self._session.table.rows
        if any(t.tolerates(_UNSCHEDULABLE_TAINT) for t in spec.tolerations):
            return np.zeros(len(rows), dtype=np.bool_)
        return np.array([bool(e.node and e.node.unschedulable) for e in rows], dtype=np.bool_)

    def _dynamic(self, task: Task) -> Iterable[Refusal] | None:
        ports = task.class_.spec.host_ports
        if not ports or not self._on["predicate.NodePortsEnable"]:
            return None
        reason = "node(s) didn't have free ports for the requested pod ports"
        return (Refusal(reason, self._port_conflicts(ports), unresolvable=False),)

    def _port_conflicts(self, wanted: tuple[HostPort, ...]) -> np.ndarray:
        session = self._session
        conflicts = np.zeros(len(session.table), dtype=np.bool_)
        for row, entry in enumerate(session.table.rows):
            for task in entry.tasks.values():
                used = task.class_.spec.host_ports
                if used and session.moves.kube_sees(task) and _collide(wanted, used):
                    conflicts[row] = True
                    break
        return conflicts


def wants_certain_nodes(spec: PodSpec) -> bool:
    return bool(spec.node_selector) or spec.required_node_terms is not None


def matching_nodes(labels: NodeLabels, spec: PodSpec) -> np.ndarray:
    mask = labels.matches_pairs(spec.node_selector)
    if spec.required_node_terms is not None:
        mask &= labels.matches_any(spec.required_node_terms)
    return mask


def repelled(labels: NodeLabels, spec: PodSpec) -> np.ndarray:
    codes, sets = labels.taint_sets()
    refused = [not _tolerates_all(spec.tolerations, taints) for taints in sets]
    return np.array(refused, dtype=np.bool_)[codes] if sets else np.zeros(0, dtype=np.bool_)


def _tolerates_all(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> bool:
    return all(
        taint.effect not in _REPELLING or any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )


def _collide(wanted: tuple[HostPort, ...], used: tuple[HostPort, ...]) -> bool:
    return any(
        mine.port == other.port
        and mine.protocol == other.protocol
        and (mine.ip == other.ip or _ANY_IP in (mine.ip, other.ip))
        for mine in wanted
        for other in used
    )

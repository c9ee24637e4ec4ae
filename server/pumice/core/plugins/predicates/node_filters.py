"""Filters whose answers change only with a node: unschedulable, node affinity, taints."""

from __future__ import annotations

from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.plugins.predicates.node_affinity import (
    affinity_refusal,
    wants_certain_nodes,
    why_not_anywhere,
)
from pumice.core.plugins.predicates.taints import taint_refusal, unschedulable_refusal
from pumice.core.session.session import Session


class NodeFilters:
    """One refusal a filter; no eviction changes any of them."""

    def __init__(self, session: Session, *, affinity: bool, taints: bool) -> None:
        self._session = session
        self._affinity = affinity
        self._taints = taints

    def refusals(self, class_: TaskClass) -> list[Refusal]:
        session, spec = self._session, class_.spec
        refusals = [unschedulable_refusal(session, spec)]
        if self._affinity and wants_certain_nodes(spec):
            refusals.append(affinity_refusal(session, spec))
        if self._taints:
            refusals.append(taint_refusal(session, spec))
        return refusals

    def why_not_anywhere(self, spec: PodSpec) -> str | None:
        return why_not_anywhere(spec) if self._affinity else None

"""Default spread constraints: the selectors of a pod's Services and of its controller."""

from __future__ import annotations

from pumice.core.cache.selector_index import SelectorIndex
from pumice.core.cache.store import ObjectStore
from pumice.core.model.group import Workload
from pumice.core.model.pod import Pod
from pumice.core.model.selectors import LabelSelector, Requirement

_SERVICE = "Service"
_CONTROLLERS = ("ReplicationController", "ReplicaSet", "StatefulSet")


class WorkloadSelectors:
    """Finds the selectors for a pod; updated when the workloads change."""

    def __init__(self, workloads: ObjectStore[Workload]) -> None:
        self._workloads = workloads
        self._services: dict[str, SelectorIndex[LabelSelector]] = {}
        self._version = -1

    def __bool__(self) -> bool:
        return len(self._workloads) > 0

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """The requirements of the pod's Services and its controller; None where there are none."""
        self._refresh()
        requirements: dict[Requirement, None] = {}
        index = self._services.get(pod.namespace)
        for selector in index.find(pod.labels) if index is not None else ():
            requirements.update(dict.fromkeys(selector.requirements))
        if pod.controller_kind in _CONTROLLERS:
            key = f"{pod.controller_kind}/{pod.namespace}/{pod.controller_name}"
            controller = self._workloads.get(key)
            if controller is not None and controller.selector is not None:
                requirements.update(dict.fromkeys(controller.selector.requirements))
        if not requirements:
            return None
        # In one order, so that equal demands are one question.
        return LabelSelector(
            tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values)))
        )

    def forget_outdated(self) -> None:
        """Drops what was found out about workloads that have changed since."""
        if self._version != self._workloads.version:
            self._services, self._version = {}, -1

    def _refresh(self) -> None:
        if self._version == self._workloads.version:
            return
        self._version = self._workloads.version
        self._services = {}
        for workload in self._workloads:
            if workload.kind == _SERVICE and workload.selector is not None:
                index = self._services.setdefault(workload.namespace, SelectorIndex())
                index.add(workload.selector, workload.selector)

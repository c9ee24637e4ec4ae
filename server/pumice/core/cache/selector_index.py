"""An index of label selectors by the labels that they match, and the selectors of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from pumice.core.cache.store import ObjectStore
from pumice.core.model.group import Workload
from pumice.core.model.memo import Versioned
from pumice.core.model.pod import Pod
from pumice.core.model.selectors import LabelSelector, Operator, Requirement

T = TypeVar("T")

# The requirements that are still to be checked when an entry is found, and the item.
_Entry = tuple[LabelSelector | None, T]


class SelectorIndex(Generic[T]):
    """Finds the items whose selector matches given labels, without evaluating every selector.

    Most selectors require that a label has one of some values. They are stored under these values.
    All others are evaluated each time. The result has no particular order.
    """

    def __init__(self) -> None:
        # By label and value.
        self._by_label: dict[tuple[str, str], list[_Entry[T]]] = {}
        self._others: list[_Entry[T]] = []

    def add(self, selector: LabelSelector | None, item: T) -> None:
        """Adds an item with its selector; an absent selector selects nothing."""
        if selector is None:
            return
        demand = demanded(selector)
        if demand is None:
            self._others.append((selector, item))
            return
        rest = tuple(r for r in selector.requirements if r is not demand)
        entry = (LabelSelector(rest) if rest else None, item)
        for value in dict.fromkeys(demand.values):
            self._by_label.setdefault((demand.key, value), []).append(entry)

    def finds_none(self, labels: Mapping[str, str]) -> bool:
        """Whether no selector can match the labels, as is the case for most pods."""
        return not self._others and self._by_label.keys().isdisjoint(labels.items())

    def find(self, labels: Mapping[str, str]) -> list[T]:
        if self.finds_none(labels):
            return []
        matching = [item for rest, item in self._others if rest is None or rest.matches(labels)]
        for label in labels.items():
            entries = self._by_label.get(label, ())
            matching += [item for rest, item in entries if rest is None or rest.matches(labels)]
        return matching


def demanded(selector: LabelSelector) -> Requirement | None:
    """The first requirement that lists the allowed values of a label; None: there is none."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return requirement
    return None


_SERVICE = "Service"
_CONTROLLERS = ("ReplicationController", "ReplicaSet", "StatefulSet")


class WorkloadSelectors:
    """Finds the selectors of the Services and the controller of a pod."""

    def __init__(self, workloads: ObjectStore[Workload]) -> None:
        self._workloads = workloads
        # The selectors of Services, by namespace.
        self._services = Versioned(lambda: workloads.version, lambda: _by_namespace(workloads))

    def __bool__(self) -> bool:
        return len(self._workloads) > 0

    def selector_for(self, pod: Pod) -> LabelSelector | None:
        """The requirements of the pod's Services and its controller together; None: there are none."""
        requirements: dict[Requirement, None] = {}
        index = self._services.get().get(pod.namespace)
        if pod.controller_kind not in _CONTROLLERS and (
            index is None or index.finds_none(pod.labels)
        ):
            return None
        for selector in index.find(pod.labels) if index is not None else ():
            requirements.update(dict.fromkeys(selector.requirements))
        if pod.controller_kind in _CONTROLLERS:
            key = f"{pod.controller_kind}/{pod.namespace}/{pod.controller_name}"
            controller = self._workloads.get(key)
            if controller is not None and controller.selector is not None:
                requirements.update(dict.fromkeys(controller.selector.requirements))
        if not requirements:
            return None
        # Sorted, so that equal sets of requirements give equal selectors.
        return LabelSelector(
            tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values)))
        )

    def forget_outdated(self) -> None:
        """Forgets the index of workloads that have changed since."""
        self._services.forget_outdated()


def _by_namespace(workloads: Iterable[Workload]) -> dict[str, SelectorIndex[LabelSelector]]:
    services: dict[str, SelectorIndex[LabelSelector]] = {}
    for workload in workloads:
        if workload.kind == _SERVICE and workload.selector is not None:
            index = services.setdefault(workload.namespace, SelectorIndex())
            index.add(workload.selector, workload.selector)
    return services

"""PodDisruptionBudgets, and the workloads and Services that default spreading uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pumice.manifests.selectors import LabelSelectorShape, equalities, label_selector
from pumice.manifests.shapes import Int32, Metadata, Shape
from pumice.v1 import group_pb2, selector_pb2


class BudgetSpecShape(Shape, frozen=True):
    """The specification of a PodDisruptionBudget."""

    selector: LabelSelectorShape | None = None
    min_available: Int32 | str = 0


class BudgetStatusShape(Shape, frozen=True):
    """The status of a PodDisruptionBudget."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = msgspec.field(default_factory=dict)


class BudgetShape(Shape, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Metadata = Metadata()
    spec: BudgetSpecShape = BudgetSpecShape()
    status: BudgetStatusShape = BudgetStatusShape()


class LabelsSpecShape(Shape, frozen=True):
    """A selector of labels."""

    selector: dict[str, str] = msgspec.field(default_factory=dict)


class ByLabelsShape(Shape, frozen=True):
    """A Service or ReplicationController."""

    metadata: Metadata = Metadata()
    spec: LabelsSpecShape = LabelsSpecShape()


class SelectorSpecShape(Shape, frozen=True):
    """A selector with expressions."""

    selector: LabelSelectorShape | None = None


class BySelectorShape(Shape, frozen=True):
    """A ReplicaSet or StatefulSet."""

    metadata: Metadata = Metadata()
    spec: SelectorSpecShape = SelectorSpecShape()


BUDGET_DECODER: Final = msgspec.json.Decoder(BudgetShape)
BY_LABELS_DECODER: Final = msgspec.json.Decoder(ByLabelsShape)
BY_SELECTOR_DECODER: Final = msgspec.json.Decoder(BySelectorShape)


def fill_budget(budget: group_pb2.PodDisruptionBudget, shape: BudgetShape) -> None:
    metadata, spec, status = shape.metadata, shape.spec, shape.status
    budget.name = metadata.need_name()
    budget.namespace = metadata.namespace_or_default
    budget.uid = metadata.uid_of("PodDisruptionBudget")
    metadata.fill_creation_time(budget.creation_time)
    budget.controller_uid = metadata.controller_uid
    if spec.selector is not None:
        budget.selector.CopyFrom(label_selector(spec.selector, "spec.selector"))
    if isinstance(spec.min_available, int):
        budget.min_available = spec.min_available
    budget.disruptions_allowed = status.disruptions_allowed
    budget.disrupted_pods.extend(sorted(status.disrupted_pods))


def fill_by_labels(kind: str) -> Callable[[group_pb2.Workload, ByLabelsShape], None]:
    """A fill function for workloads with a label map; an empty map selects nothing."""

    def fill(workload: group_pb2.Workload, shape: ByLabelsShape) -> None:
        _fill_identity(workload, shape.metadata, kind)
        if shape.spec.selector:
            workload.selector.CopyFrom(
                selector_pb2.LabelSelector(requirements=equalities(shape.spec.selector))
            )

    return fill


def fill_by_selector(kind: str) -> Callable[[group_pb2.Workload, BySelectorShape], None]:
    """A fill function for workloads with a label selector."""

    def fill(workload: group_pb2.Workload, shape: BySelectorShape) -> None:
        _fill_identity(workload, shape.metadata, kind)
        if shape.spec.selector is not None:
            workload.selector.CopyFrom(label_selector(shape.spec.selector, "spec.selector"))

    return fill


def _fill_identity(workload: group_pb2.Workload, metadata: Metadata, kind: str) -> None:
    workload.name = metadata.need_name()
    workload.namespace = metadata.namespace_or_default
    workload.uid = metadata.uid_of(kind)

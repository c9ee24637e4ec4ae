"""Node affinity, pod affinity and topology spread of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from pumice.manifests.errors import FieldError
from pumice.manifests.selectors import (
    LabelSelectorShape,
    NodeSelectorShape,
    NodeSelectorTermShape,
    label_selector,
    node_selector,
    node_term,
)
from pumice.manifests.shapes import Count, Int32, Shape, decode_part, one_of
from pumice.v1 import pod_pb2, selector_pb2

# Part of matchLabelKeys and mismatchLabelKeys: with them, the meaning depends on the pod's labels.
LABEL_KEYS_SUFFIX: Final = b"atchLabelKeys"

_WHEN_UNSATISFIABLE: Final = {"DoNotSchedule": True, "ScheduleAnyway": False}
_POLICIES: Final = {"Honor": True, "Ignore": False}


class PreferredNodeTermShape(Shape, frozen=True):
    """A preference for nodes."""

    weight: Int32 = 0
    preference: NodeSelectorTermShape = NodeSelectorTermShape()


class NodeAffinityShape(Shape, frozen=True):
    """Required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelectorShape | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTermShape, ...] = ()


class PodAffinityTermShape(Shape, frozen=True):
    """A term of a pod affinity or anti-affinity."""

    topology_key: str = ""
    label_selector: LabelSelectorShape | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelectorShape | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTermShape(Shape, frozen=True):
    """A preferred term of a pod affinity, with its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTermShape = PodAffinityTermShape()


class PodAffinityShape(Shape, frozen=True):
    """Required and preferred terms of a pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTermShape, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[
        WeightedPodAffinityTermShape, ...
    ] = ()


class AffinityShape(Shape, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity of a pod."""

    node_affinity: NodeAffinityShape | None = None
    pod_affinity: PodAffinityShape | None = None
    pod_anti_affinity: PodAffinityShape | None = None


class SpreadConstraintShape(Shape, frozen=True):
    """A topology spread constraint."""

    topology_key: str = ""
    max_skew: Int32 = 0
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorShape | None = None
    min_domains: Count | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


_AFFINITY: Final = msgspec.json.Decoder(AffinityShape)
_SPREAD: Final = msgspec.json.Decoder(tuple[SpreadConstraintShape, ...])

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def fill_affinity(spec: pod_pb2.PodSpec, raw: Raw, labels: Mapping[str, str]) -> None:
    shape = decode_part(_AFFINITY, raw, "spec.affinity", AffinityShape())
    if shape.node_affinity is not None:
        _fill_node_affinity(spec, shape.node_affinity)
    if shape.pod_affinity is not None:
        terms = _PodTerms(shape.pod_affinity, "spec.affinity.podAffinity", labels)
        spec.required_affinity.extend(terms.required())
        spec.preferred_affinity.extend(terms.preferred())
    if shape.pod_anti_affinity is not None:
        terms = _PodTerms(shape.pod_anti_affinity, "spec.affinity.podAntiAffinity", labels)
        spec.required_anti_affinity.extend(terms.required())
        spec.preferred_anti_affinity.extend(terms.preferred())


def _fill_node_affinity(spec: pod_pb2.PodSpec, shape: NodeAffinityShape) -> None:
    field = "spec.affinity.nodeAffinity"
    required = shape.required_during_scheduling_ignored_during_execution
    if required is not None:
        # An affinity without terms excludes every node, so it differs from an absent one.
        spec.required_node_terms.SetInParent()
        spec.required_node_terms.MergeFrom(node_selector(required, f"{field}.{_REQUIRED}"))
    preferred = shape.preferred_during_scheduling_ignored_during_execution
    for index, preference in enumerate(preferred):
        term = node_term(preference.preference, f"{field}.{_PREFERRED}[{index}].preference")
        spec.preferred_node_terms.add(weight=preference.weight, term=term)


class _PodTerms:
    """Translates the terms of one pod affinity or anti-affinity, with the pod's label values."""

    def __init__(self, shape: PodAffinityShape, field: str, labels: Mapping[str, str]) -> None:
        self._shape = shape
        self._field = field
        self._labels = labels

    def required(self) -> list[pod_pb2.PodAffinityTerm]:
        shapes = self._shape.required_during_scheduling_ignored_during_execution
        return [
            self._term(shape, f"{self._field}.{_REQUIRED}[{index}]")
            for index, shape in enumerate(shapes)
        ]

    def preferred(self) -> list[pod_pb2.WeightedPodAffinityTerm]:
        shapes = self._shape.preferred_during_scheduling_ignored_during_execution
        return [
            pod_pb2.WeightedPodAffinityTerm(
                weight=shape.weight,
                term=self._term(
                    shape.pod_affinity_term, f"{self._field}.{_PREFERRED}[{index}].podAffinityTerm"
                ),
            )
            for index, shape in enumerate(shapes)
        ]

    def _term(self, shape: PodAffinityTermShape, field: str) -> pod_pb2.PodAffinityTerm:
        _need_topology_key(shape.topology_key, field)
        term = pod_pb2.PodAffinityTerm(topology_key=shape.topology_key, namespaces=shape.namespaces)
        if shape.label_selector is not None:
            selector = label_selector(shape.label_selector, f"{field}.labelSelector")
            _add_own_labels(
                selector, shape.match_label_keys, selector_pb2.OPERATOR_IN, self._labels
            )
            _add_own_labels(
                selector, shape.mismatch_label_keys, selector_pb2.OPERATOR_NOT_IN, self._labels
            )
            term.selector.CopyFrom(selector)
        if shape.namespace_selector is not None:
            term.namespace_selector.CopyFrom(
                label_selector(shape.namespace_selector, f"{field}.namespaceSelector")
            )
        return term


def _need_topology_key(key: str, field: str) -> None:
    if not key:
        raise FieldError(f"{field}.topologyKey", "is missing", "a label of nodes")


def _add_own_labels(
    selector: selector_pb2.LabelSelector,
    keys: Iterable[str],
    operator: selector_pb2.Operator.ValueType,
    labels: Mapping[str, str],
) -> None:
    """Adds requirements with the pod's values of some labels, without labels that the pod lacks."""
    for key in keys:
        if key not in labels:
            continue
        wanted = selector_pb2.Requirement(key=key, operator=operator, values=[labels[key]])
        # Newer API servers have added it already.
        if wanted not in selector.requirements:
            selector.requirements.append(wanted)


def fill_spread(spec: pod_pb2.PodSpec, raw: Raw, labels: Mapping[str, str]) -> None:
    shapes = decode_part(_SPREAD, raw, "spec.topologySpreadConstraints", ())
    for index, shape in enumerate(shapes):
        spec.spread_constraints.append(
            _constraint(shape, f"spec.topologySpreadConstraints[{index}]", labels)
        )


def _constraint(
    shape: SpreadConstraintShape, field: str, labels: Mapping[str, str]
) -> pod_pb2.SpreadConstraint:
    _need_topology_key(shape.topology_key, field)
    if shape.max_skew < 1:
        raise FieldError(f"{field}.maxSkew", f"{shape.max_skew} given", "1 or more")
    constraint = pod_pb2.SpreadConstraint(
        topology_key=shape.topology_key,
        max_skew=shape.max_skew,
        required=one_of(
            _WHEN_UNSATISFIABLE, shape.when_unsatisfiable, f"{field}.whenUnsatisfiable"
        ),
        honor_node_affinity=one_of(
            _POLICIES, shape.node_affinity_policy, f"{field}.nodeAffinityPolicy"
        ),
        honor_node_taints=one_of(_POLICIES, shape.node_taints_policy, f"{field}.nodeTaintsPolicy"),
        min_domains=1 if shape.min_domains is None else shape.min_domains,
    )
    if shape.label_selector is not None:
        selector = label_selector(shape.label_selector, f"{field}.labelSelector")
        _add_own_labels(selector, shape.match_label_keys, selector_pb2.OPERATOR_IN, labels)
        constraint.selector.CopyFrom(selector)
    return constraint

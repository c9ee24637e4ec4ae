"""Reconciles the node count of a HyperNode, or all HyperNodes that one source of discovery creates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from pumice.controllers.hypernode.discovery import (
    DiscoveryError,
    enabled_sources,
    labelled_hyper_nodes,
    labels_by_type,
)
from pumice.controllers.hypernode.types import LABEL_SOURCE, UFM_SOURCE, HyperNode
from pumice.controllers.resources import HYPER_NODES
from pumice.controllers.runtime.acts import (
    NOTHING,
    Act,
    Create,
    Delete,
    Emit,
    Patch,
    Plan,
    Reference,
)
from pumice.controllers.runtime.objects import Manifest

_SOURCES: Final = (LABEL_SOURCE, UFM_SOURCE)


@dataclass(frozen=True, slots=True)
class NodeCount:
    """A HyperNode, and the number of its nodes."""

    hyper_node: HyperNode
    count: int


@dataclass(frozen=True, slots=True)
class LabelDiscovery:
    """The text of the configuration, the labels of nodes, and the HyperNodes created from them."""

    text: str
    nodes: Mapping[str, Mapping[str, str]]
    existing: Mapping[str, HyperNode]
    # The ConfigMap, if its text is new.
    about: Reference | None = None


@dataclass(frozen=True, slots=True)
class UfmDiscovery:
    """The HyperNodes that follow from UFM's last answer, and those that were created from UFM."""

    # None: there was no valid answer yet, so nothing changes.
    desired: Mapping[str, Manifest] | None
    existing: Mapping[str, HyperNode]
    # The ConfigMap and the problem of its source, if the problem is new.
    about: Reference | None = None
    problem: str = ""


Observed: TypeAlias = NodeCount | LabelDiscovery | UfmDiscovery


def reconcile(observed: Observed) -> Plan:
    match observed:
        case NodeCount():
            return _reconcile_count(observed)
        case LabelDiscovery():
            return _reconcile_labels(observed)
        case UfmDiscovery():
            return _reconcile_ufm(observed)


def _reconcile_count(observed: NodeCount) -> Plan:
    metadata = observed.hyper_node.metadata
    if metadata.is_terminating or observed.hyper_node.status.node_count == observed.count:
        return NOTHING
    return Plan.of([Patch.of_status(HYPER_NODES, metadata, {"nodeCount": observed.count})])


def _reconcile_labels(observed: LabelDiscovery) -> Plan:
    """An invalid configuration, or one without the source, leaves the HyperNodes unchanged."""
    about = observed.about
    try:
        sources = enabled_sources(observed.text)
        labels = labels_by_type(sources)
    except DiscoveryError as error:
        if about is None:
            return NOTHING
        return Plan.of([Emit(about, "DiscoveryFailed", str(error), warning=True)])
    acts: list[Act] = []
    if about is not None:
        acts += _unsupported(sources, about)
    if labels is not None:
        acts += _corrections(labelled_hyper_nodes(labels, observed.nodes), observed.existing)
    return Plan.of(acts)


def _unsupported(sources: Mapping[str, Manifest], about: Reference) -> Iterator[Emit]:
    """An event for each source that has no effect."""
    allowed = ", ".join(_SOURCES)
    for name in sorted(sources.keys() - set(_SOURCES)):
        text = f"networkTopologyDiscovery: source {name!r} is not supported; allowed: {allowed}"
        yield Emit(about, "UnsupportedSource", text, warning=True)


def _reconcile_ufm(observed: UfmDiscovery) -> Plan:
    """An answer without HyperNodes is a fault of UFM, and leaves the HyperNodes unchanged."""
    acts: list[Act] = []
    if observed.about is not None:
        acts.append(Emit(observed.about, "DiscoveryFailed", observed.problem, warning=True))
    if observed.desired:
        acts += _corrections(observed.desired, observed.existing)
    return Plan.of(acts)


def _corrections(
    desired: Mapping[str, Manifest], existing: Mapping[str, HyperNode]
) -> Iterator[Act]:
    """Creates missing HyperNodes, patches those that differ, and deletes all others of the source."""
    for name, body in sorted(desired.items()):
        current = existing.get(name)
        if current is None:
            yield Create(HYPER_NODES, body)
        elif _differs(current, body):
            patch = {"metadata": {"labels": body["metadata"]["labels"]}, "spec": body["spec"]}
            yield Patch.of(HYPER_NODES, current.metadata, patch)
    for name, current in sorted(existing.items()):
        if name not in desired and not current.metadata.is_terminating:
            yield Delete.of(HYPER_NODES, current.metadata)


def _differs(current: HyperNode, body: Manifest) -> bool:
    labels = current.metadata.labels or {}
    if any(labels.get(key) != text for key, text in body["metadata"]["labels"].items()):
        return True
    spec = msgspec.to_builtins(current.spec)
    return any(spec.get(name) != value for name, value in body["spec"].items())

"""Counts the nodes of HyperNodes, and creates HyperNodes from labels of nodes and from UFM."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock
from pumice.controllers.hypernode.counting import NodeCounter
from pumice.controllers.hypernode.discovery import (
    DiscoveryError,
    topologies,
    unsupported,
    wanted,
)
from pumice.controllers.hypernode.types import (
    LABEL_SOURCE,
    SOURCE,
    UFM_SOURCE,
    ControllerConfiguration,
    HyperNode,
)
from pumice.controllers.hypernode.ufm import ufm_settings
from pumice.controllers.hypernode.ufm_poller import UfmPoller
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS, HYPER_NODES, NODES
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
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.objects import Manifest, Watched
from pumice.controllers.runtime.watches import Change, Watch

log = logging.getLogger(__name__)

_RELEASE: Final = os.environ.get("HELM_RELEASE_NAME") or "volcano"
_NAMESPACE: Final = os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system"
_CONFIG_MAP: Final = f"{_RELEASE}-controller-configmap"
_FILE: Final = "volcano-controller.conf"
# How long changes of nodes may wait to be counted together.
_NODES_DELAY_SECONDS: Final = 0.2
_SOURCES: Final = f"{LABEL_SOURCE}, {UFM_SOURCE}"
# The keys of discovery; all others are names of HyperNodes, without a namespace.
_DISCOVERY: Final[Key] = ("discovery", LABEL_SOURCE)
_UFM: Final[Key] = ("discovery", UFM_SOURCE)

WATCHED_HYPER_NODES: Final = Watch(HYPER_NODES, HyperNode)
WATCHED_NODES: Final = Watch(NODES, Watched, metadata_only=True)
WATCHED_CONFIGURATION: Final = Watch(
    CONFIG_MAPS, ControllerConfiguration, field_selector=f"metadata.name={_CONFIG_MAP}"
)


@dataclass(frozen=True, slots=True)
class Counted:
    """A HyperNode and the number of its nodes."""

    hyper_node: HyperNode
    count: int


@dataclass(frozen=True, slots=True)
class Discovery:
    """The text of the configuration, labels of nodes, and HyperNodes that were made from labels."""

    text: str
    nodes: Mapping[str, Mapping[str, str]]
    made: Mapping[str, HyperNode]
    # The ConfigMap, if its text is new.
    about: Reference | None = None


@dataclass(frozen=True, slots=True)
class UfmDiscovery:
    """The HyperNodes that UFM's last answer leads to, those that were made, and what is wrong."""

    # None: there was no usable answer yet, so nothing changes.
    found: Mapping[str, Manifest] | None
    made: Mapping[str, HyperNode]
    # The ConfigMap and what is wrong with its source, if the problem is new.
    about: Reference | None = None
    problem: str = ""


Seen: TypeAlias = Counted | Discovery | UfmDiscovery


class HyperNodeController:
    """Reconciles the count of each HyperNode, and all that follow from labels together."""

    name = "hyperNode-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_HYPER_NODES, WATCHED_NODES, WATCHED_CONFIGURATION)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options
        self._counter = NodeCounter({}, {})
        # The text that was read last.
        self._text = ""
        self._ufm = UfmPoller()
        # What was wrong with the source when it was looked at last.
        self._problem = ""

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_CONFIGURATION:
            return (_DISCOVERY, _UFM)
        everything = [one.metadata.key for one in caches[WATCHED_HYPER_NODES]]
        if change.watch == WATCHED_NODES:
            is_same = (
                change.old is not None
                and change.new is not None
                and change.old.metadata.labels == change.new.metadata.labels
            )
            return () if is_same else (*everything, _DISCOVERY)
        is_same = (
            change.old is not None and change.new is not None and change.old.spec == change.new.spec
        )
        # Those above it count its nodes.
        return (change.seen.metadata.key,) if is_same else (*everything, _DISCOVERY, _UFM)

    def delay_seconds(self, change: Change[Any]) -> float:
        """Nodes change one after the other, and each look goes over all of them."""
        return _NODES_DELAY_SECONDS if change.watch == WATCHED_NODES else 0.0

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        if key == _UFM:
            return self._look_at_ufm(caches)
        nodes = {one.metadata.name: one.metadata.labels or {} for one in caches[WATCHED_NODES]}
        if key == _DISCOVERY:
            held = caches[WATCHED_CONFIGURATION].get(_NAMESPACE, _CONFIG_MAP)
            if held is None:
                return None
            made = _made_by(LABEL_SOURCE, caches)
            text = (held.data or {}).get(_FILE, "")
            is_new, self._text = text != self._text, text
            about = Reference.of(CONFIG_MAPS, held.metadata) if is_new else None
            return Discovery(text, nodes, made, about)
        hyper_node = caches[WATCHED_HYPER_NODES].get(*key)
        if hyper_node is None:
            return None
        others = {one.metadata.name: one for one in caches[WATCHED_HYPER_NODES]}
        self._counter.set_objects(nodes, others)
        return Counted(hyper_node, len(self._counter.nodes_of(hyper_node)))

    def _look_at_ufm(self, caches: Caches) -> UfmDiscovery | None:
        held = caches[WATCHED_CONFIGURATION].get(_NAMESPACE, _CONFIG_MAP)
        if held is None:
            self._ufm.set(None)
            return None
        problem = ""
        try:
            self._ufm.set(ufm_settings((held.data or {}).get(_FILE, ""), _NAMESPACE))
        except DiscoveryError as error:
            self._ufm.set(None)
            problem = str(error)
        problem = problem or self._ufm.problem
        is_new, self._problem = problem != self._problem, problem
        about = Reference.of(CONFIG_MAPS, held.metadata) if is_new and problem else None
        return UfmDiscovery(self._ufm.found, _made_by(UFM_SOURCE, caches), about, problem)

    async def poll(self, api: ApiSession, clock: Clock, add: Callable[[Key], None]) -> None:
        """Polls UFM while the configuration names it."""
        await self._ufm.run(api, clock, lambda: add(_UFM))

    def reconcile(self, seen: Seen) -> Plan:
        match seen:
            case Counted():
                return count(seen)
            case Discovery():
                return discover(seen)
            case UfmDiscovery():
                return follow_ufm(seen)


def _made_by(source: str, caches: Caches) -> dict[str, HyperNode]:
    return {
        one.metadata.name: one
        for one in caches[WATCHED_HYPER_NODES]
        if one.metadata.label(SOURCE) == source
    }


def count(seen: Counted) -> Plan:
    """Writes the count when it changed."""
    metadata = seen.hyper_node.metadata
    if metadata.is_terminating or seen.hyper_node.status.node_count == seen.count:
        return NOTHING
    body = {"status": {"nodeCount": seen.count}}
    return Plan(
        ((Patch(HYPER_NODES, "", metadata.name, metadata.uid, body, subresource="status"),),)
    )


def discover(seen: Discovery) -> Plan:
    """Creates what is missing, corrects what differs, and deletes what is left over."""
    try:
        types = topologies(seen.text)
    except DiscoveryError as error:
        # A watch tells when the configuration is changed.
        if seen.about is None:
            return NOTHING
        return Plan(((Emit(seen.about, "DiscoveryFailed", str(error), warning=True),),))
    acts = _refusals(seen)
    if types is None:
        return Plan((tuple(acts),)) if acts else NOTHING
    acts += _corrections(wanted(types, seen.nodes), seen.made)
    return Plan((tuple(acts),)) if acts else NOTHING


def follow_ufm(seen: UfmDiscovery) -> Plan:
    """Corrects the HyperNodes of UFM's last answer. Without an answer they stay as they are."""
    acts: list[Act] = []
    if seen.about is not None:
        acts.append(Emit(seen.about, "DiscoveryFailed", seen.problem, warning=True))
    # An empty answer is a fault of UFM rather than the end of the network.
    if seen.found:
        acts += _corrections(seen.found, seen.made)
    return Plan((tuple(acts),)) if acts else NOTHING


def _corrections(found: Mapping[str, Manifest], made: Mapping[str, HyperNode]) -> list[Act]:
    acts: list[Act] = []
    for name, body in sorted(found.items()):
        held = made.get(name)
        if held is None:
            acts.append(Create(HYPER_NODES, body))
        elif _differs(held, body):
            patch = {"metadata": {"labels": body["metadata"]["labels"]}, "spec": body["spec"]}
            acts.append(Patch(HYPER_NODES, "", name, held.metadata.uid, patch))
    for name, held in sorted(made.items()):
        if name not in found and not held.metadata.is_terminating:
            acts.append(Delete(HYPER_NODES, "", name, held.metadata.uid))
    return acts


def _refusals(seen: Discovery) -> list[Act]:
    """A Warning for each source that has no effect, when the configuration is new."""
    if seen.about is None:
        return []
    text = "networkTopologyDiscovery: source {!r} is not supported; allowed: {}"
    return [
        Emit(seen.about, "UnsupportedSource", text.format(name, _SOURCES), warning=True)
        for name in unsupported(seen.text)
    ]


def _differs(held: HyperNode, body: Manifest) -> bool:
    labels = held.metadata.labels or {}
    if any(labels.get(key) != text for key, text in body["metadata"]["labels"].items()):
        return True
    held_spec = msgspec.to_builtins(held.spec)
    return any(held_spec.get(name) != value for name, value in body["spec"].items())

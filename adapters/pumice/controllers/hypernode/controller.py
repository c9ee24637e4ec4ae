"""The watches of the HyperNode controller, and what it observes."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock
from pumice.controllers.hypernode.counting import NodeCounter
from pumice.controllers.hypernode.discovery import DiscoveryError
from pumice.controllers.hypernode.reconcile import (
    LabelDiscovery,
    NodeCount,
    Observed,
    UfmDiscovery,
    reconcile,
)
from pumice.controllers.hypernode.types import LABEL_SOURCE, SOURCE, UFM_SOURCE, HyperNode
from pumice.controllers.hypernode.ufm import ufm_settings
from pumice.controllers.hypernode.ufm_poller import UfmPoller
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS, HYPER_NODES, NODES
from pumice.controllers.runtime.acts import Plan, Reference
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ApiObject, ConfigMap, Key
from pumice.controllers.runtime.watches import Change, Watch

_RELEASE: Final = os.environ.get("HELM_RELEASE_NAME") or "volcano"
_NAMESPACE: Final = os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system"
_CONFIG_MAP: Final[Key] = (_NAMESPACE, f"{_RELEASE}-controller-configmap")
_FILE: Final = "volcano-controller.conf"
# How long a changed node may wait: nodes change one after the other, and each count visits all of them.
_NODES_DELAY_SECONDS: Final = 0.2
# The keys of discovery. All other keys are names of HyperNodes, without a namespace.
_LABELS: Final[Key] = ("discovery", LABEL_SOURCE)
_UFM: Final[Key] = ("discovery", UFM_SOURCE)

WATCHED_HYPER_NODES: Final = Watch(HYPER_NODES, HyperNode)
WATCHED_NODES: Final = Watch(NODES, ApiObject, metadata_only=True)
WATCHED_CONFIGURATION: Final = Watch(
    CONFIG_MAPS, ConfigMap, field_selector=f"metadata.name={_CONFIG_MAP[1]}"
)


class HyperNodeController(Controller[Observed]):
    """Counts the nodes of each HyperNode, and creates HyperNodes from labels of nodes and from UFM."""

    name = "hyperNode-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_HYPER_NODES, WATCHED_NODES, WATCHED_CONFIGURATION)

    def __init__(self, options: ControllerOptions) -> None:
        self._counter = NodeCounter({}, {})
        # The text of the configuration that was observed last.
        self._text = ""
        self._ufm = UfmPoller()
        # The problem of the UFM source that was observed last.
        self._problem = ""

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        if change.watch == WATCHED_CONFIGURATION:
            return (_LABELS, _UFM)
        old, new = change.old, change.new
        # HyperNodes of higher tiers count the nodes of lower ones.
        hyper_nodes = [one.metadata.key for one in caches[WATCHED_HYPER_NODES]]
        if change.watch == WATCHED_NODES:
            if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
                return ()
            return (*hyper_nodes, _LABELS)
        if old is not None and new is not None and old.spec == new.spec:
            return (new.metadata.key,)
        return (*hyper_nodes, _LABELS, _UFM)

    def delay_seconds(self, change: Change[Any]) -> float:
        return _NODES_DELAY_SECONDS if change.watch == WATCHED_NODES else 0.0

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        configuration = caches[WATCHED_CONFIGURATION].get(*_CONFIG_MAP)
        if key == _UFM:
            return self._observe_ufm(configuration, caches)
        nodes = {one.metadata.name: one.metadata.labels or {} for one in caches[WATCHED_NODES]}
        if key == _LABELS:
            if configuration is None:
                return None
            text = _text(configuration)
            is_new, self._text = text != self._text, text
            about = Reference.of(CONFIG_MAPS, configuration.metadata) if is_new else None
            return LabelDiscovery(text, nodes, _created_from(LABEL_SOURCE, caches), about)
        hyper_node = caches[WATCHED_HYPER_NODES].get(*key)
        if hyper_node is None:
            return None
        self._counter.set_objects(
            nodes, {one.metadata.name: one for one in caches[WATCHED_HYPER_NODES]}
        )
        return NodeCount(hyper_node, len(self._counter.nodes_of(hyper_node)))

    def _observe_ufm(self, configuration: ConfigMap | None, caches: Caches) -> UfmDiscovery | None:
        if configuration is None:
            self._ufm.set(None)
            return None
        try:
            self._ufm.set(ufm_settings(_text(configuration), _NAMESPACE))
            problem = self._ufm.problem
        except DiscoveryError as error:
            self._ufm.set(None)
            problem = str(error)
        is_new, self._problem = problem != self._problem, problem
        about = Reference.of(CONFIG_MAPS, configuration.metadata) if is_new and problem else None
        return UfmDiscovery(self._ufm.found, _created_from(UFM_SOURCE, caches), about, problem)

    async def poll(self, api: ApiSession, clock: Clock, enqueue: Callable[[Key], None]) -> None:
        """Polls UFM while the configuration has it as a source."""
        await self._ufm.run(api, clock, lambda: enqueue(_UFM))

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)


def _text(configuration: ConfigMap) -> str:
    return (configuration.data or {}).get(_FILE, "")


def _created_from(source: str, caches: Caches) -> dict[str, HyperNode]:
    return {
        one.metadata.name: one
        for one in caches[WATCHED_HYPER_NODES]
        if one.metadata.label(SOURCE) == source
    }

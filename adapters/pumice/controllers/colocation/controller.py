"""Writes the settings of ColocationConfigurations into annotations of the pods that they select."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.controllers.resources import COLOCATION_CONFIGURATIONS, PODS
from pumice.controllers.runtime.acts import NOTHING, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ApiObject, Key, Manifest, Metadata
from pumice.controllers.runtime.watches import Change, Watch, by_namespace
from pumice.controllers.selectors import matches

CONFIGURATION_NAME: Final = "volcano.sh/colocation-config-name"
CONFIGURATION: Final = "volcano.sh/colocation-config"
# Tells the node agent to undo the settings of a pod.
RESET: Final = "{}"


class _Spec(msgspec.Struct, rename="camel"):
    selector: Manifest | None = None
    memory_qos: Manifest | None = None


class ColocationConfiguration(ApiObject):
    """Settings for the pods of a selector."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    def selects(self, metadata: Metadata) -> bool:
        """A configuration without a selector selects no pod; an empty selector selects every pod."""
        if self.spec.selector is None:
            return False
        is_empty = not any(self.spec.selector.values())
        return is_empty or matches(self.spec.selector, metadata.labels)


_BY_NAMESPACE: Final = {"namespace": by_namespace}
WATCHED_CONFIGURATIONS: Final = Watch(
    COLOCATION_CONFIGURATIONS, ColocationConfiguration, indexes=_BY_NAMESPACE
)


def _is_configured(pod: ApiObject) -> bool:
    """Whether a pod has settings, which must be reset when no configuration selects it any more."""
    annotations = pod.metadata.annotations or {}
    return CONFIGURATION_NAME in annotations or annotations.get(CONFIGURATION, RESET) != RESET


WATCHED_PODS: Final = Watch(
    PODS,
    ApiObject,
    metadata_only=True,
    indexes=_BY_NAMESPACE,
    needed_by=WATCHED_CONFIGURATIONS,
    needs_itself=_is_configured,
)


@dataclass(frozen=True, slots=True)
class Observed:
    """A pod, and the configurations of its namespace."""

    pod: Metadata
    configurations: tuple[ColocationConfiguration, ...]


class ColocationController(Controller[Observed]):
    """Annotates each pod with the newest configuration that selects it."""

    name = "colocation-config-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_CONFIGURATIONS, WATCHED_PODS)

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.latest.metadata
        if change.watch == WATCHED_CONFIGURATIONS:
            pods = caches[WATCHED_PODS].by("namespace", metadata.namespace)
            return [pod.metadata.key for pod in pods]
        old, new = change.old, change.new
        if new is None or (old is not None and old.metadata.labels == new.metadata.labels):
            return ()
        configurations = caches[WATCHED_CONFIGURATIONS].by("namespace", metadata.namespace)
        is_affected = configurations or metadata.annotation(CONFIGURATION)
        return (metadata.key,) if is_affected else ()

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        pod = caches[WATCHED_PODS].get(*key)
        if pod is None:
            return None
        found = caches[WATCHED_CONFIGURATIONS].by("namespace", key[0])
        return Observed(pod.metadata, tuple(found))

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)


def reconcile(observed: Observed) -> Plan:
    """Writes the annotations of the newest configuration, or resets them if none selects the pod."""
    pod = observed.pod
    if pod.is_terminating:
        return NOTHING
    selecting = [one for one in observed.configurations if one.selects(pod)]
    current = pod.annotations or {}
    desired: dict[str, str | None] = {}
    if selecting:
        newest = max(
            selecting, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name)
        )
        desired = {CONFIGURATION_NAME: newest.metadata.name, CONFIGURATION: _text(newest)}
    elif CONFIGURATION_NAME in current or CONFIGURATION in current:
        desired = {CONFIGURATION_NAME: None, CONFIGURATION: RESET}
    changed = {key: text for key, text in desired.items() if current.get(key) != text}
    if not changed:
        return NOTHING
    return Plan.of([Patch.of(PODS, pod, {"metadata": {"annotations": changed}})])


def _text(configuration: ColocationConfiguration) -> str:
    qos = configuration.spec.memory_qos
    settings = {} if qos is None else {"memoryQos": qos}
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))

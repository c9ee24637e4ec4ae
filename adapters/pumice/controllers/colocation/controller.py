"""Writes the settings of ColocationConfigurations into annotations of the pods that they select."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import COLOCATION_CONFIGURATIONS, PODS
from pumice.controllers.runtime.acts import NOTHING, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.objects import Manifest, Metadata, Watched
from pumice.controllers.runtime.watches import Change, Watch
from pumice.controllers.selectors import matches

CONFIGURATION_NAME: Final = "volcano.sh/colocation-config-name"
CONFIGURATION: Final = "volcano.sh/colocation-config"
# Tells the node agent to undo the settings of a pod.
RESET: Final = "{}"


class _Spec(msgspec.Struct, rename="camel"):
    selector: Manifest | None = None
    memory_qos: Manifest | None = None


class ColocationConfiguration(Watched):
    """Settings for the pods of a selector."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    def selects(self, metadata: Metadata) -> bool:
        """Without a selector, no pod; with an empty one, every pod."""
        if self.spec.selector is None:
            return False
        is_empty = not any(self.spec.selector.values())
        return is_empty or matches(self.spec.selector, metadata.labels)


def _by_namespace(seen: Watched) -> Iterable[str]:
    return (seen.metadata.namespace,)


_BY_NAMESPACE: Final = {"namespace": _by_namespace}
WATCHED_CONFIGURATIONS: Final = Watch(
    COLOCATION_CONFIGURATIONS, ColocationConfiguration, indexes=_BY_NAMESPACE
)


def _is_configured(pod: Watched) -> bool:
    """Whether a pod has settings that must be taken back when no configuration selects it."""
    held = pod.metadata.annotations or {}
    return CONFIGURATION_NAME in held or held.get(CONFIGURATION, RESET) != RESET


WATCHED_PODS: Final = Watch(
    PODS,
    Watched,
    metadata_only=True,
    indexes=_BY_NAMESPACE,
    needed_by=WATCHED_CONFIGURATIONS,
    needs_itself=_is_configured,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod, and the configurations of its namespace."""

    pod: Metadata
    configurations: tuple[ColocationConfiguration, ...]


class ColocationController:
    """Gives each pod the newest configuration that selects it."""

    name = "colocation-config-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_CONFIGURATIONS, WATCHED_PODS)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.seen.metadata
        if change.watch == WATCHED_CONFIGURATIONS:
            pods = caches[WATCHED_PODS].by("namespace", metadata.namespace)
            return [pod.metadata.key for pod in pods]
        is_known = change.new is None or (
            change.old is not None and change.old.metadata.labels == change.new.metadata.labels
        )
        if is_known or not _concerns(metadata, caches):
            return ()
        return (metadata.key,)

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        pod = caches[WATCHED_PODS].get(*key)
        if pod is None:
            return None
        found = caches[WATCHED_CONFIGURATIONS].by("namespace", key[0])
        return Seen(pod.metadata, tuple(found))

    def reconcile(self, seen: Seen) -> Plan:
        return reconcile(seen)


def _concerns(metadata: Metadata, caches: Caches) -> bool:
    has_some = caches[WATCHED_CONFIGURATIONS].by("namespace", metadata.namespace)
    return bool(has_some or metadata.annotation(CONFIGURATION))


def reconcile(seen: Seen) -> Plan:
    """The annotations of the newest configuration; or the sign that there is none any more."""
    pod = seen.pod
    if pod.is_terminating:
        return NOTHING
    own = [one for one in seen.configurations if one.selects(pod)]
    held = pod.annotations or {}
    wanted: dict[str, str | None] = {}
    if own:
        newest = max(own, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))
        wanted = {CONFIGURATION_NAME: newest.metadata.name, CONFIGURATION: _text(newest)}
    elif CONFIGURATION_NAME in held or CONFIGURATION in held:
        wanted = {CONFIGURATION_NAME: None, CONFIGURATION: RESET}
    changed = {key: text for key, text in wanted.items() if held.get(key) != text}
    if not changed:
        return NOTHING
    body = {"metadata": {"annotations": changed}}
    return Plan(((Patch(PODS, *pod.key, pod.uid, body),),))


def _text(configuration: ColocationConfiguration) -> str:
    qos = configuration.spec.memory_qos
    settings = {} if qos is None else {"memoryQos": qos}
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))

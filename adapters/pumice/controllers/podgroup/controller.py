"""The watches of the PodGroup controller, and what it looks at."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from pumice.controllers.job.controller import WATCHED_QUEUES
from pumice.controllers.job.types import JOB_NAME, PodGroup, Queue
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.reconcile import Seen, reconcile
from pumice.controllers.podgroup.types import PREFIX, QUEUE_NAME, Pod, Workload
from pumice.controllers.resources import (
    DAEMON_SETS,
    KUBERNETES_JOBS,
    POD_GROUP,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.objects import OwnerReference, Watched
from pumice.controllers.runtime.watches import Change, Watch


def _by_group(pod: Pod) -> Iterable[Hashable]:
    """The group that this controller has made or must make; none for pods of other groups."""
    name = pod.group or pod.own_group
    return ((pod.metadata.namespace, name),) if name.startswith(PREFIX) else ()


WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup)
WATCHED_REPLICA_SETS: Final = Watch(REPLICA_SETS, Workload)
WATCHED_STATEFUL_SETS: Final = Watch(STATEFUL_SETS, Workload)
WATCHED_DAEMON_SETS: Final = Watch(DAEMON_SETS, Watched, metadata_only=True)
WATCHED_JOBS: Final = Watch(KUBERNETES_JOBS, Watched, metadata_only=True)
# Owners whose number of pods is known.
_SCALED: Final[Mapping[tuple[str, str], Watch[Workload]]] = {
    ("apps/v1", "ReplicaSet"): WATCHED_REPLICA_SETS,
    ("apps/v1", "StatefulSet"): WATCHED_STATEFUL_SETS,
}
_OWNERS: Final[Mapping[tuple[str, str], Watch[Any]]] = {
    **_SCALED,
    ("apps/v1", "DaemonSet"): WATCHED_DAEMON_SETS,
    ("batch/v1", "Job"): WATCHED_JOBS,
}


class PodGroupController:
    """Gives PodGroups to pods that have none."""

    name = "pg-controller"

    def __init__(self, options: ControllerOptions) -> None:
        self._inherits = options.inherits_annotations
        self._pods = tuple(
            Watch(
                PODS,
                Pod,
                # Pods of Jobs have PodGroups.
                label_selector=f"!{JOB_NAME}",
                field_selector=f"spec.schedulerName={name}",
                indexes={"group": _by_group},
            )
            for name in options.scheduler_names
        )
        self.watches: Sequence[Watch[Any]] = (
            *self._pods,
            WATCHED_GROUPS,
            WATCHED_QUEUES,
            *_OWNERS.values(),
        )

    def keys(self, change: Change[Any], caches: Caches) -> Iterable[Key]:
        metadata = change.seen.metadata
        if change.watch in self._pods:
            return list(_by_group(change.seen))  # type: ignore[arg-type]
        if change.watch == WATCHED_GROUPS:
            return (metadata.key,) if metadata.name.startswith(PREFIX) else ()
        if change.watch == WATCHED_QUEUES:
            return self._keys_of_queue(change, caches)
        return ((metadata.namespace, PREFIX + metadata.uid),)

    def _keys_of_queue(self, change: Change[Queue], caches: Caches) -> list[Key]:
        """Pods whose PodGroup was refused, when their queue opens."""
        old, new = change.old, change.new
        if old is None or new is None or not old.is_shut or new.is_shut:
            return []
        name = new.metadata.name
        return [
            (pod.metadata.namespace, pod.own_group)
            for watch in self._pods
            for pod in caches[watch]
            if not pod.group and (pod.metadata.annotation(QUEUE_NAME) or "default") == name
        ]

    def look(self, key: Key, caches: Caches, now_ms: int) -> Seen | None:
        group = caches[WATCHED_GROUPS].get(*key)
        pods = [pod for watch in self._pods for pod in caches[watch].by("group", key)]
        if group is None and not pods:
            return None
        pods.sort(key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
        references = (
            (pods[0].metadata.owner_references if pods else None)
            or (group.metadata.owner_references if group is not None else None)
            or []
        )
        return Seen(
            key[1],
            tuple(pods),
            group,
            self._inherited(references, key[0], caches),
            _is_empty(references, key, caches),
        )

    def _inherited(
        self, owners: Iterable[OwnerReference], namespace: str, caches: Caches
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._inherits:
            for reference in owners:
                owner = _owner(reference, namespace, caches)
                if owner is not None:
                    found = {**(owner.metadata.annotations or {}), **found}
        return found

    def reconcile(self, seen: Seen) -> Plan:
        return reconcile(seen)


def _owner(reference: OwnerReference, namespace: str, caches: Caches) -> Watched | None:
    watch = _OWNERS.get((reference.api_version, reference.kind))
    if watch is None:
        return None
    owner = caches[watch].get(namespace, reference.name)
    return owner if owner is not None and owner.metadata.uid == reference.uid else None


def _is_empty(references: Iterable[OwnerReference], key: Key, caches: Caches) -> bool:
    """Whether the owner that the PodGroup is named after wants no pods."""
    for reference in references:
        watch = _SCALED.get((reference.api_version, reference.kind))
        if watch is not None and key[1] == PREFIX + reference.uid:
            owner = caches[watch].get(key[0], reference.name)
            return (
                owner is not None
                and owner.metadata.uid == reference.uid
                and owner.spec.replicas == 0
            )
    return False

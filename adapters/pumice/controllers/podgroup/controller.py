"""The watches of the PodGroup controller, and what it observes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pumice.controllers.job.types import JOB_NAME
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.reconcile import Observed, reconcile
from pumice.controllers.podgroup.types import PREFIX, QUEUE_NAME, Pod, PodGroup, Workload
from pumice.controllers.queue.controller import WATCHED_QUEUES
from pumice.controllers.queue.types import Queue
from pumice.controllers.resources import (
    DAEMON_SETS,
    KUBERNETES_JOBS,
    POD_GROUP,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from pumice.controllers.runtime.acts import Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import ApiObject, Key, OwnerReference
from pumice.controllers.runtime.watches import Change, Watch


def _by_group(pod: Pod) -> Iterable[Key]:
    """The PodGroup of this controller that a pod has or needs; none for a pod of another PodGroup."""
    name = pod.group or pod.default_group
    return ((pod.metadata.namespace, name),) if name.startswith(PREFIX) else ()


WATCHED_GROUPS: Final = Watch(POD_GROUP, PodGroup)
# Owners with a number of replicas.
_SCALED: Final[Mapping[tuple[str, str], Watch[Workload]]] = {
    ("apps/v1", "ReplicaSet"): Watch(REPLICA_SETS, Workload),
    ("apps/v1", "StatefulSet"): Watch(STATEFUL_SETS, Workload),
}
_OWNERS: Final[Mapping[tuple[str, str], Watch[Any]]] = {
    **_SCALED,
    ("apps/v1", "DaemonSet"): Watch(DAEMON_SETS, ApiObject, metadata_only=True),
    ("batch/v1", "Job"): Watch(KUBERNETES_JOBS, ApiObject, metadata_only=True),
}


class PodGroupController(Controller[Observed]):
    """Creates PodGroups for pods that have none."""

    name = "pg-controller"

    def __init__(self, options: ControllerOptions) -> None:
        self._inherits = options.inherits_annotations
        self._pods = tuple(
            Watch(
                PODS,
                Pod,
                # The Job controller creates the PodGroups of Jobs.
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
        metadata = change.latest.metadata
        if change.watch in self._pods:
            return _by_group(change.latest)
        if change.watch == WATCHED_GROUPS:
            return (metadata.key,) if metadata.name.startswith(PREFIX) else ()
        if change.watch == WATCHED_QUEUES:
            return self._keys_of_queue(change, caches)
        return ((metadata.namespace, PREFIX + metadata.uid),)

    def _keys_of_queue(self, change: Change[Queue], caches: Caches) -> list[Key]:
        """The PodGroups that the API server refused while their queue was closed, when it opens."""
        old, new = change.old, change.new
        if old is None or new is None or not old.is_closed or new.is_closed:
            return []
        name = new.metadata.name
        return [
            (pod.metadata.namespace, pod.default_group)
            for watch in self._pods
            for pod in caches[watch]
            if not pod.group and (pod.metadata.annotation(QUEUE_NAME) or "default") == name
        ]

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
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
        return Observed(
            key[1],
            tuple(pods),
            group,
            self._inherited(references, key[0], caches),
            _is_scaled_to_zero(references, key, caches),
        )

    def _inherited(
        self, owners: Iterable[OwnerReference], namespace: str, caches: Caches
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._inherits:
            for reference in owners:
                owner = _owner(_OWNERS, reference, namespace, caches)
                if owner is not None:
                    found = {**(owner.metadata.annotations or {}), **found}
        return found

    def reconcile(self, observed: Observed) -> Plan:
        return reconcile(observed)


def _owner(
    watches: Mapping[tuple[str, str], Watch[Any]],
    reference: OwnerReference,
    namespace: str,
    caches: Caches,
) -> Any:
    """The owner, if one of the watches has it; else None."""
    watch = watches.get((reference.api_version, reference.kind))
    owner = caches[watch].get(namespace, reference.name) if watch is not None else None
    return owner if owner is not None and owner.metadata.uid == reference.uid else None


def _is_scaled_to_zero(references: Iterable[OwnerReference], key: Key, caches: Caches) -> bool:
    """Whether the owner that the PodGroup is named after has 0 replicas."""
    for reference in references:
        if key[1] == PREFIX + reference.uid:
            owner = _owner(_SCALED, reference, key[0], caches)
            return owner is not None and owner.spec.replicas == 0
    return False

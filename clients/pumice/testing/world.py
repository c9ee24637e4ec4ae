"""A cluster in memory, which applies decisions and statuses between cycles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.decision_pb2 import Bind, Decision
from pumice.v1.devices_pb2 import ResourceClaim
from pumice.v1.group_pb2 import PodGroup, PodGroupPhase
from pumice.v1.object_pb2 import KIND_POD, ClusterObject, ObjectRef
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING, POD_PHASE_SUCCEEDED, Pod, PodCondition
from pumice.v1.status_pb2 import PodConditionChange, PodGroupStatusChange, StatusChange

_PREFIX = "POD_GROUP_PHASE_"


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes between two cycles."""

    objects: list[ClusterObject]
    gone: list[ObjectRef]


class World:
    """The objects of a cluster.

    Applying decisions and statuses starts bound pods, deletes evicted pods and writes statuses.
    """

    def __init__(self, objects: Iterable[ClusterObject]) -> None:
        self._pods: dict[str, Pod] = {}
        self._groups: dict[str, PodGroup] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self.add(objects)

    def add(self, objects: Iterable[ClusterObject]) -> None:
        """Adds objects; pods and PodGroups are copied, because they change."""
        for held in objects:
            if held.HasField("pod"):
                self._pods[held.pod.uid] = held.pod
            elif held.HasField("pod_group"):
                self._groups[held.pod_group.uid] = held.pod_group
            elif held.HasField("resource_claim"):
                self._claims[held.resource_claim.uid] = held.resource_claim

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._groups.pop(uid, None)
        self._claims.pop(uid, None)

    def find(self, uid: str) -> Pod | PodGroup | None:
        return self._pods.get(uid) or self._groups.get(uid)

    def pods(self) -> list[Pod]:
        return list(self._pods.values())

    def groups(self) -> list[PodGroup]:
        return list(self._groups.values())

    def pods_of(self, namespace: str, job: str) -> list[str]:
        """The uids of a job's pods."""
        return [
            pod.uid
            for pod in self._pods.values()
            if (pod.namespace, pod.group_name) == (namespace, job)
        ]

    def finish(self, namespace: str, job: str) -> list[ClusterObject]:
        """Sets a job's running pods to Succeeded, and returns them."""
        changed = []
        for uid in self.pods_of(namespace, job):
            if self._pods[uid].phase == POD_PHASE_RUNNING:
                self._pods[uid].phase = POD_PHASE_SUCCEEDED
                changed.append(ClusterObject(pod=self._pods[uid]))
        return changed

    def phases(self) -> dict[str, str]:
        """The phases of all PodGroups, as Volcano spells them; empty without a status."""
        return {
            f"{group.namespace}/{group.name}": phase_word(group.status.phase)
            for group in sorted(self._groups.values(), key=lambda g: (g.namespace, g.name))
        }

    def apply(self, decisions: Iterable[Decision], changes: Iterable[StatusChange]) -> Changes:
        """Applies decisions and statuses, and returns the changed objects."""
        changed: dict[str, ClusterObject] = {}
        gone: list[ObjectRef] = []
        for decision in decisions:
            if decision.HasField("bind"):
                changed |= self._bound(decision.bind)
            elif decision.HasField("evict") and decision.evict.uid in self._pods:
                del self._pods[decision.evict.uid]
                gone.append(ObjectRef(kind=KIND_POD, uid=decision.evict.uid))
        for change in changes:
            if change.HasField("pod_group"):
                changed |= self._group_written(change.pod_group)
            elif change.HasField("pod"):
                changed |= self._pod_written(change.pod)
        return Changes(list(changed.values()), gone)

    def _bound(self, bind: Bind) -> dict[str, ClusterObject]:
        pod = self._pods.get(bind.uid)
        if pod is None:
            return {}
        pod.node_name = bind.node
        pod.phase = POD_PHASE_RUNNING
        pod.annotations.update(bind.annotations)
        return {pod.uid: ClusterObject(pod=pod), **self._allocated(bind)}

    def _allocated(self, bind: Bind) -> dict[str, ClusterObject]:
        """The claims of a bound pod, with their devices and the pod as a consumer."""
        changed = {}
        for choice in bind.resource_claims:
            claim = self._claims.get(choice.claim_uid)
            if claim is not None:
                if choice.HasField("allocation"):
                    claim.allocation.CopyFrom(choice.allocation)
                claim.reserved_for.add(resource="pods", name=bind.name, uid=bind.uid)
                changed[claim.uid] = ClusterObject(resource_claim=claim)
        return changed

    def _group_written(self, change: PodGroupStatusChange) -> dict[str, ClusterObject]:
        group = self._groups.get(change.uid)
        if group is None:
            return {}
        group.status.CopyFrom(change.status)
        return {group.uid: ClusterObject(pod_group=group)}

    def _pod_written(self, change: PodConditionChange) -> dict[str, ClusterObject]:
        pod = self._pods.get(change.uid)
        if pod is None:
            return {}
        kept = [condition for condition in pod.conditions if condition.type != "PodScheduled"]
        new = PodCondition(
            type="PodScheduled",
            status=CONDITION_STATUS_FALSE,
            reason=change.reason,
            message=change.message,
        )
        del pod.conditions[:]
        pod.conditions.extend([*kept, new])
        pod.nominated_node_name = change.nominated_node_name or pod.nominated_node_name
        return {pod.uid: ClusterObject(pod=pod)}


def phase_word(phase: PodGroupPhase.ValueType) -> str:
    name = PodGroupPhase.Name(phase).removeprefix(_PREFIX)
    return "" if name == "UNSPECIFIED" else name.capitalize()

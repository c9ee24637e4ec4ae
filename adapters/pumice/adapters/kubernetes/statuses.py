"""Writes statuses of PodGroups, queues and NodeShards, and conditions of pods."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    KubernetesError,
)
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.missing_rights import ApiCalls
from pumice.adapters.kubernetes.native_conditions import native_condition
from pumice.adapters.kubernetes.object_index import (
    GroupVersion,
    ObjectIndex,
    group_version,
    has_condition,
)
from pumice.adapters.kubernetes.quantities import quantity, shown_time
from pumice.adapters.kubernetes.resources import (
    NATIVE_GROUPS,
    NODE_SHARDS,
    POD_GROUPS,
    PODS,
    QUEUES,
    Resource,
)
from pumice.adapters.kubernetes.results import result_of, result_of_write
from pumice.adapters.kubernetes.session import (
    JSON_PATCH,
    MERGE,
    METADATA_ONLY,
    STRATEGIC,
    Fence,
)
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.condition_pb2 import (
    CONDITION_STATUS_FALSE,
    CONDITION_STATUS_TRUE,
    CONDITION_STATUS_UNKNOWN,
)
from pumice.v1.group_pb2 import PodGroupCondition, PodGroupPhase, PodGroupStatus
from pumice.v1.status_pb2 import (
    Event,
    NodeShardStatusChange,
    PodConditionChange,
    PodGateLift,
    PodGroupStatusChange,
    QueueStatusChange,
    StatusChange,
)

_STATUSES: Final = {
    CONDITION_STATUS_TRUE: "True",
    CONDITION_STATUS_FALSE: "False",
    CONDITION_STATUS_UNKNOWN: "Unknown",
}
_ENCODE: Final = msgspec.json.Encoder().encode
# The conditions of a PodGroup that the scheduler writes; other writers own all others.
OWN_CONDITIONS: Final = ("Unschedulable", "Scheduled")


class _ApiResource(msgspec.Struct):
    name: str = ""


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] = []


class _Phase(msgspec.Struct):
    phase: str = ""


class _Written(msgspec.Struct):
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Allocated(msgspec.Struct):
    allocated: dict[str, Any] | None = None


class _WrittenQueue(msgspec.Struct):
    status: _Allocated = msgspec.field(default_factory=_Allocated)


_API_RESOURCES: Final = msgspec.json.Decoder(_ApiResources)
_WRITTEN: Final = msgspec.json.Decoder(_Written)
_WRITTEN_QUEUE: Final = msgspec.json.Decoder(_WrittenQueue)


class KubernetesStatusUpdater:
    """Patches only the fields of the scheduler. Each patch names the uid of the object."""

    def __init__(
        self,
        api: ApiCalls,
        index: ObjectIndex,
        events: EventRecorder,
        clock: Clock,
        fence: Fence,
        seconds: float,
    ) -> None:
        self._api, self._index, self._events = api, index, events
        self._clock, self._fence, self._seconds = clock, fence, seconds
        # Whether a resource has a status subresource.
        self._subresources: dict[Resource, bool] = {}

    async def write_event(self, event: Event) -> ApplyResult:
        try:
            await self._events.write(event)
        except KubernetesError as error:
            return result_of(error)
        return DONE

    async def write_status(self, change: StatusChange) -> ApplyResult:
        match change.WhichOneof("change"):
            case "pod_group":
                group = change.pod_group
                resource = self._index.resources.get(group.uid, POD_GROUPS[0])
                path = resource.path(group.namespace, group.name)
                if resource == NATIVE_GROUPS:
                    return await self._written(self._write_native(group, path), path, group.uid)
                return await self._written(self._write_group(group, resource), path, group.uid)
            case "queue":
                queue = change.queue
                resource = self._index.resources.get(queue.uid, QUEUES[0])
                path = resource.path(name=queue.name)
                return await self._written(self._write_queue(queue, resource), path, queue.uid)
            case "pod":
                pod = change.pod
                path = PODS.path(pod.namespace, pod.name)
                return await self._written(self._write_pod(pod), path, pod.uid)
            case "node_shard":
                shard = change.node_shard
                path = NODE_SHARDS.path(name=shard.name)
                return await self._written(self._write_shard(shard), path, shard.uid)
            case "pod_gate":
                gate = change.pod_gate
                path = PODS.path(gate.namespace, gate.name)
                return await self._written(self._lift_gate(gate, path), path, gate.uid)
        return ApplyResult(ApplyCode.INVALID, "the change is about no known kind of object")

    async def _written(
        self, write: Coroutine[Any, Any, ApplyResult], path: str, uid: str
    ) -> ApplyResult:
        try:
            return await write
        except ApiError as error:
            return await result_of_write(error, self._api, path, uid, self._seconds)
        except KubernetesError as error:
            return result_of(error)
        except msgspec.MsgspecError as error:
            return ApplyResult(ApplyCode.INVALID, f"the object cannot be read: {error}")

    # PodGroups.

    async def _write_group(self, change: PodGroupStatusChange, resource: Resource) -> ApplyResult:
        """Writes the fields and conditions of the scheduler on the version that was last seen.

        A list can only be patched as a whole. The version makes sure that a condition which another
        writer added meanwhile is not lost.
        """
        held = self._index.groups.get(change.uid)
        if held is not None:
            try:
                return await self._patch_group(change, resource, held)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
        path = resource.path(change.namespace, change.name)
        body = await self._api.call("GET", path, seconds=self._seconds)
        return await self._patch_group(change, resource, group_version(body))

    async def _patch_group(
        self, change: PodGroupStatusChange, resource: Resource, group: GroupVersion
    ) -> ApplyResult:
        status = group_status(change.status, group.conditions)
        metadata = {"uid": change.uid, "resourceVersion": group.version}
        has_subresource = await self._has_status_subresource(resource)
        path = resource.path(change.namespace, change.name, "status" if has_subresource else "")
        try:
            body = await self._patch(path, {"metadata": metadata, "status": status}, MERGE)
        except ApiError as error:
            self._forget_subresource(resource, error)
            raise
        if change.uid in self._index.groups:
            self._index.groups[change.uid] = group_version(body)
        if _WRITTEN.decode(body).status.phase != (status["phase"] or ""):
            return self._not_taken(resource)
        return DONE

    async def _write_native(self, change: PodGroupStatusChange, path: str) -> ApplyResult:
        """Writes whether a PodGroup of Kubernetes is scheduled; keeps the rest of its status."""
        condition = native_condition(change.status)
        held = self._index.groups.get(change.uid)
        self._index.native_statuses[change.uid] = change.status
        if condition is None or (held is not None and has_condition(held, condition)):
            return DONE
        condition["lastTransitionTime"] = shown_time(self._clock.unix_ms() * 1_000_000)
        patch = {"metadata": {"uid": change.uid}, "status": {"conditions": [condition]}}
        await self._patch(f"{path}/status", patch, STRATEGIC, METADATA_ONLY)
        return DONE

    async def _has_status_subresource(self, resource: Resource) -> bool:
        known = self._subresources.get(resource)
        if known is None:
            body = await self._api.call("GET", resource.base, seconds=self._seconds)
            names = {found.name for found in _API_RESOURCES.decode(body).resources}
            known = self._subresources[resource] = f"{resource.plural}/status" in names
        return known

    def _forget_subresource(self, resource: Resource, error: ApiError) -> None:
        """A new definition of the resource may have removed the status subresource."""
        if error.status == NOT_FOUND:
            self._subresources.pop(resource, None)

    def _not_taken(self, resource: Resource) -> ApplyResult:
        """A new definition of the resource has added the status subresource."""
        self._subresources.pop(resource, None)
        return ApplyResult(ApplyCode.CONFLICT, "the status was not taken")

    # Queues.

    async def _write_queue(self, change: QueueStatusChange, resource: Resource) -> ApplyResult:
        has_subresource = await self._has_status_subresource(resource)
        path = resource.path("", change.name, "status" if has_subresource else "")
        allocated = {
            name: quantity(name, amount) for name, amount in sorted(change.allocated.items())
        }
        try:
            body = await self._patch_queue(path, change.uid, allocated)
        except ApiError as error:
            self._forget_subresource(resource, error)
            raise
        if (_WRITTEN_QUEUE.decode(body).status.allocated or {}) != allocated:
            untaken = self._not_taken(resource)
            if await self._has_status_subresource(resource) != has_subresource:
                return untaken
            # The definition does not have the field.
        return DONE

    async def _patch_queue(self, path: str, uid: str, allocated: dict[str, str]) -> bytes:
        replace = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status/allocated", "value": allocated},
        ]
        try:
            # Replaces the whole map: a merge would keep resources that are gone.
            return await self._patch(path, replace, JSON_PATCH)
        except ApiError as error:
            if error.status != UNPROCESSABLE:
                raise
        # The queue has no status yet, or it is another queue.
        merge = {"metadata": {"uid": uid}, "status": {"allocated": allocated}}
        return await self._patch(path, merge, MERGE)

    # NodeShards.

    async def _write_shard(self, change: NodeShardStatusChange) -> ApplyResult:
        status = {
            "lastUpdateTime": shown_time(self._clock.unix_ms() * 1_000_000),
            "nodesInUse": list(change.nodes_in_use),
            "nodesToAdd": list(change.nodes_to_add),
            "nodesToRemove": list(change.nodes_to_remove),
        }
        patch = {"metadata": {"uid": change.uid}, "status": status}
        await self._patch(NODE_SHARDS.path("", change.name, "status"), patch, MERGE, METADATA_ONLY)
        return DONE

    # Pods.

    async def _write_pod(self, change: PodConditionChange) -> ApplyResult:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": change.reason,
            "message": change.message,
            "lastTransitionTime": shown_time(self._clock.unix_ms() * 1_000_000),
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if change.nominated_node_name:
            status["nominatedNodeName"] = change.nominated_node_name
        patch = {"metadata": {"uid": change.uid}, "status": status}
        path = PODS.path(change.namespace, change.name, "status")
        await self._patch(path, patch, STRATEGIC, METADATA_ONLY)
        return DONE

    async def _lift_gate(self, change: PodGateLift, path: str) -> ApplyResult:
        gates = [{"name": change.gate, "$patch": "delete"}]
        patch = {"metadata": {"uid": change.uid}, "spec": {"schedulingGates": gates}}
        await self._patch(path, patch, STRATEGIC, METADATA_ONLY)
        return DONE

    async def _patch(self, path: str, patch: object, content_type: str, accept: str = "") -> bytes:
        return await self._api.call(
            "PATCH",
            path,
            _ENCODE(patch),
            content_type=content_type,
            accept=accept or "application/json",
            seconds=self._seconds,
            fence=self._fence,
        )


def group_status(
    status: PodGroupStatus, held: Sequence[Mapping[str, object]] = ()
) -> dict[str, Any]:
    """A merge patch of the scheduler's fields. Zeros are removed, as Volcano leaves them out.

    The conditions are those that the object holds, with the scheduler's own replaced or added.
    """
    own: dict[str, Mapping[str, object]] = {
        c.type: _condition(c) for c in status.conditions if c.type in OWN_CONDITIONS
    }
    types = {str(c.get("type")) for c in held}
    merged = [own.get(str(c.get("type")), c) for c in held]
    conditions = [*merged, *(c for kind, c in own.items() if kind not in types)]
    return {
        **_phase(status.phase),
        "running": status.running or None,
        "succeeded": status.succeeded or None,
        "failed": status.failed or None,
        "conditions": conditions or None,
    }


def _phase(phase: PodGroupPhase.ValueType) -> dict[str, str | None]:
    """The phase as a patch. A phase that this adapter does not know changes nothing."""
    known = PodGroupPhase.DESCRIPTOR.values_by_number.get(phase)
    if known is None:
        return {}
    word = known.name.removeprefix("POD_GROUP_PHASE_").capitalize()
    return {"phase": None if word == "Unspecified" else word}


def _condition(condition: PodGroupCondition) -> dict[str, str]:
    fields = {
        "type": condition.type,
        "status": _STATUSES.get(condition.status, ""),
        "transitionID": condition.transition_id,
        "reason": condition.reason,
        "message": condition.message,
    }
    written = {name: text for name, text in fields.items() if text}
    if condition.HasField("transition_time"):
        time_ns = condition.transition_time.ToNanoseconds()
        written["lastTransitionTime"] = shown_time(time_ns)
    return written

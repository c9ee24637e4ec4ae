"""An index of watched objects for the writers of binds, volumes, statuses and events."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.adapters.kubernetes.resources import Resource
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.storage_pb2 import PersistentVolumeClaim


class _Conditions(msgspec.Struct):
    conditions: list[dict[str, object]] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _WithConditions(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Conditions | None = None


_WITH_CONDITIONS: Final = msgspec.json.Decoder(_WithConditions)


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """One version of a PodGroup, with its conditions, including unknown fields."""

    version: str
    conditions: tuple[dict[str, object], ...] = ()


def group_version(raw: bytes | msgspec.Raw) -> GroupVersion:
    """Raises msgspec.MsgspecError if the object is not a PodGroup."""
    found = _WITH_CONDITIONS.decode(raw)
    conditions = (found.status.conditions if found.status else None) or ()
    return GroupVersion(found.metadata.resource_version, tuple(conditions))


def has_condition(group: GroupVersion, condition: Mapping[str, object]) -> bool:
    """Whether a version has a condition, ignoring times and generations."""
    keys = ("type", "status", "reason", "message")
    wanted = [condition.get(key) for key in keys]
    return any([known.get(key) for key in keys] == wanted for known in group.conditions)


class TerminatingNamespaces:
    """Namespaces that are being deleted, in which nothing can be created or bound."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        # Called with the name of each namespace that becomes or ceases to be terminating.
        self.listeners: list[Callable[[str], None]] = []

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._uids

    def update(self, namespace: str, uid: str, is_terminating: bool) -> None:
        was_terminating = namespace in self._uids
        if is_terminating:
            self._uids[namespace] = uid
        else:
            self._uids.pop(namespace, None)
        if is_terminating != was_terminating:
            self._notify_listeners(namespace)

    def remove(self, namespace: str, uid: str) -> None:
        """Removes a namespace, unless another one has its name now."""
        if self._uids.get(namespace) == uid:
            del self._uids[namespace]
            self._notify_listeners(namespace)

    def _notify_listeners(self, namespace: str) -> None:
        for listener in self.listeners:
            listener(namespace)


@dataclass(slots=True)
class ObjectIndex:
    """The parts of watched objects that writers need. Watches and written statuses update it."""

    # By namespace and name.
    claims: dict[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    # Resources of objects that are not of Volcano's own API group, by uid.
    resources: dict[str, Resource] = field(default_factory=dict)
    # The uid of the claim that each volume is bound to or reserved for, by the volume's name.
    volume_claims: dict[str, str] = field(default_factory=dict)
    # By uid.
    groups: dict[str, GroupVersion] = field(default_factory=dict)
    # The last status written for each PodGroup of Kubernetes, by uid.
    native_statuses: dict[str, PodGroupStatus] = field(default_factory=dict)
    terminating: TerminatingNamespaces = field(default_factory=TerminatingNamespaces)

    def restore_status(self, uid: str, item: ClusterObject) -> None:
        """Adds phase and counts to a Kubernetes PodGroup, which has no fields for them."""
        written = self.native_statuses.get(uid)
        if written is not None:
            item.pod_group.status.CopyFrom(written)

    def volumes_of(self, claim_uid: str) -> list[str]:
        """The volumes that are bound to a claim or reserved for it."""
        return sorted(name for name, uid in self.volume_claims.items() if uid == claim_uid)

"""Kinds, uids and names of objects."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from pumice.v1.object_pb2 import (
    KIND_CSI_DRIVER,
    KIND_CSI_NODE,
    KIND_DEVICE_CLASS,
    KIND_HYPER_NODE,
    KIND_NAMESPACE,
    KIND_NODE,
    KIND_PERSISTENT_VOLUME,
    KIND_POD,
    KIND_POD_GROUP,
    KIND_PRIORITY_CLASS,
    KIND_QUEUE,
    KIND_STORAGE_CLASS,
    ClusterObject,
    Kind,
)

KindNumber: TypeAlias = Kind.ValueType

# Identifies an object. A uid is never reused.
ObjectKey: TypeAlias = tuple[KindNumber, str]

# The order of kinds in a snapshot, so that objects follow the objects they refer to. Kinds that are
# not listed come next, and pods come last.
_FIRST_KINDS: Final = (
    KIND_NAMESPACE,
    KIND_PRIORITY_CLASS,
    KIND_QUEUE,
    KIND_STORAGE_CLASS,
    KIND_CSI_DRIVER,
    KIND_DEVICE_CLASS,
    KIND_PERSISTENT_VOLUME,
    KIND_NODE,
    KIND_CSI_NODE,
    KIND_HYPER_NODE,
    KIND_POD_GROUP,
)
_RANKS: Final[dict[KindNumber, int]] = {kind: rank for rank, kind in enumerate(_FIRST_KINDS)}


@dataclass(frozen=True, slots=True)
class Identity:
    """Kind, uid, namespace and name of an object."""

    kind: KindNumber
    uid: str
    # Empty for cluster-scoped objects.
    namespace: str
    name: str


def identity(cluster_object: ClusterObject) -> Identity:
    """Raises ValueError for a message without an object, or with one that has no uid."""
    field = cluster_object.WhichOneof("object")
    if field is None:
        raise ValueError("a ClusterObject without an object")
    message = getattr(cluster_object, field)
    if not message.uid:
        raise ValueError(f"a {field} without a uid")
    number = ClusterObject.DESCRIPTOR.fields_by_name[field].number
    return Identity(
        KindNumber(number), message.uid, getattr(message, "namespace", ""), message.name
    )


def snapshot_rank(kind: KindNumber) -> int:
    """The position of a kind in a snapshot."""
    if kind == KIND_POD:
        return len(_RANKS) + 1
    return _RANKS.get(kind, len(_RANKS))


def shown_kind(kind: KindNumber) -> str:
    """The name of a kind, such as `pod_group`, or its number if it has none."""
    field = ClusterObject.DESCRIPTOR.fields_by_number.get(kind)
    return field.name if field is not None else str(kind)

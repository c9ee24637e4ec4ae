"""The readers of all supported kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec
from google.protobuf.message import Message
from msgspec import Raw

from pumice.manifests import (
    csi,
    device_slices,
    devices,
    groups,
    native_groups,
    nodes,
    pods,
    queues,
    storage,
    topology,
    workloads,
)
from pumice.manifests.errors import FieldError, ManifestError
from pumice.manifests.shapes import Shape, decode, without_nulls
from pumice.v1 import object_pb2
from pumice.v1.object_pb2 import Kind

S = TypeVar("S")
M = TypeVar("M", bound=Message)

_CORE: Final = ""
_APPS: Final = "apps"
_POLICY: Final = "policy"
_SCHEDULING: Final = "scheduling.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
# The API group of Volcano and the two of its predecessor kube-batch.
_VOLCANO: Final = (
    "scheduling.volcano.sh",
    "scheduling.incubator.k8s.io",
    "scheduling.sigs.dev",
)


@dataclass(frozen=True, slots=True)
class Reader(Generic[S, M]):
    """Reads the objects of one kind."""

    kind: Kind.ValueType
    # The kind in Kubernetes, and its API groups.
    name: str
    groups: tuple[str, ...]
    decoder: msgspec.json.Decoder[S]
    fill: Callable[[M, S], None]
    namespaced: bool = False
    # The field of ClusterObject; its number is the value of the kind.
    field: str = field(init=False)

    def __post_init__(self) -> None:
        fields = object_pb2.ClusterObject.DESCRIPTOR.fields_by_number
        object.__setattr__(self, "field", fields[self.kind].name)

    def read(self, data: bytes | Raw, target: M, source: str = "") -> None:
        """Fills the message from JSON; after an error the message is empty."""
        try:
            self.fill(target, decode(self.decoder, data))
        except FieldError as error:
            target.Clear()
            self._read_without_nulls(bytes(data), target, error, source)

    def _read_without_nulls(self, data: bytes, target: M, error: FieldError, source: str) -> None:
        """Reads the object again without nulls, which Kubernetes treats as absent.

        API servers rarely send nulls, so the fast path does not check for them.
        """
        if b"null" in data:
            try:
                cleaned = msgspec.json.encode(without_nulls(msgspec.json.decode(data)))
                self.fill(target, decode(self.decoder, cleaned))
                return
            except FieldError as again:
                target.Clear()
                error = again
            except (msgspec.DecodeError, RecursionError):
                pass
        raise self._named(error, data, source) from None

    def _named(self, error: FieldError, data: bytes, source: str) -> ManifestError:
        return ManifestError(
            error.problem,
            source=source,
            kind=self.name,
            name=_name_in(data, self.namespaced),
            field=error.field,
            allowed=error.allowed,
        )


class _Name(Shape, frozen=True):
    """Namespace and name of an object."""

    name: str = ""
    namespace: str = "default"


class _Head(Shape, frozen=True):
    """The fields of an object that errors contain."""

    metadata: _Name = _Name()


_HEAD: Final = msgspec.json.Decoder(_Head)


def _name_in(data: bytes, namespaced: bool) -> str:
    try:
        metadata = decode(_HEAD, data).metadata
    except FieldError:
        return ""
    if namespaced and metadata.name:
        return f"{metadata.namespace or 'default'}/{metadata.name}"
    return metadata.name


_POD: Final = Reader(Kind.KIND_POD, "Pod", (_CORE,), pods.DECODER, pods.fill_pod, namespaced=True)

READERS: Final[tuple[Reader[Any, Any], ...]] = (
    Reader(Kind.KIND_NODE, "Node", (_CORE,), nodes.DECODER, nodes.fill_node),
    _POD,
    Reader(
        Kind.KIND_POD_GROUP, "PodGroup", _VOLCANO,
        groups.DECODER, groups.fill_pod_group, namespaced=True,
    ),
    Reader(
        Kind.KIND_POD_GROUP, "PodGroup", (_SCHEDULING,),
        native_groups.DECODER, native_groups.fill_native_group, namespaced=True,
    ),
    Reader(Kind.KIND_QUEUE, "Queue", _VOLCANO, queues.QUEUE_DECODER, queues.fill_queue),
    Reader(
        Kind.KIND_PRIORITY_CLASS, "PriorityClass", (_SCHEDULING,),
        queues.PRIORITY_CLASS_DECODER, queues.fill_priority_class,
    ),
    Reader(
        Kind.KIND_RESOURCE_QUOTA, "ResourceQuota", (_CORE,),
        queues.RESOURCE_QUOTA_DECODER, queues.fill_resource_quota, namespaced=True,
    ),
    Reader(
        Kind.KIND_NAMESPACE, "Namespace", (_CORE,),
        queues.NAMESPACE_DECODER, queues.fill_namespace,
    ),
    Reader(
        Kind.KIND_POD_DISRUPTION_BUDGET, "PodDisruptionBudget", (_POLICY,),
        workloads.BUDGET_DECODER, workloads.fill_budget, namespaced=True,
    ),
    Reader(
        Kind.KIND_SERVICE, "Service", (_CORE,),
        workloads.BY_LABELS_DECODER, workloads.fill_by_labels("Service"), namespaced=True,
    ),
    Reader(
        Kind.KIND_REPLICA_SET, "ReplicaSet", (_APPS,),
        workloads.BY_SELECTOR_DECODER, workloads.fill_by_selector("ReplicaSet"), namespaced=True,
    ),
    Reader(
        Kind.KIND_REPLICATION_CONTROLLER, "ReplicationController", (_CORE,),
        workloads.BY_LABELS_DECODER, workloads.fill_by_labels("ReplicationController"),
        namespaced=True,
    ),
    Reader(
        Kind.KIND_STATEFUL_SET, "StatefulSet", (_APPS,),
        workloads.BY_SELECTOR_DECODER, workloads.fill_by_selector("StatefulSet"), namespaced=True,
    ),
    Reader(
        Kind.KIND_PERSISTENT_VOLUME, "PersistentVolume", (_CORE,),
        storage.VOLUME_DECODER, storage.fill_volume,
    ),
    Reader(
        Kind.KIND_PERSISTENT_VOLUME_CLAIM, "PersistentVolumeClaim", (_CORE,),
        storage.CLAIM_DECODER, storage.fill_claim, namespaced=True,
    ),
    Reader(
        Kind.KIND_STORAGE_CLASS, "StorageClass", (_STORAGE,),
        storage.STORAGE_CLASS_DECODER, storage.fill_storage_class,
    ),
    Reader(
        Kind.KIND_CSI_NODE, "CSINode", (_STORAGE,), csi.CSI_NODE_DECODER, csi.fill_csi_node
    ),
    Reader(
        Kind.KIND_CSI_DRIVER, "CSIDriver", (_STORAGE,),
        csi.CSI_DRIVER_DECODER, csi.fill_csi_driver,
    ),
    Reader(
        Kind.KIND_CSI_STORAGE_CAPACITY, "CSIStorageCapacity", (_STORAGE,),
        csi.CSI_STORAGE_CAPACITY_DECODER, csi.fill_csi_storage_capacity, namespaced=True,
    ),
    Reader(
        Kind.KIND_VOLUME_ATTACHMENT, "VolumeAttachment", (_STORAGE,),
        csi.VOLUME_ATTACHMENT_DECODER, csi.fill_volume_attachment,
    ),
    Reader(
        Kind.KIND_RESOURCE_CLAIM, "ResourceClaim", (_RESOURCE,),
        devices.CLAIM_DECODER, devices.fill_resource_claim, namespaced=True,
    ),
    Reader(
        Kind.KIND_RESOURCE_SLICE, "ResourceSlice", (_RESOURCE,),
        device_slices.DECODER, device_slices.fill_resource_slice,
    ),
    Reader(
        Kind.KIND_DEVICE_CLASS, "DeviceClass", (_RESOURCE,),
        devices.CLASS_DECODER, devices.fill_device_class,
    ),
    Reader(
        Kind.KIND_HYPER_NODE, "HyperNode", ("topology.volcano.sh",),
        topology.HYPER_NODE_DECODER, topology.fill_hyper_node,
    ),
    Reader(
        Kind.KIND_NUMA_TOPOLOGY, "Numatopology", ("nodeinfo.volcano.sh",),
        topology.NUMA_DECODER, topology.fill_numa_topology,
    ),
    Reader(
        Kind.KIND_NODE_SHARD, "NodeShard", ("shard.volcano.sh",),
        topology.SHARD_DECODER, topology.fill_node_shard,
    ),
)  # fmt: skip

# If a kind has several readers, the first one is for Volcano's objects.
_BY_KIND: Final = {reader.kind: reader for reader in reversed(READERS)}
_BY_NAME: Final = {(group, reader.name): reader for reader in READERS for group in reader.groups}


def reader_of(kind: Kind.ValueType, group: str = "") -> Reader[Any, Any]:
    """The reader of a kind of the protocol; an API group may have its own reader."""
    reader: Reader[Any, Any] = _BY_KIND[kind]
    return _BY_NAME.get((group, reader.name), reader) if group else reader


def reader_for(api_version: str, kind: str) -> Reader[Any, Any] | None:
    """The reader of a Kubernetes kind; None for kinds that scheduling does not read."""
    group = api_version.rpartition("/")[0]
    return _BY_NAME.get((group, kind))

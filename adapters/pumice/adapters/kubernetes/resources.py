"""The watched resources and their API paths."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from pumice.adapters.runtime.objects import KindNumber
from pumice.v1 import object_pb2 as kinds


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object in one API group."""

    kind: KindNumber
    # Kubernetes' names for the kind and its plural.
    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = False
    # Whether a CustomResourceDefinition defines it, so that it can be missing and appear later.
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def full_name(self) -> str:
        """The name of its definition, such as `podgroups.scheduling.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object, or of a subresource."""
        parts = [self.base]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{_quoted(namespace)}")
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


# Names that need no quoting in a path, like nearly all names.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]*")


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


# Position of the plural in a path, and numbers of parts after the group and version.
_FIRST_PART: Final = 3
_NAMESPACED: Final = 2
_WITH_SUBRESOURCE: Final = 3

_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"
_INCUBATOR: Final = "scheduling.incubator.k8s.io"
_SIGS: Final = "scheduling.sigs.dev"

RESOURCE_CLAIMS: Final = Resource(
    kinds.KIND_RESOURCE_CLAIM, "ResourceClaim", "resourceclaims", _DEVICES, namespaced=True
)
DEVICE_CLASSES: Final = Resource(kinds.KIND_DEVICE_CLASS, "DeviceClass", "deviceclasses", _DEVICES)
NODES: Final = Resource(kinds.KIND_NODE, "Node", "nodes")
PODS: Final = Resource(kinds.KIND_POD, "Pod", "pods", namespaced=True)
VOLUMES: Final = Resource(kinds.KIND_PERSISTENT_VOLUME, "PersistentVolume", "persistentvolumes")
EVENTS: Final = Resource(kinds.KIND_UNSPECIFIED, "Event", "events", namespaced=True)
CLAIMS: Final = Resource(
    kinds.KIND_PERSISTENT_VOLUME_CLAIM,
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    namespaced=True,
)


def _group(group: str, version: str) -> Resource:
    return Resource(
        kinds.KIND_POD_GROUP, "PodGroup", "podgroups", group, version, namespaced=True, custom=True
    )


def _queue(group: str, version: str) -> Resource:
    return Resource(kinds.KIND_QUEUE, "Queue", "queues", group, version, custom=True)


# PodGroups of Kubernetes, which an API server serves behind a feature gate.
NATIVE_GROUPS: Final = Resource(
    kinds.KIND_POD_GROUP, "PodGroup", "podgroups", "scheduling.k8s.io", "v1alpha2", namespaced=True
)
# Those of Volcano first, then those of kube-batch and of Kubernetes.
POD_GROUPS: Final = (
    _group(VOLCANO, "v1beta1"),
    _group(_SIGS, "v1alpha2"),
    _group(_INCUBATOR, "v1alpha1"),
    NATIVE_GROUPS,
)
QUEUES: Final = (
    _queue(VOLCANO, "v1beta1"),
    _queue(_SIGS, "v1alpha2"),
    _queue(_INCUBATOR, "v1alpha1"),
)
NODE_SHARDS = Resource(
    kinds.KIND_NODE_SHARD,
    "NodeShard",
    "nodeshards",
    "shard.volcano.sh",
    "v1alpha1",
    custom=True,
)

RESOURCES: Final[tuple[Resource, ...]] = (
    Resource(kinds.KIND_NAMESPACE, "Namespace", "namespaces"),
    Resource(kinds.KIND_PRIORITY_CLASS, "PriorityClass", "priorityclasses", "scheduling.k8s.io"),
    *QUEUES,
    Resource(kinds.KIND_STORAGE_CLASS, "StorageClass", "storageclasses", _STORAGE),
    Resource(kinds.KIND_CSI_DRIVER, "CSIDriver", "csidrivers", _STORAGE),
    DEVICE_CLASSES,
    VOLUMES,
    NODES,
    Resource(kinds.KIND_CSI_NODE, "CSINode", "csinodes", _STORAGE),
    Resource(
        kinds.KIND_HYPER_NODE,
        "HyperNode",
        "hypernodes",
        "topology.volcano.sh",
        "v1alpha1",
        custom=True,
    ),
    *POD_GROUPS,
    CLAIMS,
    PODS,
    Resource(kinds.KIND_RESOURCE_QUOTA, "ResourceQuota", "resourcequotas", namespaced=True),
    Resource(
        kinds.KIND_POD_DISRUPTION_BUDGET,
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "policy",
        namespaced=True,
    ),
    Resource(kinds.KIND_SERVICE, "Service", "services", namespaced=True),
    Resource(kinds.KIND_REPLICA_SET, "ReplicaSet", "replicasets", "apps", namespaced=True),
    Resource(
        kinds.KIND_REPLICATION_CONTROLLER,
        "ReplicationController",
        "replicationcontrollers",
        namespaced=True,
    ),
    Resource(kinds.KIND_STATEFUL_SET, "StatefulSet", "statefulsets", "apps", namespaced=True),
    Resource(
        kinds.KIND_CSI_STORAGE_CAPACITY,
        "CSIStorageCapacity",
        "csistoragecapacities",
        _STORAGE,
        namespaced=True,
    ),
    Resource(kinds.KIND_VOLUME_ATTACHMENT, "VolumeAttachment", "volumeattachments", _STORAGE),
    RESOURCE_CLAIMS,
    Resource(kinds.KIND_RESOURCE_SLICE, "ResourceSlice", "resourceslices", _DEVICES),
    Resource(
        kinds.KIND_NUMA_TOPOLOGY,
        "Numatopology",
        "numatopologies",
        "nodeinfo.volcano.sh",
        "v1alpha1",
        custom=True,
    ),
    NODE_SHARDS,
)


def resources_of(kind: KindNumber) -> list[Resource]:
    """The resources of a kind, the most likely first."""
    return [resource for resource in RESOURCES if resource.kind == kind]


def resource_label(path: str) -> str:
    """The resource and subresource of a path, without names of objects.

    `/api/v1/namespaces/a/pods/b/binding` is `pods/binding`. Other paths are `other`.
    """
    parts = path.split("/")
    if len(parts) > _FIRST_PART and parts[1] == "api":
        parts = parts[3:]
    elif len(parts) > _FIRST_PART + 1 and parts[1] == "apis":
        parts = parts[4:]
    else:
        return "other"
    if len(parts) > _NAMESPACED and parts[0] == "namespaces":
        parts = parts[2:]
    return parts[0] if len(parts) < _WITH_SUBRESOURCE else f"{parts[0]}/{parts[2]}"


def group_of(path: str) -> str:
    """The API group in a path; "": the core group."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > _FIRST_PART and parts[1] == "apis" else ""


def namespace_of(path: str) -> str:
    """The namespace in a path; "": the path has none."""
    _, found, rest = path.partition("/namespaces/")
    namespace, found, _ = rest.partition("/")
    return namespace if found else ""

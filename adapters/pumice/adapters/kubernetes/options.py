"""Settings of leader election and of a Kubernetes world."""

from dataclasses import dataclass, field
from pathlib import Path

from pumice.adapters.kubernetes.resources import RESOURCES, Resource
from pumice.adapters.kubernetes.selection import Selection
from pumice.v1 import object_pb2 as kinds
from pumice.v1.configuration_pb2 import Configuration

_WORKLOADS = (
    kinds.KIND_REPLICA_SET,
    kinds.KIND_REPLICATION_CONTROLLER,
    kinds.KIND_STATEFUL_SET,
)


# Share of the time between the renew deadline and the end of the lease that is kept free.
_MARGIN = 0.2


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The name of the lease and its times. The defaults are those of Volcano."""

    identity: str
    namespace: str = "volcano-system"
    name: str = "volcano"
    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_seconds > self.renew_deadline_seconds > self.retry_period_seconds > 0:
            raise ValueError(
                "the lease duration must be longer than the renew deadline,"
                " and that longer than the retry period"
            )

    @property
    def call_seconds(self) -> float:
        """Timeout of a call, which ends before another adapter can lead."""
        return (self.duration_seconds - self.renew_deadline_seconds) * (1 - _MARGIN)


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """One key of a ConfigMap."""

    namespace: str
    name: str
    key: str = "volcano-scheduler.conf"

    @classmethod
    def parse(cls, text: str) -> "ConfigMapKey":
        """Reads `namespace/name` or `namespace/name/key`. Raises ValueError."""
        parts = text.split("/")
        if not 2 <= len(parts) <= 3 or not all(parts):
            raise ValueError(f"{text!r} is not namespace/name or namespace/name/key")
        return cls(*parts)

    def __str__(self) -> str:
        return f"key {self.key} of ConfigMap {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """Settings of one Kubernetes world."""

    selection: Selection = field(default_factory=Selection)
    # The configuration without the scheduler configuration, which is watched.
    configuration: Configuration = field(default_factory=Configuration)
    scheduler_conf: Path | None = None
    config_map: ConfigMapKey | None = None
    default_queue: str = "default"
    make_queues: bool = True
    # Whether nothing may be written, not even events.
    read_only: bool = False
    # Kinds that are not watched.
    unwatched: frozenset[kinds.Kind.ValueType] = frozenset()
    # Timeout of one call, short enough to end before another adapter can lead.
    call_seconds: float = 4.0
    # Time from the first write for the volumes of a pod until they must be bound.
    volume_seconds: float = 50.0
    page_size: int = 500
    file_poll_seconds: float = 1.0

    @property
    def resources(self) -> list[Resource]:
        return [resource for resource in RESOURCES if resource.kind not in self.unwatched]

    @property
    def component(self) -> str:
        """The source component of events."""
        names = self.selection.scheduler_names
        return names[0] if len(names) == 1 else "volcano"


def unwatched_kinds(
    gates: dict[str, bool], *, priority_class: bool, csi_storage: bool, sharding: bool = False
) -> frozenset[kinds.Kind.ValueType]:
    """The kinds that flags and feature gates exclude."""
    excluded: set[kinds.Kind.ValueType] = set()
    if not sharding:
        excluded.add(kinds.KIND_NODE_SHARD)
    if not (priority_class and gates.get("PriorityClass", True)):
        excluded.add(kinds.KIND_PRIORITY_CLASS)
    if not csi_storage:
        excluded |= {kinds.KIND_CSI_DRIVER, kinds.KIND_CSI_STORAGE_CAPACITY}
    if not gates.get("WorkLoadSupport", True):
        excluded.update(_WORKLOADS)
    if not gates.get("PodDisruptionBudgetsSupport", True):
        excluded.add(kinds.KIND_POD_DISRUPTION_BUDGET)
    if not gates.get("ResourceTopology", True):
        excluded.add(kinds.KIND_NUMA_TOPOLOGY)
    return frozenset(excluded)

"""PodGroups, queues, priority classes, quotas, namespaces, budgets and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from operator import attrgetter

from pumice.core.model.selectors import LabelSelector


class PodGroupPhase(StrEnum):
    """The phase of a PodGroup; empty before a scheduler has seen it."""

    NONE = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True)
class NetworkTopology:
    """The network tiers over which a job may be spread."""

    hard: bool = True
    highest_tier: int | None = None
    highest_tier_name: str = ""


@dataclass(frozen=True, slots=True)
class SubGroupPolicy:
    """Divides a job's pods into gangs of their own."""

    name: str
    selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: int = 1
    min_sub_groups: int = 0
    network_topology: NetworkTopology | None = None


# PodGroups and their statuses are not frozen, because frozen ones take three times as long to make.
# No code changes one.
@dataclass(slots=True, unsafe_hash=True)
class PodGroupCondition:
    """A condition of a PodGroup's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    transition_id: str = ""
    transition_time_ns: int = 0


@dataclass(slots=True, unsafe_hash=True)
class PodGroupStatus:
    """The status of a PodGroup, which the scheduler writes."""

    phase: PodGroupPhase = PodGroupPhase.NONE
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[PodGroupCondition, ...] = ()


@dataclass(slots=True)
class PodGroup:
    """A job: pods that start together or not at all."""

    uid: str
    namespace: str
    name: str
    creation_time_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    min_member: int = 0
    min_task_member: tuple[tuple[str, int], ...] = ()
    # None: not given, so that the job is always admitted. Units are those of PodSpec.requests.
    min_resources: tuple[tuple[str, int], ...] | None = None
    # The same with the names of the PodGroup itself, in thousandths, for quotas.
    min_resources_milli: tuple[tuple[str, int], ...] = ()
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    # A label that must have the same value on all nodes of the pods.
    topology_key: str = ""
    sub_group_policies: tuple[SubGroupPolicy, ...] = ()
    preemptable: bool = False
    revocable_zone: str = ""
    # None: no (valid) annotation.
    sla_waiting_time_ns: int | None = None
    # The sender's hash of the fields that scheduling reads, which the core does not interpret.
    # Decisions carry it back, so that the sender can refuse those made for another version.
    spec_hash: str = ""
    status: PodGroupStatus = field(default_factory=PodGroupStatus)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def with_status(self, status: PodGroupStatus) -> PodGroup:
        return PodGroup(*(*_ALL_BUT_STATUS(self), status))


_ALL_BUT_STATUS = attrgetter(*(f.name for f in fields(PodGroup) if f.name != "status"))


class QueueState(StrEnum):
    """Whether a queue takes jobs."""

    NONE = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class NodeGroupAffinity:
    """The node groups a queue must, should, should not and must not use."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of jobs; amounts are in the units of ``PodSpec.requests``."""

    uid: str
    name: str
    creation_time_ns: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1
    priority: int = 0
    parent: str = ""
    # None: not given, which counts as true.
    reclaimable: bool | None = None
    # None: not given, which is not the same as empty.
    capability: tuple[tuple[str, int], ...] | None = None
    deserved: tuple[tuple[str, int], ...] | None = None
    guarantee: tuple[tuple[str, int], ...] | None = None
    affinity: NodeGroupAffinity | None = None
    state: QueueState = QueueState.NONE
    allocated: tuple[tuple[str, int], ...] = ()

    @property
    def is_reclaimable(self) -> bool:
        """Whether others may reclaim from it."""
        return self.reclaimable is not False


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A named priority."""

    uid: str
    name: str
    value: int
    global_default: bool = False


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """What a namespace may use, and uses, in thousandths; names are those of the quota."""

    uid: str
    namespace: str
    name: str
    hard_milli: tuple[tuple[str, int], ...] = ()
    used_milli: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, for selectors over namespaces."""

    uid: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """How many of the selected pods may be unavailable at once."""

    uid: str
    namespace: str
    name: str
    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    disrupted_pods: tuple[str, ...] = ()
    # The integer minAvailable and the controller of the pods, which define a gang in kube-batch's mode.
    min_available: int = 0
    creation_time_ns: int = 0
    controller_uid: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Service, ReplicaSet, ReplicationController or StatefulSet, for default spread constraints."""

    uid: str
    kind: str
    namespace: str
    name: str
    selector: LabelSelector | None = None

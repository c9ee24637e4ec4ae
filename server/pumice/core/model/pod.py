"""A pod as scheduling reads it: what it is (``Pod``) and what it asks for (``PodSpec``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum

from pumice.core.model.selectors import LabelSelector, NodeSelectorTerm, Toleration


class PodPhase(IntEnum):
    """The phase the kubelet last reported."""

    UNKNOWN = 0
    PENDING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that the pod needs exclusively."""

    protocol: str
    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class WeightedNodeTerm:
    """A preference for nodes that match the term."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods to be near to, or away from, within one value of the topology key."""

    topology_key: str
    # None matches no pod; an empty selector matches every pod.
    selector: LabelSelector | None = None
    # Where both are empty or None: the namespace of the pod that has the term.
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """A preference to be near to, or away from, some pods."""

    weight: int
    term: PodAffinityTerm


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How unevenly matching pods may be spread over the values of a topology key."""

    topology_key: str
    max_skew: int
    # True: a filter (DoNotSchedule); False: a score (ScheduleAnyway).
    required: bool
    selector: LabelSelector | None = None
    min_domains: int = 1
    honor_node_affinity: bool = True
    honor_node_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume that comes from a claim."""

    claim_name: str
    # The claim is made for this pod and must be owned by it.
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class PodResourceClaim:
    """A resource claim of the pod; ``claim_name`` is empty until a claim of a template exists."""

    name: str
    claim_name: str = ""


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container asks for by itself; amounts are in the units of ``PodSpec.requests``."""

    init: bool = False
    milli_cpu: int = 0
    # Limits of extended resources, and requests of those that have no limit.
    limits: tuple[tuple[str, int], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    name: str = ""
    # An init container that runs beside the regular ones.
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The fields that decide where a pod can be placed; pods with equal specs share a task class."""

    # Resource name -> amount: cpu in millicores; memory, storage and huge pages in bytes; pods
    # (always 1) and attachable volumes as counts; everything else in thousandths of its unit.
    requests: tuple[tuple[str, int], ...] = ()
    # A container without a request counts as 100 m of cpu and 200 MiB of memory here.
    non_zero_milli_cpu: int = 0
    non_zero_memory_bytes: int = 0
    # The same two without pod-level resources; None: the pod has none.
    container_milli_cpu: int | None = None
    container_memory_bytes: int | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    # None: no required node affinity; empty: one that no node satisfies.
    required_node_terms: tuple[NodeSelectorTerm, ...] | None = None
    preferred_node_terms: tuple[WeightedNodeTerm, ...] = ()
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    # Images of init and regular containers and image volumes, with a tag or digest.
    images: tuple[str, ...] = ()
    # Regular and init containers; the image score is scaled by it.
    container_count: int = 1
    volumes: tuple[PodVolume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    scheduler_name: str = ""
    priority_class_name: str = ""
    never_preempts: bool = False
    numa_policy: str = ""
    # Regular containers, then init containers; of pods that are Guaranteed or ask for extended
    # resources only.
    containers: tuple[ContainerResources, ...] = ()
    # The quality of service is Guaranteed.
    guaranteed: bool = False
    # Cpu and memory that the pod as a whole may use; 0: no limit.
    limit_milli_cpu: int = 0
    limit_memory_bytes: int = 0
    # The hash is computed once, because every pod looks up its spec.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def has_pod_affinity(self) -> bool:
        """Whether Kubernetes counts a pod with this spec as one with affinity."""
        return bool(
            self.required_anti_affinity
            or self.preferred_anti_affinity
            or self.required_affinity
            or self.preferred_affinity
        )

    def scored_amounts(self) -> tuple[int, int]:
        """Cpu and memory of the pod in the scores for least and most requested.

        Kubernetes leaves pod-level resources out here, but counts them for pods on nodes.
        """
        cpu, memory = self.container_milli_cpu, self.container_memory_bytes
        return (
            self.non_zero_milli_cpu if cpu is None else cpu,
            self.non_zero_memory_bytes if memory is None else memory,
        )

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            values = (getattr(self, f.name) for f in fields(self) if f.compare)
            known = hash(tuple(values))
            object.__setattr__(self, "_hash", known)
        return known


@dataclass(frozen=True, slots=True)
class PodCondition:
    """A condition of a pod's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    transition_time_ns: int = 0


# Not frozen, because a frozen one takes three times as long to make, and a snapshot makes a hundred
# thousand. No code changes one.
@dataclass(slots=True)
class Pod:
    """One pod of the cluster. It never changes, so that pods may share labels and other values."""

    uid: str
    namespace: str
    name: str
    spec: PodSpec = field(default_factory=PodSpec)
    creation_time_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    # The annotations of Volcano's, Kubernetes scheduling's and pumice's domains.
    annotations: Mapping[str, str] = field(default_factory=dict)
    phase: PodPhase = PodPhase.PENDING
    terminating: bool = False
    node_name: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    start_time_ns: int = 0
    # PodGroup in the pod's namespace; empty: the pod belongs to no job.
    group_name: str = ""
    role: str = ""
    # spec.priority, 0 if unset; preemption compares it on a nominated node.
    priority: int = 0
    # For the order of tasks: 1, or spec.priority, or the task-priority annotation.
    task_priority: int = 1
    preemptable: bool = True
    revocable_zone: str = ""
    controller_uid: str = ""
    controller_kind: str = ""
    controller_name: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

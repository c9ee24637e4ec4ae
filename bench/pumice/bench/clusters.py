"""Generated clusters for benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import (
    PodGroup,
    PodGroupCondition,
    PodGroupPhase,
    PodGroupStatus,
    PriorityClass,
    Queue,
    QueueState,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import (
    Pod,
    PodAffinityTerm,
    PodPhase,
    PodSpec,
    SpreadConstraint,
    WeightedNodeTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)

GIB = 2**30
MIB = 2**20
NAMESPACE = "bench"
GPU = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DISK = "disk"
NODE_MILLI_CPU = 32_000
_ZONES = 8
_READY = PodGroupCondition("Scheduled", "True", "tasks in gang are ready to be scheduled")


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a cluster and its workload."""

    nodes: int = 1000
    jobs: int = 1000
    size: int = 10
    queues: int = 4
    classes: int = 100

    @property
    def pods(self) -> int:
        return self.jobs * self.size

    def scaled(self, factor: float) -> Size:
        return replace(
            self,
            nodes=max(8, int(self.nodes * factor)),
            jobs=max(1, int(self.jobs * factor)),
            classes=max(1, min(self.classes, int(self.classes * factor * 4))),
        )


def nodes(
    count: int, *, milli_cpu: int = NODE_MILLI_CPU, memory: int = 256 * GIB
) -> Iterator[Node]:
    """Equal nodes; one in four has GPUs, one in five a taint, one in two a fast disk."""
    for number in range(count):
        name = f"node-{number:05d}"
        offered = [("cpu", milli_cpu), ("memory", memory), ("pods", 110)]
        if number % 4 == 0:
            offered.append((GPU, 8000))
        labels = {HOSTNAME: name, ZONE: f"zone-{number % _ZONES}"}
        if number % 2:
            labels[DISK] = "fast"
        yield Node(f"uid-{name}", name, labels=labels, allocatable=tuple(offered))


def tainted(node: Node) -> Node:
    return replace(node, taints=(Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE),))


def queues(count: int) -> Iterator[Queue]:
    for number in range(count):
        name = f"queue-{number}"
        yield Queue(f"uid-{name}", name, weight=1 + number % 4, state=QueueState.OPEN)


def plain_spec(number: int) -> PodSpec:
    """A spec of one of many classes, which differ in CPU and memory."""
    milli_cpu, memory = 1000 + 10 * (number % 10), GIB + number // 10 * MIB
    return spec_of(milli_cpu, memory)


def spec_of(milli_cpu: int, memory: int, *more: tuple[str, int]) -> PodSpec:
    return PodSpec(
        requests=(("cpu", milli_cpu), ("memory", memory), ("pods", 1), *more),
        non_zero_milli_cpu=milli_cpu,
        non_zero_memory_bytes=memory,
        scheduler_name="volcano",
    )


def mixed_spec(number: int) -> PodSpec:
    """A sixth each: selector, toleration, anti-affinity, spread, preferred affinity, GPU."""
    job = LabelSelector((Requirement("job", Operator.IN, (f"job-{number:05d}",)),))
    fast = Requirement(DISK, Operator.IN, ("fast",))
    match number % 6:
        case 0:
            return replace(plain_spec(number), node_selector=((DISK, "fast"),))
        case 1:
            tolerated = Toleration("dedicated", "batch", effect=TaintEffect.NO_SCHEDULE)
            return replace(plain_spec(number), tolerations=(tolerated,))
        case 2:
            away = PodAffinityTerm(HOSTNAME, job)
            return replace(plain_spec(number), required_anti_affinity=(away,))
        case 3:
            spread = SpreadConstraint(ZONE, 1, required=True, selector=job)
            return replace(plain_spec(number), spread_constraints=(spread,))
        case 4:
            preferred = WeightedNodeTerm(10, NodeSelectorTerm((fast,)))
            return replace(plain_spec(number), preferred_node_terms=(preferred,))
        case _:
            return spec_of(1000, 2 * GIB, (GPU, 1000))


def pending_job(
    number: int, size: int, spec: PodSpec, queue: str, priority_class: str = ""
) -> Iterator[ClusterObject]:
    """An Inqueue gang without any pod placed."""
    name = f"job-{number:05d}"
    yield PodGroup(
        f"uid-{name}",
        NAMESPACE,
        name,
        creation_time_ns=number,
        queue=queue,
        min_member=size,
        priority_class_name=priority_class,
        status=PodGroupStatus(PodGroupPhase.INQUEUE),
    )
    for index in range(size):
        yield Pod(
            f"uid-{name}-{index}",
            NAMESPACE,
            f"{name}-worker-{index}",
            spec=spec,
            creation_time_ns=number,
            labels={"job": name},
            group_name=name,
        )


def running_job(
    number: int, places: list[str], spec: PodSpec, queue: str, *, minimum: int = 1
) -> Iterator[ClusterObject]:
    """A running job with its pods on the given nodes."""
    name = f"old-{number:05d}"
    status = PodGroupStatus(PodGroupPhase.RUNNING, running=len(places), conditions=(_READY,))
    yield PodGroup(
        f"uid-{name}",
        NAMESPACE,
        name,
        queue=queue,
        min_member=minimum,
        status=status,
        creation_time_ns=number,
    )
    for index, node in enumerate(places):
        yield Pod(
            f"uid-{name}-{index}",
            NAMESPACE,
            f"{name}-worker-{index}",
            spec=spec,
            phase=PodPhase.RUNNING,
            node_name=node,
            labels={"job": name},
            group_name=name,
            creation_time_ns=number,
        )


def fresh(size: Size) -> Iterator[ClusterObject]:
    """An empty cluster with new gangs."""
    yield from queues(size.queues)
    yield from nodes(size.nodes)
    specs = [plain_spec(number) for number in range(size.classes)]
    for number in range(size.jobs):
        queue = f"queue-{number % size.queues}"
        yield from pending_job(number, size.size, specs[number % size.classes], queue)


def mixed(size: Size) -> Iterator[ClusterObject]:
    """The same with jobs of six kinds; one node in five has a taint."""
    yield from queues(size.queues)
    for number, node in enumerate(nodes(size.nodes)):
        yield tainted(node) if number % 5 == 0 else node
    for number in range(size.jobs):
        queue = f"queue-{number % size.queues}"
        yield from pending_job(number, size.size, mixed_spec(number), queue)


def full(size: Size, *, per_node: int, low_queue: str) -> Iterator[ClusterObject]:
    """A cluster that running jobs of low priority in one queue fill completely."""
    yield PriorityClass("uid-high", "high", 1000)
    yield from queues(size.queues)
    yield from nodes(size.nodes, milli_cpu=per_node * 1000)
    spec = spec_of(1000, GIB)
    names = [f"node-{number:05d}" for number in range(size.nodes)]
    places = [name for name in names for _ in range(per_node)]
    for number in range(0, len(places), 10):
        yield from running_job(number // 10, places[number : number + 10], spec, low_queue)


def settled(size: Size) -> Iterator[ClusterObject]:
    """A cluster in which all pods run."""
    yield from queues(size.queues)
    yield from nodes(size.nodes)
    specs = [plain_spec(number) for number in range(size.classes)]
    for number in range(size.jobs):
        places = [
            f"node-{(number * size.size + index) % size.nodes:05d}" for index in range(size.size)
        ]
        spec = specs[number % size.classes]
        queue = f"queue-{number % size.queues}"
        yield from running_job(number, places, spec, queue, minimum=size.size)

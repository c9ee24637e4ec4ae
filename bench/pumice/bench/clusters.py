"""Generated clusters for benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pumice.bench.background import Background, pending_count
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
# With the background, one gang in N requests GPUs.
_GPU_JOB_IN = 20
_READY = PodGroupCondition("Scheduled", "True", "tasks in gang are ready to be scheduled")


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a generated cluster and its workload, and whether it has a background."""

    nodes: int = 1000
    jobs: int = 1000
    size: int = 10
    queues: int = 4
    classes: int = 100
    # Whether the cluster has the objects of ``background``, generated from the seed.
    has_background: bool = True
    seed: int = 0
    # Whether every queue has a parent below the root, for capacity with a hierarchy.
    queue_tree: bool = False

    @property
    def pods(self) -> int:
        return self.jobs * self.size

    @property
    def pending_pods(self) -> int:
        """The number of pending pods in a fresh cluster, of workload and background."""
        return self.pods + (pending_count(self.jobs) if self.has_background else 0)

    @property
    def background_figures(self) -> dict[str, object]:
        """The kind of background and the seed, as figures of a result."""
        return {"background": "lifelike" if self.has_background else "none", "seed": self.seed}

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


def nodes_of(size: Size) -> Iterator[Node]:
    """The nodes of a cluster, with the background if the size has one."""
    background = Background(size.seed)
    for number, node in enumerate(nodes(size.nodes)):
        yield background.node(node, number) if size.has_background else node


def tainted(node: Node) -> Node:
    return replace(node, taints=(Taint("dedicated", "batch", TaintEffect.NO_SCHEDULE),))


def queues(size: Size) -> Iterator[Queue]:
    """The queues of the workload, with weights of one to four; in a tree, two under each parent."""
    if size.queue_tree:
        yield Queue("uid-root", "root", state=QueueState.OPEN)
    for number in range(size.queues):
        name, parent = f"queue-{number}", f"team-{number // 2}" if size.queue_tree else ""
        if parent and number % 2 == 0:
            yield Queue(f"uid-{parent}", parent, parent="root", state=QueueState.OPEN)
        yield Queue(
            f"uid-{name}", name, weight=1 + number % 4, parent=parent, state=QueueState.OPEN
        )


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
    """One of six kinds: selector, toleration, anti-affinity, spread, preferred affinity, GPU."""
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
    """An Inqueue gang with pending pods only."""
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


def empty(size: Size) -> Iterator[ClusterObject]:
    """A cluster without a workload."""
    return _with_background([*queues(size), *nodes(size.nodes)], size)


def fresh(size: Size) -> Iterator[ClusterObject]:
    """A cluster with new gangs; with the background, one in twenty requests GPUs."""
    return _with_background(_fresh(size), size)


def _fresh(size: Size) -> Iterator[ClusterObject]:
    yield from queues(size)
    yield from nodes(size.nodes)
    specs = [plain_spec(number) for number in range(size.classes)]
    for number in range(size.jobs):
        queue, spec = f"queue-{number % size.queues}", specs[number % size.classes]
        if size.has_background and number % _GPU_JOB_IN == _GPU_JOB_IN - 1:
            spec = replace(spec, requests=(*spec.requests, (GPU, 1000)))
        yield from pending_job(number, size.size, spec, queue)


def with_gpus(size: Size) -> Iterator[ClusterObject]:
    """New gangs that all request GPUs; every node has sixteen."""
    return _with_background(_with_gpus(size), size)


def _with_gpus(size: Size) -> Iterator[ClusterObject]:
    yield from queues(size)
    for node in nodes(size.nodes):
        offered = {**dict(node.allocatable), GPU: 16_000}
        yield replace(node, allocatable=tuple(offered.items()))
    specs = [plain_spec(number) for number in range(size.classes)]
    for number in range(size.jobs):
        spec = specs[number % size.classes]
        spec = replace(spec, requests=(*spec.requests, (GPU, 1000)))
        yield from pending_job(number, size.size, spec, f"queue-{number % size.queues}")


def mixed(size: Size) -> Iterator[ClusterObject]:
    """A cluster with new gangs of six kinds; one node in five has a taint."""
    return _with_background(_mixed(size), size)


def _mixed(size: Size) -> Iterator[ClusterObject]:
    yield from queues(size)
    for number, node in enumerate(nodes(size.nodes)):
        yield tainted(node) if number % 5 == 0 else node
    for number in range(size.jobs):
        queue = f"queue-{number % size.queues}"
        yield from pending_job(number, size.size, mixed_spec(number), queue)


def full(size: Size, *, per_node: int, low_queue: str) -> Iterator[ClusterObject]:
    """A cluster without free CPU: low-priority jobs of one queue run on all nodes."""
    return _with_background(_full(size, per_node, low_queue), size)


def _full(size: Size, per_node: int, low_queue: str) -> Iterator[ClusterObject]:
    yield PriorityClass("uid-high", "high", 1000)
    yield from queues(size)
    yield from nodes(size.nodes, milli_cpu=per_node * 1000)
    spec = spec_of(1000, GIB)
    names = [f"node-{number:05d}" for number in range(size.nodes)]
    places = [name for name in names for _ in range(per_node)]
    for number in range(0, len(places), 10):
        yield from running_job(number // 10, places[number : number + 10], spec, low_queue)


def settled(size: Size) -> Iterator[ClusterObject]:
    """A cluster in which all pods run."""
    return _with_background(_settled(size), size)


def _settled(size: Size) -> Iterator[ClusterObject]:
    yield from queues(size)
    yield from nodes(size.nodes)
    specs = [plain_spec(number) for number in range(size.classes)]
    for number in range(size.jobs):
        places = [
            f"node-{(number * size.size + index) % size.nodes:05d}" for index in range(size.size)
        ]
        spec = specs[number % size.classes]
        queue = f"queue-{number % size.queues}"
        yield from running_job(number, places, spec, queue, minimum=size.size)


def _with_background(objects: Iterable[ClusterObject], size: Size) -> Iterator[ClusterObject]:
    """The objects, with the background added if the size has one."""
    if not size.has_background:
        yield from objects
        return
    background = Background(size.seed)
    names: list[str] = []
    jobs: list[str] = []
    specs: dict[PodSpec, PodSpec] = {}
    is_fresh = True
    for item in objects:
        if isinstance(item, Node):
            names.append(item.name)
            yield background.node(item, len(names) - 1)
            continue
        if isinstance(item, PodGroup):
            jobs.append(item.name)
            is_fresh = is_fresh and item.status.phase is PodGroupPhase.INQUEUE
        if isinstance(item, Pod):
            spec = specs.get(item.spec)
            if spec is None:
                spec = specs[item.spec] = background.spec(item.spec, len(specs))
            yield replace(item, spec=spec)
            continue
        yield item
    yield from background.registered_nodes(size.nodes)
    yield from background.cluster(names)
    yield from background.tenants(NAMESPACE, jobs)
    if jobs and is_fresh:
        yield from background.pending_pods(NAMESPACE, size.jobs, "queue-0")
    yield from background.finished_pods(NAMESPACE, names, len(jobs), "queue-0")

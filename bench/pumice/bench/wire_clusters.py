"""Clusters of any size as they go over the wire, made from numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.v1 import group_pb2, node_pb2, object_pb2, pod_pb2

GIB = 2**30
CLASSES = 100


def node(number: int) -> object_pb2.ClusterObject:
    amounts = {"cpu": 64_000, "memory": 256 * GIB, "pods": 250}
    held = node_pb2.Node(
        uid=f"node-{number:05}", name=f"node-{number:05}", allocatable=amounts, capacity=amounts
    )
    return object_pb2.ClusterObject(node=held)


def queue(name: str) -> object_pb2.ClusterObject:
    state = group_pb2.QUEUE_STATE_OPEN
    return object_pb2.ClusterObject(queue=group_pb2.Queue(uid=f"q-{name}", name=name, state=state))


def group(job: int, minimum: int, queues: int, running: int = 0) -> object_pb2.ClusterObject:
    phase = group_pb2.POD_GROUP_PHASE_RUNNING if running else group_pb2.POD_GROUP_PHASE_PENDING
    ready = group_pb2.PodGroupCondition(
        type="Scheduled", status="True", reason="tasks in gang are ready to be scheduled"
    )
    held = group_pb2.PodGroup(
        uid=f"group-{job:05}",
        namespace="bench",
        name=f"job-{job:05}",
        queue=f"queue-{job % queues}",
        min_member=minimum,
        spec_hash="x",
        status=group_pb2.PodGroupStatus(
            phase=phase, running=running, conditions=[ready] if running else []
        ),
    )
    return object_pb2.ClusterObject(pod_group=held)


def pod(job: int, number: int, node_name: str = "") -> object_pb2.ClusterObject:
    running = pod_pb2.POD_PHASE_RUNNING if node_name else pod_pb2.POD_PHASE_PENDING
    held = pod_pb2.Pod(
        uid=f"pod-{job:05}-{number:05}",
        namespace="bench",
        name=f"job-{job:05}-{number:05}",
        group_name=f"job-{job:05}",
        labels={"app": f"job-{job:05}", "team": "bench", "tier": "batch"},
        phase=running,
        node_name=node_name,
        spec=pod_pb2.PodSpec(
            requests={"cpu": 100 + 10 * (job % CLASSES), "memory": GIB, "pods": 1},
            non_zero_milli_cpu=100 + 10 * (job % CLASSES),
            non_zero_memory_bytes=GIB,
            scheduler_name="volcano",
            container_count=1,
        ),
    )
    return object_pb2.ClusterObject(pod=held)


def running_cluster(nodes: int, pods: int, gang: int = 10) -> Iterator[object_pb2.ClusterObject]:
    """Nodes, queues and gangs whose pods run already."""
    yield from (queue(f"queue-{number}") for number in range(4))
    yield from (node(number) for number in range(nodes))
    for job in range(pods // gang):
        yield group(job, gang, 4, gang)
        for number in range(gang):
            yield pod(job, number, f"node-{(job * gang + number) % nodes:05}")


def pending_cluster(nodes: int, pods: int, gang: int = 10) -> Iterator[object_pb2.ClusterObject]:
    """The same with nothing placed yet."""
    yield from (queue(f"queue-{number}") for number in range(4))
    yield from (node(number) for number in range(nodes))
    for job in range(pods // gang):
        yield group(job, gang, 4)
        yield from (pod(job, number) for number in range(gang))

"""Nodes, queues and priority classes of a simulated cluster, as messages of the protocol."""

from dataclasses import dataclass
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.v1.group_pb2 import QUEUE_STATE_OPEN, PriorityClass, Queue
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import ClusterObject

GPU: Final = "nvidia.com/gpu"
GIB: Final = 1 << 30
ZONES: Final = ("zone-a", "zone-b", "zone-c")
NAMESPACE: Final = "simulated"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A type of node."""

    name: str
    milli_cpu: int
    memory_bytes: int
    gpus: int = 0


SHAPES: Final = (
    NodeShape("small", 16_000, 64 * GIB),
    NodeShape("small", 16_000, 64 * GIB),
    NodeShape("large", 64_000, 256 * GIB),
    NodeShape("gpu", 32_000, 128 * GIB, 8),
)

# Name to weight.
QUEUES: Final = {"research": 3, "production": 2, "default": 1}
# Name to value.
PRIORITY_CLASSES: Final = {"low": 10, "normal": 100, "high": 1000}


def node_name(number: int) -> str:
    return f"node-{number:04d}"


def shape_of(number: int) -> NodeShape:
    return SHAPES[number % len(SHAPES)]


def node(number: int, generation: int, creation_time: Timestamp) -> ClusterObject:
    """A node. After a failure it has the same name, and a new uid by its generation."""
    shape, name = shape_of(number), node_name(number)
    amounts = {"cpu": shape.milli_cpu, "memory": shape.memory_bytes, "pods": 110}
    if shape.gpus:
        amounts[GPU] = shape.gpus * 1000
    labels = {
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": shape.name,
        "topology.kubernetes.io/zone": ZONES[number % len(ZONES)],
    }
    return ClusterObject(
        node=Node(
            uid=f"{name}.{generation}",
            name=name,
            creation_time=creation_time,
            labels=labels,
            allocatable=amounts,
            capacity=amounts,
        )
    )


def queues(creation_time: Timestamp) -> list[ClusterObject]:
    # Volcano creates a root queue.
    root = Queue(
        uid="queue.root",
        name="root",
        creation_time=creation_time,
        weight=1,
        reclaimable=False,
        state=QUEUE_STATE_OPEN,
    )
    made = [ClusterObject(queue=root)]
    for name, weight in QUEUES.items():
        queue = Queue(
            uid=f"queue.{name}",
            name=name,
            creation_time=creation_time,
            weight=weight,
            reclaimable=True,
            state=QUEUE_STATE_OPEN,
        )
        made.append(ClusterObject(queue=queue))
    return made


def priority_classes() -> list[ClusterObject]:
    return [
        ClusterObject(
            priority_class=PriorityClass(
                uid=f"priority.{name}", name=name, value=value, global_default=name == "normal"
            )
        )
        for name, value in PRIORITY_CLASSES.items()
    ]

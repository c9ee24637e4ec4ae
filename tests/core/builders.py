"""Small clusters, in one line an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import (
    PodGroup,
    PodGroupPhase,
    PodGroupStatus,
    PriorityClass,
    Queue,
    QueueState,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase, PodSpec

GIB = 1024**3
NOW_NS = 1_794_744_000 * 10**9


def amounts(cpu: float, memory_gib: float = 0, **others: int) -> tuple[tuple[str, int], ...]:
    """Cores and GiB as the engine counts them; one pod."""
    parts = {"cpu": int(cpu * 1000), "memory": int(memory_gib * GIB), "pods": 1, **others}
    return tuple(parts.items())


def node(name: str, cpu: float = 4, memory_gib: float = 16, pods: int = 110, **fields: Any) -> Node:
    offered = amounts(cpu, memory_gib, pods=pods)
    return Node(f"uid-{name}", name, allocatable=offered, capacity=offered, **fields)


def queue(name: str = "default", **fields: Any) -> Queue:
    return Queue(f"uid-{name}", name, **{"state": QueueState.OPEN, **fields})


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(f"uid-{name}", name, value)


def pod_group(
    name: str,
    minimum: int = 1,
    *,
    queue_name: str = "default",
    phase: PodGroupPhase = PodGroupPhase.INQUEUE,
    **fields: Any,
) -> PodGroup:
    return PodGroup(
        f"uid-{name}",
        "ns",
        name,
        queue=queue_name,
        min_member=minimum,
        status=PodGroupStatus(phase),
        **fields,
    )


def pod(
    name: str,
    group: str,
    cpu: float = 1,
    memory_gib: float = 1,
    *,
    on: str = "",
    spec: dict[str, Any] | None = None,
    **fields: Any,
) -> Pod:
    """Pending, or Running on a node."""
    asked = amounts(cpu, memory_gib)
    return Pod(
        f"uid-{name}",
        "ns",
        name,
        PodSpec(
            asked,
            non_zero_milli_cpu=int(cpu * 1000) or 100,
            non_zero_memory_bytes=int(memory_gib * GIB) or 200 * 1024**2,
            scheduler_name="volcano",
            **(spec or {}),
        ),
        phase=PodPhase.RUNNING if on else PodPhase.PENDING,
        node_name=on,
        group_name=group,
        **fields,
    )


def job(
    name: str, size: int, cpu: float = 1, *, minimum: int | None = None, on: str = "", **fields: Any
) -> list[ClusterObject]:
    """A PodGroup and its equal pods."""
    group = pod_group(name, size if minimum is None else minimum, **fields)
    return [group, *(pod(f"{name}-{i}", name, cpu, on=on) for i in range(size))]


def fill(engine: Engine, *objects: ClusterObject | Iterable[ClusterObject]) -> Engine:
    for item in objects:
        parts = list(item) if isinstance(item, Iterable) else [item]
        assert engine.apply([Upserted(part) for part in parts]) == ()
    return engine

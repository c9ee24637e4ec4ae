"""Sessions with the capacity plugin, and what it knows of the queues."""

from __future__ import annotations

from typing import Any

from pumice.core.cache.settings import CacheSettings
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import PodGroup, PodGroupPhase, Queue
from pumice.core.plugins.capacity import CapacityPlugin
from pumice.core.plugins.capacity.accounts import CapacityAccount
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Amounts, Opened, cores, options


def capacity(
    *objects: ClusterObject,
    tree: bool = False,
    levels: int = 0,
    cpu: float = 100,
    settings: CacheSettings | None = None,
) -> Opened:
    flags = ["enableHierarchy"] if tree else []
    plugin = options("capacity", *flags, ancestorReclaimLevel=levels)
    big = node("n1", cpu, 1000, pods=10_000)
    return Opened(big, *objects, plugins=[plugin], settings=settings)


def account(session: Opened, name: str) -> CapacityAccount:
    plugin = session.plugins["capacity"]
    assert isinstance(plugin, CapacityPlugin)
    assert plugin._queues is not None
    return plugin._queues[name]


def with_cores(
    name: str,
    deserved: float | None = None,
    *,
    capability: float | None = None,
    guarantee: float | None = None,
    **fields: Any,
) -> Queue:
    """A queue with amounts of cpu alone."""
    given = {"deserved": deserved, "capability": capability, "guarantee": guarantee}
    return queue(name, **{k: cores(v) for k, v in given.items() if v is not None}, **fields)


def holding(queue_name: str, *cpus: float, minimum: int = 0) -> list[ClusterObject]:
    """A job of the queue's name in the queue, with running pods of so many cores each."""
    members = [pod(f"{queue_name}-{i}", queue_name, c, 0, on="n1") for i, c in enumerate(cpus)]
    return [pod_group(queue_name, minimum, queue_name=queue_name), *members]


def pending_group(name: str, queue_name: str, asked: Amounts | None) -> PodGroup:
    phase = PodGroupPhase.PENDING
    return pod_group(name, queue_name=queue_name, phase=phase, min_resources=asked)


def allocatable(session: Opened, queue_name: str, task: str) -> bool:
    return session.hooks.allocatable["capacity"](session.queue(queue_name), session.task(task))

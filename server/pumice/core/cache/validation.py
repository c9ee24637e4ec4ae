"""Checks of objects before they enter the cache; an error names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

from pumice.core.cache.entries import NodeOffer
from pumice.core.deltas import ClusterObject
from pumice.core.errors import ObjectError
from pumice.core.model.group import PodGroup, Queue
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.model.storage import CsiNode
from pumice.core.model.topology import HyperNode
from pumice.patterns.automata import Pattern, PatternError

# Amounts stand in float64 arrays: integers are exact there only below this.
LARGEST_AMOUNT = 2**53
# The resources that nodes may offer. Each takes 56 bytes per node and 168 bytes per task class:
# 256 of them take 72 MB for 5,000 nodes and 215 MB for 5,000 classes.
MAX_NODE_RESOURCES = 128
MAX_CLUSTER_RESOURCES = 256
# Sessions compare each item with the labels, taints and pods of every node.
MAX_POD_ITEMS = 2_000


def _error(item: ClusterObject, field: str, problem: str) -> ObjectError:
    key = item.key if isinstance(item, Pod | PodGroup) else item.name
    return ObjectError(type(item).__name__, key, field, problem)


def check_amounts(item: ClusterObject, field: str, amounts: Iterable[tuple[str, int]]) -> None:
    """Checks amounts that go into the node table."""
    for name, amount in amounts:
        if not 0 <= amount < LARGEST_AMOUNT:
            raise _error(item, f"{field}[{name}]", f"{amount} is not between 0 and 2^53 - 1")


def check_not_negative(item: ClusterObject, field: str, amounts: Iterable[tuple[str, int]]) -> None:
    """Checks amounts of queues and jobs, which have no upper limit."""
    for name, amount in amounts:
        if amount < 0:
            raise _error(item, f"{field}[{name}]", f"{amount} is negative; use 0 or more")


def check_identity(item: ClusterObject) -> None:
    kind = type(item).__name__
    if not item.name:
        raise ObjectError(kind, item.uid or "?", "name", "is empty; every object needs a name")
    if not item.uid:
        raise ObjectError(kind, item.name, "uid", "is empty; every object needs a uid")


def check_node(node: Node) -> None:
    check_identity(node)
    check_amounts(node, "allocatable", node.allocatable)
    oversubscribed = (
        ("cpu", node.oversubscription_milli_cpu),
        ("memory", node.oversubscription_memory_bytes),
    )
    check_amounts(node, "oversubscription", oversubscribed)
    own = dict(node.allocatable)
    together = [(name, amount + own.get(name, 0)) for name, amount in oversubscribed]
    check_amounts(node, "allocatable and oversubscription", together)


def check_csi_node(csi_node: CsiNode) -> None:
    """A negative limit means none, as in Kubernetes."""
    at_least_0 = [(driver, max(limit, 0)) for driver, limit in csi_node.driver_limits]
    check_amounts(csi_node, "driver_limits", at_least_0)


def check_resource_names(
    item: Node | CsiNode, offer: NodeOffer, counted: NodeOffer, offering_nodes: Mapping[str, int]
) -> None:
    """Checks the number of resources of a node, and of the cluster with it.

    ``counted`` is what the node has offered so far.
    """
    names, known = offer.names(), counted.names()
    if names == known:
        return
    field = "allocatable" if isinstance(item, Node) else "driver_limits"
    if len(names) > MAX_NODE_RESOURCES:
        problem = (
            f"the node offers {len(names)} resources; at most {MAX_NODE_RESOURCES} are allowed"
        )
        raise _error(item, f"{field}[{names[MAX_NODE_RESOURCES]}]", problem)
    new = [name for name in names if name not in offering_nodes]
    gone = {name for name in known if offering_nodes[name] == 1}.difference(names)
    total = len(offering_nodes) - len(gone) + len(new)
    if new and total > MAX_CLUSTER_RESOURCES:
        problem = (
            f"the nodes of the cluster would offer {total} different resources; "
            f"at most {MAX_CLUSTER_RESOURCES} are allowed"
        )
        raise _error(item, f"{field}[{new[-1]}]", problem)


def check_hyper_node(hyper_node: HyperNode) -> None:
    """A pattern with invalid syntax is allowed, as in Volcano, and selects nothing."""
    for number, member in enumerate(hyper_node.members):
        try:
            Pattern(member.name_pattern)
        except PatternError as error:
            raise _error(hyper_node, f"members[{number}].name_pattern", str(error)) from None
        except re.error:
            continue


def check_pod(pod: Pod) -> None:
    check_identity(pod)
    check_amounts(pod, "requests", pod.spec.requests)
    non_zero = (("cpu", pod.spec.non_zero_milli_cpu), ("memory", pod.spec.non_zero_memory_bytes))
    check_amounts(pod, "non_zero_requests", non_zero)
    scored = zip(("cpu", "memory"), pod.spec.scored_amounts(), strict=True)
    check_amounts(pod, "container_requests", scored)
    check_items(pod)


def check_items(pod: Pod) -> None:
    """Counts the items of all lists of a spec, with the requirements and values of selectors."""
    spec = pod.spec
    lists = [(f, value) for f in spec.__slots__ if isinstance(value := getattr(spec, f), tuple)]
    counts = {field: _items(value) for field, value in lists if value}
    total = sum(counts.values())
    if total > MAX_POD_ITEMS:
        field = max(counts, key=counts.__getitem__)
        problem = f"the spec has {total} list items; at most {MAX_POD_ITEMS} are allowed"
        raise _error(pod, field, problem)


def _items(value: Any) -> int:
    """The items of a list and of the lists in them; a pair of a name and an amount is one item."""
    if isinstance(value, tuple):
        return len(value) + sum([_items(i) for i in value if not isinstance(i, tuple)])
    if isinstance(value, str | int | NoneType):
        return 0
    return sum([_items(getattr(value, field)) for field in value.__slots__])


def check_pod_group(group: PodGroup) -> None:
    check_identity(group)
    check_not_negative(group, "min_resources", group.min_resources or ())
    if group.min_member < 0:
        raise _error(group, "min_member", f"{group.min_member} is negative; use 0 or more")
    if group.topology_key and group.network_topology is not None:
        problem = "cannot be set together with network_topology; use one of them"
        raise _error(group, "topology_key", problem)


def check_queue(queue: Queue) -> None:
    check_identity(queue)
    for field in ("capability", "deserved", "guarantee"):
        check_not_negative(queue, field, getattr(queue, field) or ())
    if queue.weight < 1:
        raise _error(queue, "weight", f"{queue.weight} is not 1 or more")


_CHECKS: Mapping[type, Callable[[Any], None]] = {
    Node: check_node,
    CsiNode: check_csi_node,
    HyperNode: check_hyper_node,
    PodGroup: check_pod_group,
    Queue: check_queue,
}


def check(item: ClusterObject) -> None:
    """Raises ObjectError for an object that cannot be used; not for pods."""
    if (own := _CHECKS.get(type(item))) is not None:
        own(item)

"""Equivalent nodes, between which a scheduler has no preference.

Of nodes with the same score, Volcano chooses at random and pumice by name. Two nodes are equivalent
if they have the same resources, labels and taints, and pods with the same requests. Pods of the
placed job and pods that were placed recently are ignored, because both schedulers decided without
them.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from pumice.v1.node_pb2 import Node
from pumice.v1.pod_pb2 import Pod

_OWN_LABELS: Final = ("kubernetes.io/hostname",)


@dataclass(frozen=True, slots=True)
class _PlacedPod:
    job: str
    requests: tuple[tuple[str, int], ...]
    since: float


@dataclass(slots=True)
class _NodeState:
    traits: Hashable = ()
    pods: dict[str, _PlacedPod] = field(default_factory=dict)


class NodeEquivalence:
    """Follows nodes and the pods on them."""

    def __init__(self, recent_seconds: float) -> None:
        self._recent_seconds = recent_seconds
        self._nodes: dict[str, _NodeState] = {}
        self._names: dict[str, str] = {}
        self._node_of_pod: dict[str, str] = {}

    def note_node(self, node: Node) -> None:
        self._names[node.uid] = node.name
        self._nodes.setdefault(node.name, _NodeState()).traits = _traits(node)

    def forget_node(self, uid: str) -> None:
        self._nodes.pop(self._names.pop(uid, ""), None)

    def note_pod(self, pod: Pod, job: str, now: float) -> None:
        if not pod.node_name or self._node_of_pod.get(pod.uid) == pod.node_name:
            return
        self.forget_pod(pod.uid)
        self._node_of_pod[pod.uid] = pod.node_name
        placed = _PlacedPod(job, tuple(sorted(pod.spec.requests.items())), now)
        self._nodes.setdefault(pod.node_name, _NodeState()).pods[pod.uid] = placed

    def forget_pod(self, uid: str) -> None:
        node = self._nodes.get(self._node_of_pod.pop(uid, ""))
        if node is not None:
            node.pods.pop(uid, None)

    def are_equivalent(self, first: str, second: str, job: str, now: float) -> bool:
        one, other = self._nodes.get(first), self._nodes.get(second)
        if one is None or other is None or one.traits != other.traits:
            return False
        return self._used(one, job, now) == self._used(other, job, now)

    def _used(self, node: _NodeState, job: str, now: float) -> Counter[str]:
        used: Counter[str] = Counter()
        for pod in node.pods.values():
            if pod.job != job and now - pod.since > self._recent_seconds:
                used.update(dict(pod.requests))
                used["pods"] += 1
        return used


def _traits(node: Node) -> Hashable:
    """All properties of a node that scheduling reads, except its name."""
    labels = {
        key: value
        for key, value in node.labels.items()
        if key not in _OWN_LABELS and value != node.name
    }
    taints = sorted(taint.SerializeToString(deterministic=True) for taint in node.taints)
    return (
        frozenset(labels.items()),
        tuple(taints),
        node.unschedulable,
        frozenset(node.allocatable.items()),
    )

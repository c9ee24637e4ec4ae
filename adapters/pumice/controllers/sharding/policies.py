"""Policies that select the nodes of a scheduler: which nodes, in which order, and how many."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_POLICY: Final = "allocation-rate"
NODE_LIMIT: Final = "node-limit"
WARMUP: Final = "warmup"
_WARMUP_LABEL: Final = "node.volcano.sh/warmup"
_WARMUP_VALUE: Final = "true"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What policies know about a node; `cpu_utilization` is the requested share of its CPU, from 0 to 1."""

    name: str
    cpu_utilization: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)


class Policy:
    """One policy of a scheduler. By default it accepts all nodes, without a preference or a limit."""

    __slots__ = ()

    def accepts(self, node: NodeFacts) -> bool:
        return True

    def score(self, node: NodeFacts) -> float:
        return 0.0

    def limited(self, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
        return nodes


@dataclass(frozen=True, slots=True)
class AllocationRate(Policy):
    """Accepts nodes whose requested share of CPU is in a range, and prefers fuller nodes."""

    low: float = 0.0
    high: float = 1.0

    def accepts(self, node: NodeFacts) -> bool:
        return self.low <= _rounded(node.cpu_utilization) <= self.high

    def score(self, node: NodeFacts) -> float:
        if self.high == self.low:
            return 1.0
        score = (_rounded(node.cpu_utilization) - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, score))


@dataclass(frozen=True, slots=True)
class Warmup(Policy):
    """Prefers nodes with a label."""

    label: str = _WARMUP_LABEL
    value: str = _WARMUP_VALUE

    def score(self, node: NodeFacts) -> float:
        return 1.0 if node.labels.get(self.label) == self.value else 0.0


@dataclass(frozen=True, slots=True)
class NodeLimit(Policy):
    """Limits the number of nodes. There may be fewer than the minimum."""

    min_nodes: int = 0
    # 0: no limit.
    max_nodes: int = 0

    def limited(self, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
        return nodes[: self.max_nodes] if self.max_nodes else nodes


def _rounded(share: float) -> float:
    """Rounds to two decimal places, as Volcano does."""
    return math.floor(share * 100 + 0.5) / 100


ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT_POLICY: ("minCPUUtil", "maxCPUUtil"),
    WARMUP: ("warmupLabel", "warmupLabelValue"),
    NODE_LIMIT: ("minNodes", "maxNodes"),
}


def policy(name: str, arguments: Mapping[str, Any]) -> Policy:
    """The policy with this name. Raises ValueError."""
    if name not in ARGUMENTS:
        raise ValueError(f"unknown policy {name!r}; allowed: {', '.join(sorted(ARGUMENTS))}")
    for key in arguments:
        if key not in ARGUMENTS[name]:
            raise ValueError(
                f"policy {name}: unknown argument {key!r}; allowed: {', '.join(ARGUMENTS[name])}"
            )
    if name == DEFAULT_POLICY:
        low = _number(arguments, "minCPUUtil", 0.0)
        high = _number(arguments, "maxCPUUtil", 1.0)
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"policy {name}: minCPUUtil {low:g} and maxCPUUtil {high:g};"
                " allowed: 0 <= minCPUUtil <= maxCPUUtil <= 1"
            )
        return AllocationRate(_rounded(low), _rounded(high))
    if name == WARMUP:
        label = str(arguments.get("warmupLabel", _WARMUP_LABEL))
        if not label:
            raise ValueError(f"policy {name}: warmupLabel is empty")
        return Warmup(label, str(arguments.get("warmupLabelValue", _WARMUP_VALUE)))
    min_nodes, max_nodes = _count(arguments, "minNodes"), _count(arguments, "maxNodes")
    if 0 < max_nodes < min_nodes:
        raise ValueError(f"policy {name}: maxNodes {max_nodes} is below minNodes {min_nodes}")
    return NodeLimit(min_nodes, max(0, max_nodes))


def _number(arguments: Mapping[str, Any], key: str, default: float) -> float:
    found = arguments.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{key} is {found!r}; allowed: a number")
    return float(found)


def _count(arguments: Mapping[str, Any], key: str) -> int:
    found = _number(arguments, key, 0.0)
    if found != int(found) or (found < 0 and key == "minNodes"):
        raise ValueError(f"{key} is {found:g}; allowed: a whole number from 0")
    return int(found)

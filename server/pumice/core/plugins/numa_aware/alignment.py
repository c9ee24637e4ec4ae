"""Which NUMA nodes a container is aligned to, and whether the kubelet would admit it."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from pumice.core.plugins.numa_aware.layout import Layout, bits, numbers_in
from pumice.core.plugins.numa_aware.picking import take

BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
_STRICT = (RESTRICTED, SINGLE)


class Hint(NamedTuple):
    """Some NUMA nodes, as bits of their numbers."""

    nodes: int
    preferred: bool


class Alignment(NamedTuple):
    """The cpus of a pod; or the number of the first container that is not admitted."""

    cpus: int
    refused: int = -1


def align(layout: Layout, free: int, requests: tuple[int, ...]) -> Alignment:
    """Places one container after the other; requests are whole cpus, 0: none are pinned."""
    reserved = take(layout, layout.all, layout.reserved_count) or 0
    pinned = 0
    for number, count in enumerate(requests):
        hint = _best(layout, free & ~reserved, count)
        if hint is None:
            return Alignment(0, number)
        cpus = _pin(layout, free & ~reserved, count, hint)
        pinned |= cpus
        free &= ~cpus
    return Alignment(pinned)


def _best(layout: Layout, available: int, count: int) -> Hint | None:
    """The NUMA nodes to align to; None: the kubelet would refuse the container."""
    everywhere = bits(layout.by_numa)
    if count == 0 or not layout.has_cpus:
        hints = [Hint(everywhere, preferred=True)]
    else:
        hints = _hints(layout, available, count) or [Hint(everywhere, preferred=False)]
        if layout.policy == SINGLE:
            hints = [h for h in hints if h.preferred and h.nodes.bit_count() == 1]
    best = Hint(everywhere, preferred=False)
    for hint in hints:
        if hint.nodes and _is_better(hint, best):
            best = hint
    return best if best.preferred or layout.policy not in _STRICT else None


def _is_better(hint: Hint, best: Hint) -> bool:
    if hint.preferred != best.preferred:
        return hint.preferred
    return (hint.nodes.bit_count(), hint.nodes) < (best.nodes.bit_count(), best.nodes)


def _hints(layout: Layout, available: int, count: int) -> list[Hint]:
    """Sets of NUMA nodes with enough free cpus; the smallest that could ever do are preferred."""
    nodes = list(layout.by_numa)
    smallest = len(nodes)
    found = []
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            cpus = 0
            for node in chosen:
                cpus |= layout.by_numa[node]
            if cpus.bit_count() >= count:
                smallest = min(smallest, size)
            if (cpus & available).bit_count() >= count:
                found.append(bits(chosen))
    return [Hint(mask, mask.bit_count() == smallest) for mask in found]


def _pin(layout: Layout, available: int, count: int, hint: Hint) -> int:
    """Cpus of the chosen NUMA nodes first, then of any; none where there are too few."""
    aligned = 0
    for node in numbers_in(hint.nodes):
        aligned |= layout.by_numa[node] & available
    first = take(layout, aligned, min(count, aligned.bit_count()))
    if first is None:
        return 0
    rest = take(layout, available & ~first, count - first.bit_count())
    return 0 if rest is None else first | rest

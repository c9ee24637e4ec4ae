"""Kubernetes' scores once more, slow and obvious: one node after the other, in whole numbers."""

from __future__ import annotations

import math

from pumice.core.model.group import Workload
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodAffinityTerm, SpreadConstraint
from pumice.core.model.selectors import LabelSelector, TaintEffect
from tests.core.plugins.plain_filters import (
    World,
    included,
    matching_pods,
    term_matches,
)

MIB = 1024**2
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"


def requested(pod: Pod, name: str) -> int:
    return dict(pod.spec.requests).get(name, 0)


def non_zero(pod: Pod) -> tuple[int, int]:
    return pod.spec.non_zero_milli_cpu, pod.spec.non_zero_memory_bytes


def _with(world: World, pod: Pod, node: Node) -> list[tuple[int, int]]:
    """Requested with the pod, and allocatable, for cpu and memory."""
    everyone = [*world.pods[node.name], pod]
    allocatable = dict(node.allocatable)
    return [
        (sum(non_zero(p)[i] for p in everyone), allocatable.get(name, 0))
        for i, name in enumerate(("cpu", "memory"))
    ]


def _mean(parts: list[int]) -> int:
    return sum(parts) // len(parts) if parts else 0


def least(world: World, pod: Pod, node: Node) -> int:
    parts = _with(world, pod, node)
    return _mean([0 if r > a else (a - r) * 100 // a for r, a in parts if a])


def most(world: World, pod: Pod, node: Node) -> int:
    return _mean([min(r, a) * 100 // a for r, a in _with(world, pod, node) if a])


def _evenness(amounts: list[tuple[int, int]]) -> int:
    fractions = [min(1.0, r / a) for r, a in amounts if a]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


def balanced(world: World, pod: Pod, node: Node) -> int:
    if not any(requested(pod, name) for name in ("cpu", "memory", GPU)):
        return 0
    names = ["cpu", "memory", *([GPU] if requested(pod, GPU) else [])]
    allocatable = dict(node.allocatable)
    before = [
        (sum(requested(p, name) for p in world.pods[node.name]), allocatable.get(name, 0))
        for name in names
    ]
    after = [(r + requested(pod, n), a) for n, (r, a) in zip(names, before, strict=True)]
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def images(world: World, pod: Pod, node: Node) -> int:
    total = 0
    for wanted in pod.spec.images:
        having = [n for n in world.nodes.values() if any(wanted in i.names for i in n.images)]
        if node in having:
            size = next(
                i.size_bytes
                for n in sorted(having, key=lambda n: n.name)
                for i in n.images
                if wanted in i.names
            )
            total += int(size * (len(having) / len(world.nodes)))
    low, high = 23 * MIB, 1000 * MIB * pod.spec.container_count
    total = low if total < low else min(total, high)
    return 100 * (total - low) // (high - low)


# Scores that depend on the candidates.

Scores = dict[str, int]


def node_affinity(pod: Pod, candidates: list[Node]) -> Scores:
    raw = {
        n.name: sum(
            p.weight for p in pod.spec.preferred_node_terms if p.term.matches(n.labels, n.name)
        )
        for n in candidates
    }
    highest = max(raw.values())
    return {name: 100 * score // highest if highest else 0 for name, score in raw.items()}


def taints(pod: Pod, candidates: list[Node]) -> Scores:
    raw = {
        n.name: sum(
            taint.effect is TaintEffect.PREFER_NO_SCHEDULE
            and not any(t.tolerates(taint) for t in pod.spec.tolerations)
            for taint in n.taints
        )
        for n in candidates
    }
    highest = max(raw.values())
    return {name: 100 - 100 * count // highest if highest else 100 for name, count in raw.items()}


def inter_pod(world: World, pod: Pod, candidates: list[Node]) -> Scores:
    weights: dict[tuple[str, str], int] = {}

    def add(node: Node, term: PodAffinityTerm, weight: int) -> None:
        if term.topology_key in node.labels:
            pair = (term.topology_key, node.labels[term.topology_key])
            weights[pair] = weights.get(pair, 0) + weight

    own = bool(pod.spec.preferred_affinity or pod.spec.preferred_anti_affinity)
    for name, others in world.pods.items():
        if not own and name not in world.with_affinity:
            continue
        for other in others:
            for sign, preferred in (
                (1, pod.spec.preferred_affinity),
                (-1, pod.spec.preferred_anti_affinity),
            ):
                for p in preferred:
                    if term_matches(world, pod.namespace, p.term, other, of_incoming=True):
                        add(world.nodes[name], p.term, sign * p.weight)
            for sign, preferred in (
                (1, other.spec.preferred_affinity),
                (-1, other.spec.preferred_anti_affinity),
            ):
                for p in preferred:
                    if term_matches(world, other.namespace, p.term, pod, of_incoming=False):
                        add(world.nodes[name], p.term, sign * p.weight)
    raw = {n.name: sum(weights.get(pair, 0) for pair in n.labels.items()) for n in candidates}
    low, high = min(raw.values()), max(raw.values())
    return {n: int(100 * ((s - low) / (high - low))) if high > low else 0 for n, s in raw.items()}


def default_selector(pod: Pod, workloads: list[Workload]) -> LabelSelector | None:
    requirements = [
        r
        for w in workloads
        if w.namespace == pod.namespace and w.selector is not None
        if (w.kind == "Service" and w.selector.matches(pod.labels))
        or (w.kind, w.name) == (pod.controller_kind, pod.controller_name)
        for r in w.selector.requirements
    ]
    return LabelSelector(tuple(requirements)) if requirements else None


def spread(world: World, pod: Pod, workloads: list[Workload], candidates: list[Node]) -> Scores:
    own = bool(pod.spec.spread_constraints)
    constraints = [c for c in pod.spec.spread_constraints if not c.required]
    selector = default_selector(pod, workloads)
    if not own and selector is not None:
        constraints = [
            SpreadConstraint(HOSTNAME, 3, False, selector),
            SpreadConstraint(ZONE, 5, False, selector),
        ]
    if not constraints:
        return dict.fromkeys((n.name for n in candidates), 0)

    def keyed(node: Node) -> bool:
        return not own or all(c.topology_key in node.labels for c in constraints)

    scored = [n for n in candidates if keyed(n)]
    raw: Scores = {}
    for node in scored:
        total = 0.0
        for c in constraints:
            if c.topology_key not in node.labels:
                continue
            if c.topology_key == HOSTNAME:
                domains = len(scored)
                count = matching_pods(world, node, c.selector, pod.namespace)
            else:
                value = node.labels[c.topology_key]
                domains = len({n.labels.get(c.topology_key, "") for n in scored})
                count = sum(
                    matching_pods(world, n, c.selector, pod.namespace)
                    for n in world.nodes.values()
                    if keyed(n)
                    and included(pod, c, n)
                    and n.labels.get(c.topology_key, "") == value
                )
            total += count * math.log(domains + 2) + (c.max_skew - 1)
        raw[node.name] = math.floor(total + 0.5)
    high, low = max(raw.values(), default=0), min(raw.values(), default=0)
    result = dict.fromkeys((n.name for n in candidates), 0)
    for name, score in raw.items():
        result[name] = 100 * (high + low - score) // high if high else 100
    return result

"""Kubernetes' filters once more, slow and obvious: one node, one pod, one rule at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodAffinityTerm, PodSpec, SpreadConstraint
from pumice.core.model.selectors import LabelSelector, Taint, TaintEffect
from tests.core.plugins.verdicts import UU, U, Verdict

Pair = tuple[str, str]


@dataclass
class World:
    """Nodes, and the pods that Kubernetes sees on each."""

    nodes: dict[str, Node]
    pods: dict[str, list[Pod]]
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    # Nodes that had pods with (required anti-)affinity when the session opened.
    with_affinity: set[str] = field(default_factory=set)
    with_anti_affinity: set[str] = field(default_factory=set)

    def freeze(self) -> None:
        for name, pods in self.pods.items():
            if any(p.spec.required_anti_affinity for p in pods):
                self.with_anti_affinity.add(name)
            if any(has_affinity(p.spec) for p in pods):
                self.with_affinity.add(name)


def has_affinity(spec: PodSpec) -> bool:
    return any(
        (
            spec.required_affinity,
            spec.required_anti_affinity,
            spec.preferred_affinity,
            spec.preferred_anti_affinity,
        )
    )


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and selector.matches(labels)


def term_matches(
    world: World, owner_namespace: str, term: PodAffinityTerm, pod: Pod, *, of_incoming: bool
) -> bool:
    namespaces = set(term.namespaces)
    if not term.namespaces and term.namespace_selector is None:
        namespaces.add(owner_namespace)
    inside = pod.namespace in namespaces
    if not inside and term.namespace_selector is not None:
        if not term.namespace_selector.requirements:
            inside = True
        elif of_incoming:
            known = world.namespaces.get(pod.namespace)
            inside = known is not None and term.namespace_selector.matches(known)
        else:
            labels = world.namespaces.get(pod.namespace, {})
            inside = term.namespace_selector.matches(labels)
    return inside and selects(term.selector, pod.labels)


# One function a filter: the reason it gives, or None.


def admits(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.spec.node_selector):
        return False
    terms = pod.spec.required_node_terms
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


def tolerates(pod: Pod, taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)


def repels(pod: Pod, node: Node) -> bool:
    hard = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
    return any(taint.effect in hard and not tolerates(pod, taint) for taint in node.taints)


def stable(pod: Pod, node: Node) -> Verdict:
    closed = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
    if node.unschedulable and not tolerates(pod, closed):
        return [("node(s) were unschedulable", UU)]
    if not admits(pod, node):
        return [("node(s) didn't match Pod's node affinity/selector", UU)]
    if repels(pod, node):
        return [("node(s) had untolerated taint(s)", UU)]
    return []


def ports(world: World, pod: Pod, node: Node) -> Verdict:
    for other in world.pods[node.name]:
        for used in other.spec.host_ports:
            for wanted in pod.spec.host_ports:
                same = (used.protocol, used.port) == (wanted.protocol, wanted.port)
                if same and (used.ip == wanted.ip or "0.0.0.0" in (used.ip, wanted.ip)):
                    return [("node(s) didn't have free ports for the requested pod ports", U)]
    return []


class Affinity:
    """The counts that PreFilter makes, as maps of label pairs."""

    def __init__(self, world: World, pod: Pod) -> None:
        self.world, self.pod = world, pod
        self.existing: dict[Pair, int] = {}
        self.friends: dict[Pair, int] = {}
        self.foes: dict[Pair, int] = {}
        for name, others in world.pods.items():
            for other in others:
                self._count(world.nodes[name], other)

    def _count(self, node: Node, other: Pod) -> None:
        world, pod = self.world, self.pod
        if node.name in world.with_anti_affinity:
            for term in other.spec.required_anti_affinity:
                if term_matches(world, other.namespace, term, pod, of_incoming=False):
                    self._add(self.existing, node, term)
        friendly = [
            term_matches(world, pod.namespace, term, other, of_incoming=True)
            for term in pod.spec.required_affinity
        ]
        if friendly and all(friendly):
            for term in pod.spec.required_affinity:
                self._add(self.friends, node, term)
        for term in pod.spec.required_anti_affinity:
            if term_matches(world, pod.namespace, term, other, of_incoming=True):
                self._add(self.foes, node, term)

    def _add(self, counts: dict[Pair, int], node: Node, term: PodAffinityTerm) -> None:
        if term.topology_key in node.labels:
            pair = (term.topology_key, node.labels[term.topology_key])
            counts[pair] = counts.get(pair, 0) + 1

    def is_nothing(self) -> bool:
        spec = self.pod.spec
        return not (self.existing or spec.required_affinity or spec.required_anti_affinity)

    def verdict(self, node: Node) -> Verdict:
        pairs = node.labels.items()
        if not self._near_friends(node):
            return [("node(s) didn't match pod affinity rules", UU)]
        keys = {term.topology_key for term in self.pod.spec.required_anti_affinity}
        if any(key in keys and self.foes.get((key, value)) for key, value in pairs):
            return [("node(s) didn't match pod anti-affinity rules", U)]
        if any(self.existing.get(pair) for pair in pairs):
            return [("node(s) didn't satisfy existing pods anti-affinity rules", U)]
        return []

    def _near_friends(self, node: Node) -> bool:
        terms, pod = self.pod.spec.required_affinity, self.pod
        if any(term.topology_key not in node.labels for term in terms):
            return False
        if all(self.friends.get((t.topology_key, node.labels[t.topology_key])) for t in terms):
            return True
        return not self.friends and all(
            term_matches(self.world, pod.namespace, term, pod, of_incoming=True) for term in terms
        )


def matching_pods(world: World, node: Node, selector: LabelSelector | None, space: str) -> int:
    if selector is None or not selector.requirements:
        return 0
    return sum(
        p.namespace == space and not p.terminating and selector.matches(p.labels)
        for p in world.pods[node.name]
    )


def included(pod: Pod, constraint: SpreadConstraint, node: Node) -> bool:
    if constraint.honor_node_affinity and not admits(pod, node):
        return False
    return not (constraint.honor_node_taints and repels(pod, node))


def spread(world: World, pod: Pod, node: Node) -> Verdict:
    hard = [c for c in pod.spec.spread_constraints if c.required]
    for constraint in hard:
        key = constraint.topology_key
        if key not in node.labels:
            return [
                (
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                    UU,
                )
            ]
        counts: dict[str, int] = {}
        for other in world.nodes.values():
            if all(c.topology_key in other.labels for c in hard) and included(
                pod, constraint, other
            ):
                here = matching_pods(world, other, constraint.selector, pod.namespace)
                counts[other.labels[key]] = counts.get(other.labels[key], 0) + here
        lowest = min(counts.values(), default=0)
        if len(counts) < constraint.min_domains:
            lowest = 0
        itself = selects(constraint.selector, pod.labels)
        if counts.get(node.labels[key], 0) + itself - lowest > constraint.max_skew:
            return [("node(s) didn't match pod topology spread constraints", U)]
    return []


def pod_count(world: World, node: Node) -> Verdict:
    if dict(node.allocatable)["pods"] <= len(world.pods[node.name]):
        return [("node(s) pod number exceeded", U)]
    return []


def verdict(world: World, pod: Pod, node: Node) -> Verdict:
    """Everything but volumes; a final reason ends it."""
    said: Verdict = []
    affinity = Affinity(world, pod)
    for part in (
        pod_count(world, node),
        stable(pod, node),
        ports(world, pod, node),
        [] if affinity.is_nothing() else affinity.verdict(node),
        spread(world, pod, node),
    ):
        said += part
        if any(final for _, final in said):
            break
    return said

"""Small clusters by chance, from a seed, with every rule that filters and scores know."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from pumice.core.model.group import Namespace, Workload
from pumice.core.model.node import Node, NodeImage
from pumice.core.model.pod import (
    HostPort,
    Pod,
    PodAffinityTerm,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from tests.core.builders import node, pod
from tests.core.plugins.opened import asking, offering

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KEYS = (HOSTNAME, ZONE, "rack")
APPS = ("x", "y", "z")
MIB = 1024**2


class RandomCluster:
    """Nodes, pods on them and pods to come; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.namespaces = [
            Namespace("uid-a", "a", {"team": "red"}),
            Namespace("uid-b", "b", {"team": "blue"}),
        ]
        count = self.chance.randint(2, 6)
        self.nodes = [self._node(f"n{i}") for i in range(count)]
        self.running = [
            self._pod(f"old{i}", on=self.chance.choice(self.nodes).name)
            for i in range(self.chance.randint(0, 8))
        ]
        self.waiting = [self._pod(f"new{i}") for i in range(4)]
        self.workloads = self._workloads()

    def _maybe(self, likelihood: float) -> bool:
        return self.chance.random() < likelihood

    def _node(self, name: str) -> Node:
        pick = self.chance.choice
        labels = {}
        if self._maybe(0.9):
            labels[HOSTNAME] = name
        if self._maybe(0.8):
            labels[ZONE] = pick(("z1", "z2", ""))
        if self._maybe(0.6):
            labels["rack"] = pick(("r1", "r2"))
        labels["gen"] = pick(("1", "2", "three"))
        taints = tuple(
            Taint(pick(("dedicated", "slow")), pick(("", "ml")), TaintEffect(pick((1, 2, 3))))
            for _ in range(pick((0, 0, 0, 1, 2)))
        )
        images = tuple(
            NodeImage((f"img{i}:1",), pick((10, 100, 900, 5000)) * MIB)
            for i in range(3)
            if self._maybe(0.5)
        )
        made = node(
            name,
            pick((4, 8, 16, 16, 0)),
            pick((8, 16)),
            pods=pick((2, 5, 110)),
            labels=labels,
            taints=taints,
            unschedulable=self._maybe(0.1),
            images=images,
        )
        # Some node has cards: a class that no node can ever take is not scored at all.
        has_cards = self._maybe(0.4) or name == "n0"
        return offering(made, **{"nvidia.com/gpu": 8000}) if has_cards else made

    def selector(self) -> LabelSelector | None:
        pick = self.chance.choice
        kind = self.chance.randint(0, 6)
        if kind == 0:
            return None
        if kind == 1:
            return LabelSelector()
        if kind == 2:
            return LabelSelector((Requirement("app", Operator.NOT_IN, (pick(APPS),)),))
        if kind == 3:
            return LabelSelector((Requirement("tier", Operator.EXISTS),))
        values = tuple(dict.fromkeys((pick(APPS), pick(APPS))))
        only = Requirement("app", Operator.IN, values)
        if kind == 4:
            return LabelSelector((only, Requirement("tier", Operator.DOES_NOT_EXIST)))
        return LabelSelector((only,))

    def term(self) -> PodAffinityTerm:
        pick = self.chance.choice
        namespaces = pick(((), (), (), ("a",), ("b", "a")))
        team = Requirement("team", Operator.IN, ("red",))
        nobody = Requirement("team", Operator.DOES_NOT_EXIST)
        spaces = pick(
            (None, None, LabelSelector(), LabelSelector((team,)), LabelSelector((nobody,)))
        )
        return PodAffinityTerm(pick(KEYS), self.selector(), namespaces, spaces)

    def _terms(self, likelihood: float) -> tuple[PodAffinityTerm, ...]:
        return tuple(self.term() for _ in range(2) if self._maybe(likelihood))

    def _weighted(self, likelihood: float) -> tuple[WeightedPodAffinityTerm, ...]:
        return tuple(
            WeightedPodAffinityTerm(self.chance.randint(1, 100), term)
            for term in self._terms(likelihood)
        )

    def _node_term(self) -> NodeSelectorTerm:
        pick = self.chance.choice
        on_labels = pick(
            (
                Requirement(ZONE, Operator.IN, ("z1",)),
                Requirement(ZONE, Operator.NOT_IN, ("z1",)),
                Requirement("rack", Operator.EXISTS),
                Requirement("rack", Operator.DOES_NOT_EXIST),
                Requirement("gen", Operator.GREATER_THAN, ("1",)),
                Requirement("gen", Operator.LESS_THAN, ("2",)),
            )
        )
        on_name = Requirement("metadata.name", pick((Operator.IN, Operator.NOT_IN)), ("n1",))
        return pick(
            (
                NodeSelectorTerm((on_labels,)),
                NodeSelectorTerm((on_labels,), (on_name,)),
                NodeSelectorTerm((), (on_name,)),
                NodeSelectorTerm(),
            )
        )

    def _spread(self) -> tuple[SpreadConstraint, ...]:
        pick = self.chance.choice
        return tuple(
            SpreadConstraint(
                pick(KEYS),
                pick((1, 2)),
                self._maybe(0.5),
                self.selector(),
                pick((1, 1, 3)),
                self._maybe(0.7),
                self._maybe(0.3),
            )
            for _ in range(pick((0, 0, 1, 2)))
        )

    def _pod(self, name: str, on: str = "") -> Pod:
        pick = self.chance.choice
        affine = 0.35 if self._maybe(0.6) else 0.0
        spec: dict[str, Any] = {
            "required_affinity": self._terms(affine / 3),
            "required_anti_affinity": self._terms(affine),
            "preferred_affinity": self._weighted(affine),
            "preferred_anti_affinity": self._weighted(affine),
            "spread_constraints": self._spread(),
            "images": tuple(f"img{i}:1" for i in range(3) if self._maybe(0.4)),
            "container_count": pick((1, 2)),
        }
        if self._maybe(0.2):
            spec["node_selector"] = (("rack", "r1"),)
        if self._maybe(0.2):
            spec["required_node_terms"] = tuple(self._node_term() for _ in range(pick((0, 1, 2))))
        if self._maybe(0.4):
            spec["preferred_node_terms"] = tuple(
                WeightedNodeTerm(pick((0, 1, 50)), self._node_term()) for _ in range(2)
            )
        if self._maybe(0.4):
            effect = TaintEffect(pick((0, 1, 2, 3)))
            key, exists = pick((("dedicated", False), ("slow", True), ("", True)))
            spec["tolerations"] = (Toleration(key, pick(("", "ml")), exists, effect),)
        if self._maybe(0.3):
            address = pick(("0.0.0.0", "10.0.0.1", "10.0.0.2"))
            spec["host_ports"] = (HostPort(pick(("TCP", "UDP")), address, pick((80, 81))),)
        labels = {"app": pick(APPS)}
        if self._maybe(0.3):
            labels["tier"] = "web"
        made = pod(
            name,
            "g",
            pick((0, 0.5, 1)),
            pick((0, 1)),
            on=on,
            spec=spec,
            labels=labels,
            terminating=bool(on) and self._maybe(0.15),
        )
        if self._maybe(0.2):
            made = asking(made, (("cpu", 500), ("nvidia.com/gpu", 1000)))
        # One namespace is not known to the cluster.
        return replace(made, namespace=pick(("a", "a", "b", "unknown")))

    def _workloads(self) -> list[Workload]:
        if self._maybe(0.5):
            return []
        app = Requirement("app", Operator.IN, (self.chance.choice(APPS),))
        return [Workload("uid-s", "Service", "a", "s", LabelSelector((app,)))]

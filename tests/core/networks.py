"""Random clusters with a network of two or three tiers, for tests of network topology."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology, SubGroupPolicy
from pumice.core.model.pod import Pod
from pumice.core.model.topology import HyperNode, HyperNodeMember
from tests.core.builders import node, pod, pod_group, queue


def hyper_node(
    name: str, tier: int, *nodes: str, below: tuple[str, ...] = (), called: str = ""
) -> HyperNode:
    members = [HyperNodeMember(exact_name=each) for each in nodes]
    members += [HyperNodeMember(is_hyper_node=True, exact_name=each) for each in below]
    return HyperNode(f"uid-{name}", name, tier, called, tuple(members))


def odd_hyper_node(name: str, others: list[str], nodes: list[str], chance: Random) -> HyperNode:
    """With members that may be missing, empty or the HyperNode itself, and any tier."""
    choices = [
        HyperNodeMember(exact_name=chance.choice([*nodes, "missing"])),
        HyperNodeMember(is_hyper_node=True, exact_name=chance.choice(others)),
        HyperNodeMember(name_pattern="^n"),
        HyperNodeMember(is_hyper_node=True, name_pattern="h.*"),
        HyperNodeMember(),
    ]
    members = tuple(chance.sample(choices, chance.randint(0, 3)))
    tier = chance.choice((-(2**31), -1, 0, 1, 2, 3, 2**31 - 1))
    return HyperNode(f"uid-{name}", name, tier, chance.choice(("", "rack")), members)


class RandomNetwork:
    """A cluster made from a seed, with jobs that come one by one."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self.nodes = [f"n{number}" for number in range(self._chance.randint(4, 9))]
        self.leaves: dict[str, list[str]] = {}
        self.spines: dict[str, list[str]] = {}
        # The tier of the domain of all nodes.
        self._top_tier = 1
        self._numbers = iter(range(1000))

    def objects(self) -> Iterator[ClusterObject]:
        chance = self._chance
        yield queue()
        for name in self.nodes:
            yield node(name, chance.choice((2, 4, 6)))
            # Some nodes are in no HyperNode.
            if chance.random() < 0.9:
                self.leaves.setdefault(f"leaf{chance.randint(0, 2)}", []).append(name)
        for name, nodes in self.leaves.items():
            yield hyper_node(name, 1, *nodes)
            self.spines.setdefault(f"spine{chance.randint(0, 1)}", []).append(name)
        for name, leaves in self.spines.items():
            yield hyper_node(name, 2, below=tuple(leaves))
        self._top_tier = 3 if self.spines else 1
        if self.spines and chance.random() < 0.5:
            self._top_tier = 4
            yield hyper_node("top", 3, below=tuple(self.spines))

    def job(self) -> list[ClusterObject]:
        chance, name = self._chance, f"j{next(self._numbers)}"
        size = chance.randint(1, 5)
        parts = chance.choice((0, 0, 1, 2))
        group = pod_group(
            name,
            chance.randint(1, size),
            network_topology=self._topology(),
            sub_group_policies=self._policies(parts) if parts else (),
        )
        cpus = [chance.choice((1, 2))] * size if chance.random() < 0.7 else [1, 2, 1, 2, 1]
        return [group, *(self._pod(name, n, cpus[n], parts) for n in range(size))]

    def _pod(self, job: str, number: int, cpu: int, parts: int) -> Pod:
        made = pod(f"{job}-w-{number}", job, cpu)
        return replace(made, labels={"part": str(number // parts)}) if parts else made

    def _topology(self) -> NetworkTopology | None:
        tier = self._chance.choice((None, 0, 1, 1, 2, 3))
        if tier is None:
            return None
        return NetworkTopology(hard=tier > 0, highest_tier=tier or None)

    def _policies(self, size: int) -> tuple[SubGroupPolicy, ...]:
        topology = self._topology()
        return (SubGroupPolicy("p", None, ("part",), size, 1, topology),)

    def is_within(self, nodes: set[str], tier: int) -> bool:
        """Whether a domain of at most this tier has all nodes."""
        if tier >= self._top_tier:
            return True
        domains = list(self.leaves.values()) if tier >= 1 else []
        for leaves in self.spines.values() if tier >= 2 else ():
            domains.append([node for leaf in leaves for node in self.leaves[leaf]])
        if tier >= 3:
            domains.append([node for nodes in self.leaves.values() for node in nodes])
        return not nodes or any(nodes <= set(domain) for domain in domains)

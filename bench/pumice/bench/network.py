"""Generated clusters with a network of three tiers, and gangs limited to its lowest tier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology, PodGroup, SubGroupPolicy
from pumice.core.model.pod import Pod
from pumice.core.model.topology import HyperNode, HyperNodeMember

_NODES_PER_LEAF = 16
_LEAVES_PER_SPINE = 8
_PART, _PODS_PER_PART = "part", 4


def with_network(size: Size) -> Iterator[ClusterObject]:
    """New gangs with a hard limit of tier 1, and HyperNodes over all nodes."""
    yield from hyper_nodes(size.nodes)
    topology = NetworkTopology(hard=True, highest_tier=1)
    for item in clusters.fresh(size):
        if isinstance(item, PodGroup) and item.namespace == clusters.NAMESPACE:
            yield replace(item, network_topology=topology)
        else:
            yield item


def with_sub_groups(size: Size) -> Iterator[ClusterObject]:
    """New gangs in subgroups of four pods with hard tier 1; the whole gang has hard tier 2."""
    yield from hyper_nodes(size.nodes)
    policy = SubGroupPolicy(
        "parts",
        match_label_keys=(_PART,),
        sub_group_size=_PODS_PER_PART,
        network_topology=NetworkTopology(hard=True, highest_tier=1),
    )
    whole = NetworkTopology(hard=True, highest_tier=2)
    count = 0
    for item in clusters.fresh(size):
        if isinstance(item, PodGroup) and item.namespace == clusters.NAMESPACE:
            count = 0
            yield replace(item, network_topology=whole, sub_group_policies=(policy,))
        elif isinstance(item, Pod) and item.group_name and item.namespace == clusters.NAMESPACE:
            labels = {**item.labels, _PART: str(count // _PODS_PER_PART)}
            count += 1
            yield replace(item, labels=labels)
        else:
            yield item


def hyper_nodes(node_count: int) -> Iterator[HyperNode]:
    """Leaves of 16 nodes, spines of 8 leaves, and one HyperNode above all spines."""
    names = [f"node-{number:05d}" for number in range(node_count)]
    leaves = list(_tier(1, "leaf", names, _NODES_PER_LEAF))
    spines = list(_tier(2, "spine", [leaf.name for leaf in leaves], _LEAVES_PER_SPINE))
    yield from leaves
    yield from spines
    yield from _tier(3, "core", [spine.name for spine in spines], len(spines))


def _tier(tier: int, kind: str, names: list[str], width: int) -> Iterable[HyperNode]:
    for number, start in enumerate(range(0, len(names), width)):
        name = f"{kind}-{number:04d}"
        members = tuple(
            HyperNodeMember(is_hyper_node=tier > 1, exact_name=member)
            for member in names[start : start + width]
        )
        yield HyperNode(f"uid-{name}", name, tier, members=members)

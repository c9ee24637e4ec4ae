"""The tree of HyperNodes: which nodes and which smaller domains each of them has."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.store import ObjectStore
from pumice.core.model.fit import Mask
from pumice.core.model.memo import cached_method
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.model.topology import HyperNode, HyperNodeMember
from pumice.patterns.automata import Pattern
from pumice.patterns.names import Names

# A domain of all nodes that is above every HyperNode; no object can have this name.
CLUSTER_TOP = "<cluster-top-hypernode>"
NO_DOMAIN = -1

Numbers = NDArray[np.intp]


class HyperNodeTree:
    """The HyperNodes and nodes of one version; lookups are computed on demand.

    HyperNodes that do not form a tree count as absent, and ``problem`` says why.
    """

    def __init__(
        self, hyper_nodes: ObjectStore[HyperNode], table: NodeTable, labels: NodeLabels
    ) -> None:
        self._hyper_nodes = hyper_nodes
        self._table = table
        self._labels = labels
        self._children: dict[str, list[str]] = {}
        self._parents: dict[str, str] = {}
        # Why the HyperNodes do not form a tree; empty where they do.
        self.problem = ""
        # All domains by number: HyperNodes by name, and last the domain of all nodes.
        self.names: list[str] = []
        self._find_names(list(hyper_nodes))
        self._rows: dict[str, Mask] = {}

    def _find_names(self, hyper_nodes: list[HyperNode]) -> None:
        known = {hyper_node.name for hyper_node in hyper_nodes}
        for hyper_node in hyper_nodes:
            # Patterns and labels select nodes only.
            named = {m.exact_name for m in hyper_node.members if m.is_hyper_node}
            children = self._children[hyper_node.name] = sorted(named & known)
            for child in children:
                if child in self._parents:
                    self.problem = f"HyperNode {child} has two parents"
                self._parents[child] = hyper_node.name
        cycle = _on_a_cycle(self._parents)
        if cycle and not self.problem:
            self.problem = f"HyperNode {cycle} is below itself"
        if self.problem:
            hyper_nodes, self._children, self._parents = [], {}, {}
        # The tier of the domain of all nodes is above all others.
        self.top_tier = max((1, *(hyper_node.tier + 1 for hyper_node in hyper_nodes)))
        self.names = [*(hyper_node.name for hyper_node in hyper_nodes), CLUSTER_TOP]
        self._tiers = [*(hyper_node.tier for hyper_node in hyper_nodes), self.top_tier]
        self._numbers = {name: number for number, name in enumerate(self.names)}
        roots = [name for name in self.names[:-1] if name not in self._parents]
        self._children[CLUSTER_TOP] = roots
        self._parents.update(dict.fromkeys(roots, CLUSTER_TOP))

    @cached_property
    def _node_names(self) -> Names:
        return Names(self._table.names)

    # The HyperNodes.

    def number_of(self, name: str) -> int | None:
        return self._numbers.get(name)

    def tiers(self) -> list[list[str]]:
        """The names of all HyperNodes by tier, the lowest tier first."""
        by_tier: dict[int, list[str]] = {}
        for name, tier in zip(self.names[:-1], self._tiers[:-1], strict=True):
            by_tier.setdefault(tier, []).append(name)
        return [by_tier[tier] for tier in sorted(by_tier)]

    def tier_of(self, name: str) -> int | None:
        number = self._numbers.get(name)
        return None if number is None else self._tiers[number]

    @property
    def tier_numbers(self) -> list[int]:
        """The tiers that exist, in order; the last is that of the domain of all nodes."""
        return sorted(set(self._tiers))

    def tier_named(self, name: str) -> int | None:
        """The tier with a name; where HyperNodes disagree, the last of them by name decides."""
        tier = None
        for hyper_node in self._hyper_nodes:
            if hyper_node.tier_name == name:
                tier = hyper_node.tier
        return tier

    # Parents and children.

    def children_of(self, name: str) -> list[str]:
        return self._children.get(name, [])

    @cached_method
    def ancestors_of(self, name: str) -> list[str]:
        """The domain itself, its parent and so on; the last is the domain of all nodes."""
        ancestors = [name]
        while (above := self._parents.get(ancestors[-1])) is not None:
            ancestors.append(above)
        return ancestors

    def common(self, left: str, right: str) -> str:
        """The lowest domain that contains both; where one name is empty, the other domain."""
        if not left or not right:
            return left or right
        if left == right:
            return left
        mine = set(self.ancestors_of(left))
        return next((name for name in self.ancestors_of(right) if name in mine), "")

    @cached_method
    def levels_below(self, root: str) -> list[tuple[int, Numbers]]:
        """The numbers of the root and all domains below it, by tier, the lowest tier first."""
        by_tier: dict[int, list[int]] = {}
        reached = [root]
        for name in reached:
            number = self._numbers[name]
            by_tier.setdefault(self._tiers[number], []).append(number)
            reached += self._children.get(name, [])
        return [(tier, np.array(by_tier[tier], dtype=np.intp)) for tier in sorted(by_tier)]

    # Nodes, by row.

    def rows_of(self, name: str) -> Mask:
        """The nodes of a domain by row, read-only; an unknown domain has none."""
        rows = self._rows.get(name)
        if rows is not None:
            return rows
        if name == CLUSTER_TOP:
            self._rows[name] = np.ones(len(self._table), dtype=np.bool_)
        reached = [] if name == CLUSTER_TOP else [name]
        for below in reached:
            reached += [child for child in self._children.get(below, ()) if child not in self._rows]
        # Children come first. A recursive call could nest too deep, because chains may be long.
        for below in reversed(reached):
            self._rows[below] = self._find_rows(below)
        rows = self._rows[name]
        rows.setflags(write=False)
        return rows

    def _find_rows(self, name: str) -> Mask:
        rows = np.zeros(len(self._table), dtype=np.bool_)
        hyper_node = self._hyper_nodes.get(name) if name in self._numbers else None
        for member in hyper_node.members if hyper_node is not None else ():
            if member.is_hyper_node:
                continue
            if member.label_selector is not None:
                if member.label_selector.requirements:
                    term = NodeSelectorTerm(member.label_selector.requirements)
                    rows |= self._labels.matches_term(term)
            else:
                rows |= _selected(member, self._node_names)
        for child in self._children.get(name, ()):
            rows |= self._rows[child]
        return rows

    @cached_method
    def by_row(self, tier: int) -> Numbers:
        """By row, the number of the node's domain of a tier; of several the first."""
        numbers = np.full(len(self._table), NO_DOMAIN, dtype=np.intp)
        for number in reversed(range(len(self.names))):
            if self._tiers[number] == tier:
                numbers[self.rows_of(self.names[number])] = number
        numbers.setflags(write=False)
        return numbers

    @cached_property
    def lowest_by_row(self) -> Numbers:
        """By row, the number of the node's domain of the lowest tier."""
        return self.by_row(min(self._tiers))

    @cached_method
    def has_one_lowest_domain(self, name: str) -> bool:
        """Whether all nodes of a domain have the same domain of the lowest tier, or none."""
        lowest = self.lowest_by_row[self.rows_of(name)]
        return not len(lowest) or bool((lowest == lowest[0]).all())

    def domains_of(self, row: int) -> list[int]:
        """The numbers of all domains that contain a node."""
        return self._domains_by_row[row]

    @cached_property
    def _domains_by_row(self) -> list[list[int]]:
        rows_of_each = [np.flatnonzero(self.rows_of(name)) for name in self.names]
        rows = np.concatenate(rows_of_each)
        numbers = np.repeat(np.arange(len(rows_of_each)), [len(part) for part in rows_of_each])
        ends = np.cumsum(np.bincount(rows, minlength=len(self._table)))
        ordered = numbers[np.argsort(rows, kind="stable")]
        parts = np.split(ordered, ends[:-1]) if len(ends) else []
        return [part.tolist() for part in parts]


def _on_a_cycle(parents: dict[str, str]) -> str:
    """The first name, in order, that is its own ancestor; empty where there is none."""
    # Names without children are removed again and again; only cycles are left.
    children = Counter(parents.values())
    left = set(parents)
    childless = [name for name in parents if not children[name]]
    for name in childless:
        left.discard(name)
        above = parents[name]
        children[above] -= 1
        if not children[above] and above in parents:
            childless.append(above)
    return min(left, default="")


def _selected(member: HyperNodeMember, names: Names) -> Mask:
    """The nodes that a member selects; an invalid pattern selects none."""
    if member.exact_name or not member.name_pattern:
        return names.equal_to(member.exact_name)
    try:
        return names.matching(Pattern(member.name_pattern))
    except re.error:
        return names.equal_to("")

"""The tree of HyperNodes: which nodes and which smaller domains each of them has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.names import Names
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.patterns import Pattern
from pumice.core.cache.store import ObjectStore
from pumice.core.model.fit import Mask
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.model.topology import HyperNode, HyperNodeMember

# A domain of all nodes that is above every HyperNode; no object can have this name.
CLUSTER_TOP = "<cluster-top-hypernode>"
NO_DOMAIN = -1

Numbers = NDArray[np.intp]


@dataclass(slots=True)
class _Shape:
    """Everything that follows from the HyperNodes and nodes of one version."""

    # All HyperNodes by name; the domain of all nodes comes last.
    names: list[str]
    numbers: dict[str, int]
    tiers: list[int]
    children: dict[str, list[str]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    rows: dict[str, Mask] = field(default_factory=dict)
    ancestors: dict[str, list[str]] = field(default_factory=dict)
    levels: dict[str, list[tuple[int, Numbers]]] = field(default_factory=dict)
    by_tier: dict[int, Numbers] = field(default_factory=dict)
    level: dict[str, bool] = field(default_factory=dict)
    holders: list[Numbers] | None = None


class HyperNodeTree:
    """Made again when HyperNodes, or the labels or names of nodes, have changed.

    HyperNodes that do not form a tree count as absent, and ``problem`` says why.
    """

    def __init__(
        self, hyper_nodes: ObjectStore[HyperNode], table: NodeTable, labels: NodeLabels
    ) -> None:
        self._hyper_nodes = hyper_nodes
        self._table = table
        self._labels = labels
        self._version: tuple[int, int, int] = (-1, -1, -1)
        self._shape = _Shape([CLUSTER_TOP], {CLUSTER_TOP: 0}, [1])
        self._node_names = Names(())

    def _now(self) -> _Shape:
        version = (self._hyper_nodes.version, self._table.layout, self._table.labels_version)
        if version != self._version:
            self._version = version
            self._node_names = Names(self._table.names)
            self._shape = self._made()
        return self._shape

    def _made(self) -> _Shape:
        found = list(self._hyper_nodes)
        top_tier = max((1, *(hyper_node.tier + 1 for hyper_node in found)))
        names = [*(hyper_node.name for hyper_node in found), CLUSTER_TOP]
        shape = _Shape(
            names,
            {name: number for number, name in enumerate(names)},
            [*(hyper_node.tier for hyper_node in found), top_tier],
        )
        for hyper_node in found:
            children = _child_names(hyper_node, shape.numbers)
            shape.children[hyper_node.name] = children
            for child in children:
                if child in shape.parents:
                    shape.problem = f"HyperNode {child} has two parents"
                shape.parents[child] = hyper_node.name
        cycle = _on_a_cycle(shape.parents)
        if cycle and not shape.problem:
            shape.problem = f"HyperNode {cycle} is below itself"
        if shape.problem:
            return _Shape([CLUSTER_TOP], {CLUSTER_TOP: 0}, [1], problem=shape.problem)
        roots = [name for name in names if name not in shape.parents and name != CLUSTER_TOP]
        shape.children[CLUSTER_TOP] = roots
        shape.parents.update(dict.fromkeys(roots, CLUSTER_TOP))
        return shape

    # The HyperNodes.

    @property
    def problem(self) -> str:
        """Why the HyperNodes do not form a tree; empty where they do."""
        return self._now().problem

    @property
    def version(self) -> tuple[int, int, int]:
        """Changes with everything that this tree says."""
        self._now()
        return self._version

    @property
    def names(self) -> list[str]:
        """All domains by number; the last one is the domain of all nodes."""
        return self._now().names

    def number_of(self, name: str) -> int | None:
        return self._now().numbers.get(name)

    def tiers(self) -> list[list[str]]:
        """The names of all HyperNodes by tier, the lowest tier first."""
        by_tier: dict[int, list[str]] = {}
        for hyper_node in self._hyper_nodes:
            by_tier.setdefault(hyper_node.tier, []).append(hyper_node.name)
        return [sorted(by_tier[tier]) for tier in sorted(by_tier)]

    def tier_of(self, name: str) -> int | None:
        shape = self._now()
        number = shape.numbers.get(name)
        return None if number is None else shape.tiers[number]

    @property
    def tier_numbers(self) -> list[int]:
        """The tiers that exist, the one above all HyperNodes included, in order."""
        return sorted(set(self._now().tiers))

    @property
    def top_tier(self) -> int:
        """The tier of the domain of all nodes."""
        return self._now().tiers[-1]

    def tier_named(self, name: str) -> int | None:
        """The tier of the HyperNodes that give it a name; of several the last by HyperNode."""
        tier = None
        for hyper_node in self._hyper_nodes:
            if hyper_node.tier_name == name:
                tier = hyper_node.tier
        return tier

    # Which is above which.

    def parent_of(self, name: str) -> str | None:
        parent = self._now().parents.get(name)
        return None if parent == CLUSTER_TOP else parent

    def children_of(self, name: str) -> list[str]:
        return self._now().children.get(name, [])

    def ancestors_of(self, name: str) -> list[str]:
        """The domain itself, the one above it and so on; the last is that of all nodes."""
        shape = self._now()
        found = shape.ancestors.get(name)
        if found is None:
            found = [name]
            while (above := shape.parents.get(found[-1])) is not None:
                found.append(above)
            shape.ancestors[name] = found
        return found

    def common(self, left: str, right: str) -> str:
        """The lowest domain that has both; of an empty and another name the other."""
        if not left or not right:
            return left or right
        if left == right:
            return left
        mine = set(self.ancestors_of(left))
        return next((name for name in self.ancestors_of(right) if name in mine), "")

    def levels_below(self, root: str) -> list[tuple[int, Numbers]]:
        """The root and all below it: by tier, the lowest first, the numbers of the domains."""
        shape = self._now()
        found = shape.levels.get(root)
        if found is None:
            by_tier: dict[int, list[int]] = {}
            reached = [root]
            for name in reached:
                number = shape.numbers[name]
                by_tier.setdefault(shape.tiers[number], []).append(number)
                reached += shape.children.get(name, [])
            found = [(tier, np.array(by_tier[tier], dtype=np.intp)) for tier in sorted(by_tier)]
            shape.levels[root] = found
        return found

    # Nodes, by row.

    def rows_of(self, name: str) -> Mask:
        """The nodes below a domain by row, to be read only; none for an unknown name."""
        shape = self._now()
        rows = shape.rows.get(name)
        if rows is not None:
            return rows
        if name == CLUSTER_TOP:
            shape.rows[name] = np.ones(len(self._table), dtype=np.bool_)
        reached = [] if name == CLUSTER_TOP else [name]
        for below in reached:
            reached += [child for child in shape.children.get(below, ()) if child not in shape.rows]
        # Those below come first: a chain of HyperNodes may be longer than functions can nest.
        for below in reversed(reached):
            shape.rows[below] = self._find_rows(shape, below)
        rows = shape.rows[name]
        rows.setflags(write=False)
        return rows

    def _find_rows(self, shape: _Shape, name: str) -> Mask:
        rows = np.zeros(len(self._table), dtype=np.bool_)
        hyper_node = self._hyper_nodes.get(name) if name in shape.numbers else None
        for member in hyper_node.members if hyper_node is not None else ():
            if member.is_hyper_node:
                continue
            if member.label_selector is not None:
                if member.label_selector.requirements:
                    term = NodeSelectorTerm(member.label_selector.requirements)
                    rows |= self._labels.matches_term(term)
            else:
                rows |= _selected(member, self._node_names)
        for child in shape.children.get(name, ()):
            rows |= shape.rows[child]
        return rows

    def by_row(self, tier: int) -> Numbers:
        """By row the number of the domain of a tier that has the node; of several the first."""
        shape = self._now()
        found = shape.by_tier.get(tier)
        if found is None:
            found = np.full(len(self._table), NO_DOMAIN, dtype=np.intp)
            for number in reversed(range(len(shape.names))):
                if shape.tiers[number] == tier:
                    found[self.rows_of(shape.names[number])] = number
            found.setflags(write=False)
            shape.by_tier[tier] = found
        return found

    @property
    def lowest_by_row(self) -> Numbers:
        """By row the number of the domain of the lowest tier that has the node."""
        return self.by_row(min(self._now().tiers))

    def is_level(self, name: str) -> bool:
        """Whether all nodes of a domain are in the same domain of the lowest tier, or all in none."""
        shape = self._now()
        known = shape.level.get(name)
        if known is None:
            lowest = self.lowest_by_row[self.rows_of(name)]
            known = shape.level[name] = not len(lowest) or bool((lowest == lowest[0]).all())
        return known

    def holders_of(self, row: int) -> Numbers:
        """The numbers of all domains that have a node."""
        shape = self._now()
        if shape.holders is None:
            pairs = [np.flatnonzero(self.rows_of(name)) for name in shape.names]
            rows = np.concatenate(pairs)
            numbers = np.repeat(np.arange(len(pairs)), [len(found) for found in pairs])
            order = np.argsort(rows, kind="stable")
            ends = np.cumsum(np.bincount(rows, minlength=len(self._table)))
            shape.holders = np.split(numbers[order], ends[:-1]) if len(ends) else []
        return shape.holders[row]


def _on_a_cycle(parents: dict[str, str]) -> str:
    """The first name that is above itself; empty: there is none."""
    # By name, from where it was first reached.
    seen: dict[str, str] = {}
    on_cycles: list[str] = []
    for start in parents:
        name: str | None = start
        while name is not None and name not in seen:
            seen[name] = start
            name = parents.get(name)
        if name is not None and seen[name] == start:
            on_cycles.append(name)
            above = parents[name]
            while above != name:
                on_cycles.append(above)
                above = parents[above]
    return min(on_cycles, default="")


def _child_names(hyper_node: HyperNode, known: dict[str, int]) -> list[str]:
    """The HyperNodes that it names; patterns and labels select nodes only."""
    named = {m.exact_name for m in hyper_node.members if m.is_hyper_node and m.exact_name in known}
    return sorted(named)


def _selected(member: HyperNodeMember, names: Names) -> Mask:
    """The names that a member selects; a pattern that is none selects nothing."""
    if member.exact_name or not member.name_pattern:
        return names.equal_to(member.exact_name)
    try:
        return names.matching(Pattern(member.name_pattern))
    except re.error:
        return names.equal_to("")

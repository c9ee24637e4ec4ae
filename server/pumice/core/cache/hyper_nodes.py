"""The tree of HyperNodes: which nodes and which smaller domains each of them has."""

from __future__ import annotations

import re

import numpy as np

from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.names import Names
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.patterns import Pattern
from pumice.core.cache.store import ObjectStore
from pumice.core.model.fit import Mask
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.model.topology import HyperNode, HyperNodeMember


class HyperNodeTree:
    """Made again when HyperNodes, or the labels or names of nodes, have changed."""

    def __init__(
        self, hyper_nodes: ObjectStore[HyperNode], table: NodeTable, labels: NodeLabels
    ) -> None:
        self._hyper_nodes = hyper_nodes
        self._table = table
        self._labels = labels
        self._version: tuple[int, int, int] = (-1, -1, -1)
        self._children: dict[str, list[str]] = {}
        self._parents: dict[str, str] = {}
        self._rows: dict[str, Mask] = {}
        self._problem = ""
        self._node_names = Names(())

    def _refresh(self) -> None:
        version = (self._hyper_nodes.version, self._table.layout, self._table.labels_version)
        if version == self._version:
            return
        self._version = version
        self._children, self._parents, self._rows, self._problem = {}, {}, {}, ""
        self._node_names = Names(self._table.names)
        names = Names([hyper_node.name for hyper_node in self._hyper_nodes])
        for hyper_node in self._hyper_nodes:
            children = _child_names(hyper_node, names)
            self._children[hyper_node.name] = children
            for child in children:
                if child in self._parents:
                    self._problem = f"HyperNode {child} has two parents"
                self._parents[child] = hyper_node.name
        for name in self._children:
            if not self._problem and self._is_above_itself(name):
                self._problem = f"HyperNode {name} is below itself"

    def _is_above_itself(self, name: str) -> bool:
        above = self._parents.get(name)
        for _ in range(len(self._parents)):
            if above is None or above == name:
                break
            above = self._parents.get(above)
        return above == name

    @property
    def problem(self) -> str:
        """Why the HyperNodes do not form a tree; empty where they do."""
        self._refresh()
        return self._problem

    def tiers(self) -> list[list[str]]:
        """The names of all HyperNodes by tier, the lowest tier first."""
        by_tier: dict[int, list[str]] = {}
        for hyper_node in self._hyper_nodes:
            by_tier.setdefault(hyper_node.tier, []).append(hyper_node.name)
        return [sorted(by_tier[tier]) for tier in sorted(by_tier)]

    def parent_of(self, name: str) -> str | None:
        self._refresh()
        return self._parents.get(name)

    def children_of(self, name: str) -> list[str]:
        self._refresh()
        return self._children.get(name, [])

    def rows_of(self, name: str) -> Mask:
        """The nodes below a HyperNode by row, to be read only; none for an unknown name."""
        self._refresh()
        if self._problem:
            return np.zeros(len(self._table), dtype=np.bool_)
        rows = self._rows.get(name)
        if rows is None:
            rows = self._rows[name] = self._find_rows(name)
        return rows

    def _find_rows(self, name: str) -> Mask:
        rows = np.zeros(len(self._table), dtype=np.bool_)
        hyper_node = self._hyper_nodes.get(name)
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
            rows |= self.rows_of(child)
        rows.setflags(write=False)
        return rows


def _child_names(hyper_node: HyperNode, names: Names) -> list[str]:
    members = [member for member in hyper_node.members if member.is_hyper_node]
    children = {
        names.texts[number]
        for member in members
        for number in np.flatnonzero(_selected(member, names)).tolist()
    }
    return sorted(children - {hyper_node.name})


def _selected(member: HyperNodeMember, names: Names) -> Mask:
    """The names that a member selects; a pattern that is none selects nothing."""
    if member.exact_name or not member.name_pattern:
        return names.equal_to(member.exact_name)
    try:
        return names.matching(Pattern(member.name_pattern))
    except re.error:
        return names.equal_to("")

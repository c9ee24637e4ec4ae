"""Label values of all nodes as arrays, so that selectors are evaluated for all nodes at once."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import NodeTable
from pumice.core.model.fit import Mask
from pumice.core.model.node import Node
from pumice.core.model.pod import PodSpec, SpreadConstraint
from pumice.core.model.selectors import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)

_ABSENT = -1
_NO_LABEL = ""


class LabelColumn:
    """One label over all nodes: a code for each node, and the value of each code."""

    __slots__ = ("_places", "codes", "values")

    def __init__(self, codes: NDArray[np.int32], values: dict[str, int]) -> None:
        self.codes = codes
        self.values = values
        self._places: NDArray[np.int32] | None = None

    @property
    def places(self) -> NDArray[np.int32]:
        """The codes, with the code of the empty value for nodes without the label."""
        if self._places is None:
            empty = self.values.get("", len(self.values))
            self._places = np.where(self.codes < 0, np.int32(empty), self.codes)
        return self._places

    @property
    def present(self) -> Mask:
        present: Mask = self.codes != _ABSENT
        return present

    def among(self, values: Container[str]) -> Mask:
        """Nodes with one of these values."""
        answers = [value in values for value in self.values]
        # The last entry answers for nodes without the label: code -1 reads it.
        return np.array([*answers, False], dtype=np.bool_)[self.codes]

    def in_domains_of(self, rows: list[int]) -> Mask:
        """Nodes with the same value as one of these nodes."""
        inside = np.zeros(len(self.values) + 1, dtype=np.bool_)
        inside[self.codes[rows]] = True
        # The last entry answers for nodes without the label: code -1 reads it.
        inside[-1] = False
        return inside[self.codes]


class NodeLabels:
    """Evaluates selectors and taints over the node table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._columns: dict[str, LabelColumn] = {}
        # The keys of all labels that nodes have; all other keys share one column.
        self._keys: frozenset[str] = frozenset()
        self._taint_sets: tuple[NDArray[np.int32], list[tuple[Taint, ...]]] | None = None
        self._unschedulable: Mask | None = None
        self._version = (-1, -1)
        # The version of the table at which a label, and taints or schedulability, last changed.
        self._key_versions: dict[str, int] = {}
        self._taints_version = 0

    def forget_outdated(self) -> None:
        """Forgets the columns of labels that have changed, and all columns after rows have moved."""
        table = self._table
        version = (table.layout, table.labels_version)
        if version == self._version:
            return
        if self._version[0] == table.layout:
            for row, old in table.relabelled.items():
                self._follow(row, old, table.labels_version)
        else:
            self._columns.clear()
            self._keys = frozenset()
            self._taint_sets = None
            self._unschedulable = None
            self._key_versions.clear()
        table.relabelled.clear()
        self._version = version

    def _follow(self, row: int, old: Node, version: int) -> None:
        node = self._table.rows[row].node
        if node is None:
            return
        for key in old.labels.keys() | node.labels.keys():
            if old.labels.get(key) != node.labels.get(key):
                self._key_versions[key] = version
                self._columns.pop(key, None)
                self._keys = self._keys | {key} if self._columns else self._keys
        if (old.taints, old.unschedulable) != (node.taints, node.unschedulable):
            self._taints_version = version
            self._taint_sets = None
            self._unschedulable = None

    def version_of(self, spec: PodSpec) -> tuple[int, ...]:
        """A version that changes with taints, and with the labels by which a spec selects nodes."""
        self.forget_outdated()
        keys = [key for key, _ in spec.node_selector]
        for term in spec.required_node_terms or ():
            keys += [requirement.key for requirement in term.label_requirements]
        return (self._taints_version, *[self._key_versions.get(key, 0) for key in keys])

    def column(self, key: str) -> LabelColumn:
        self.forget_outdated()
        if not self._columns:
            self._find_keys()
        column = self._columns.get(key if key in self._keys else _NO_LABEL)
        if column is None:
            values: dict[str, int] = {}
            codes = []
            for entry in self._table.rows:
                value = entry.node.labels.get(key) if entry.node else None
                code = _ABSENT if value is None else values.setdefault(value, len(values))
                codes.append(code)
            column = self._columns[key] = LabelColumn(np.array(codes, dtype=np.int32), values)
        return column

    def _find_keys(self) -> None:
        nodes = [entry.node for entry in self._table.rows if entry.node]
        self._keys = frozenset().union(*(node.labels for node in nodes))
        codes = np.full(len(self._table), _ABSENT, dtype=np.int32)
        self._columns[_NO_LABEL] = LabelColumn(codes, {})

    def taint_sets(self) -> tuple[NDArray[np.int32], list[tuple[Taint, ...]]]:
        """A code for the taints of each node, and the taints of each code."""
        self.forget_outdated()
        if self._taint_sets is None:
            known: dict[tuple[Taint, ...], int] = {}
            codes = [
                known.setdefault(entry.node.taints if entry.node else (), len(known))
                for entry in self._table.rows
            ]
            self._taint_sets = (np.array(codes, dtype=np.int32), list(known))
        return self._taint_sets

    def unschedulable(self) -> Mask:
        """Nodes that are closed to new pods."""
        self.forget_outdated()
        if self._unschedulable is None:
            closed = [bool(e.node and e.node.unschedulable) for e in self._table.rows]
            self._unschedulable = np.array(closed, dtype=np.bool_)
        return self._unschedulable

    def matches(self, requirement: Requirement) -> Mask:
        column = self.column(requirement.key)
        answers = [requirement.matches({requirement.key: value}) for value in column.values]
        absent = requirement.operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
        # The last entry answers for nodes without the label: code -1 reads it.
        return np.array([*answers, absent], dtype=np.bool_)[column.codes]

    def matches_term(self, term: NodeSelectorTerm) -> Mask:
        count = len(self._table)
        if not term.is_sound:
            return np.zeros(count, dtype=np.bool_)
        mask = np.ones(count, dtype=np.bool_)
        for requirement in term.label_requirements:
            mask &= self.matches(requirement)
        if term.field_requirements:
            fields = NodeSelectorTerm(field_requirements=term.field_requirements)
            mask &= np.fromiter(
                (fields.matches({}, name) for name in self._table.names), np.bool_, count
            )
        return mask

    def matches_any(self, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
        mask = np.zeros(len(self._table), dtype=np.bool_)
        for term in terms:
            mask |= self.matches_term(term)
        return mask

    def matches_pairs(self, pairs: tuple[tuple[str, str], ...]) -> Mask:
        mask = np.ones(len(self._table), dtype=np.bool_)
        for key, value in pairs:
            column = self.column(key)
            mask &= column.codes == column.values.get(value, _ABSENT - 1)
        return mask

    def admits(self, spec: PodSpec) -> Mask:
        """Nodes that match the pod's node selector and its required node affinity."""
        mask = self.matches_pairs(spec.node_selector)
        if spec.required_node_terms is not None:
            mask &= self.matches_any(spec.required_node_terms)
        return mask

    def counts(self, spec: PodSpec, constraint: SpreadConstraint) -> Mask:
        """Nodes whose pods a spread constraint counts, by its policies for affinity and taints."""
        mask = np.ones(len(self._table), dtype=np.bool_)
        if constraint.honor_node_affinity:
            mask &= self.admits(spec)
        if constraint.honor_node_taints:
            mask &= ~self.repels(spec.tolerations)
        return mask

    def repels(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """Nodes with a taint that none of these tolerations tolerates."""
        codes, sets = self.taint_sets()
        if not sets:
            return np.zeros(0, dtype=np.bool_)
        refused = [
            any(
                taint.repels and not any(t.tolerates(taint) for t in tolerations)
                for taint in taints
            )
            for taints in sets
        ]
        return np.array(refused, dtype=np.bool_)[codes]

"""Counts the nodes of HyperNodes."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pumice.controllers.hypernode.types import HyperNode, Member
from pumice.controllers.selectors import matches
from pumice.patterns.automata import Pattern, PatternError
from pumice.patterns.names import Names

Labels = Mapping[str, Mapping[str, str]]

# Patterns whose matches are kept. When there are more, all are forgotten.
MOST_PATTERNS: Final = 10_000


class NameMatcher:
    """The names of nodes or HyperNodes that match a pattern. Matches are kept until the names change.

    The scheduler uses the same automata, so both select the same nodes. The time of a match is
    bounded for every pattern.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = Names(tuple(names))
        self._found: dict[str, frozenset[str]] = {}

    def set_names(self, names: Iterable[str]) -> None:
        given = tuple(names)
        if given != self._names.texts:
            self._names = Names(given)
            self._found.clear()

    def matching(self, pattern: str) -> frozenset[str]:
        """The names that contain a match. An invalid or too large pattern matches no name."""
        found = self._found.get(pattern)
        if found is None:
            if len(self._found) >= MOST_PATTERNS:
                self._found.clear()
            found = self._found[pattern] = self._match(pattern)
        return found

    def _match(self, text: str) -> frozenset[str]:
        try:
            mask = self._names.matching(Pattern(text))
        except (PatternError, re.error):
            return frozenset()
        return frozenset(self._names.texts[number] for number in mask.nonzero()[0].tolist())


class NodeCounter:
    """Finds the nodes below a HyperNode."""

    def __init__(self, nodes: Labels, hyper_nodes: Mapping[str, HyperNode]) -> None:
        self._node_names, self._hyper_node_names = NameMatcher(), NameMatcher()
        self.set_objects(nodes, hyper_nodes)

    def set_objects(self, nodes: Labels, hyper_nodes: Mapping[str, HyperNode]) -> None:
        self._nodes, self._hyper_nodes = nodes, hyper_nodes
        self._hyper_node_labels = {n: one.metadata.labels or {} for n, one in hyper_nodes.items()}
        self._node_names.set_names(nodes)
        self._hyper_node_names.set_names(hyper_nodes)

    def nodes_of(self, top: HyperNode) -> set[str]:
        """Names of the nodes below a HyperNode. Each HyperNode is visited once, even in a cycle."""
        found: set[str] = set()
        visited, pending = {top.metadata.name}, [top]
        while pending:
            for member in pending.pop().spec.members or ():
                if member.type != "HyperNode":
                    found.update(self._selected(member, self._nodes, self._node_names))
                    continue
                labels, names = self._hyper_node_labels, self._hyper_node_names
                for name in self._selected(member, labels, names):
                    below = self._hyper_nodes.get(name)
                    if below is not None and name not in visited:
                        visited.add(name)
                        pending.append(below)
        return found

    def _selected(self, member: Member, labels: Labels, names: NameMatcher) -> Iterable[str]:
        """The names that a member selects. The name of an `exactMatch` need not exist."""
        selector = member.selector
        if exact := selector.get("exactMatch"):
            return (exact.get("name", ""),)
        if pattern := selector.get("regexMatch"):
            return names.matching(pattern.get("pattern", ""))
        if by_label := selector.get("labelMatch"):
            return [name for name, given in labels.items() if matches(by_label, given)]
        return ()

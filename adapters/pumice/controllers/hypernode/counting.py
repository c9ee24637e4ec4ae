"""The nodes of a HyperNode."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pumice.controllers.hypernode.types import HyperNode, Member
from pumice.controllers.selectors import matches
from pumice.patterns.automata import Pattern, PatternError
from pumice.patterns.names import Names

Labels = Mapping[str, Mapping[str, str]]

# Patterns whose names are kept; all are forgotten when there are more.
MOST_PATTERNS: Final = 10_000


class NameMatcher:
    """Names of nodes or HyperNodes that patterns select, kept until the names change.

    The engine selects nodes with the same automata: the count is the number of nodes that the scheduler
    sees. The time of a match is limited, whatever the pattern.
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
        """The names with a match anywhere; none for a pattern that is invalid or too large."""
        held = self._found.get(pattern)
        if held is None:
            if len(self._found) >= MOST_PATTERNS:
                self._found.clear()
            held = self._found[pattern] = self._match(pattern)
        return held

    def _match(self, text: str) -> frozenset[str]:
        try:
            mask = self._names.matching(Pattern(text))
        except (PatternError, re.error):
            return frozenset()
        return frozenset(self._names.texts[number] for number in mask.nonzero()[0].tolist())


class NodeCounter:
    """Counts nodes below HyperNodes."""

    def __init__(self, nodes: Labels, hyper_nodes: Mapping[str, HyperNode]) -> None:
        self._node_names, self._hyper_node_names = NameMatcher(), NameMatcher()
        self.set_objects(nodes, hyper_nodes)

    def set_objects(self, nodes: Labels, hyper_nodes: Mapping[str, HyperNode]) -> None:
        self._nodes, self._hyper_nodes = nodes, hyper_nodes
        self._hyper_node_labels = {n: one.metadata.labels or {} for n, one in hyper_nodes.items()}
        self._node_names.set_names(nodes)
        self._hyper_node_names.set_names(hyper_nodes)

    def nodes_of(self, top: HyperNode) -> set[str]:
        """Names of the nodes below a HyperNode. A HyperNode below itself is looked at once."""
        found: set[str] = set()
        seen, waiting = {top.metadata.name}, [top]
        while waiting:
            for member in waiting.pop().spec.members or ():
                if member.type != "HyperNode":
                    found.update(self._chosen(member, self._nodes, self._node_names))
                    continue
                labels, names = self._hyper_node_labels, self._hyper_node_names
                for name in self._chosen(member, labels, names):
                    below = self._hyper_nodes.get(name)
                    if below is not None and name not in seen:
                        seen.add(name)
                        waiting.append(below)
        return found

    def _chosen(self, member: Member, labels: Labels, names: NameMatcher) -> Iterable[str]:
        """Names that a member chooses; a name that is given exactly need not exist."""
        selector = member.selector
        if exact := selector.get("exactMatch"):
            return (exact.get("name", ""),)
        if pattern := selector.get("regexMatch"):
            return names.matching(pattern.get("pattern", ""))
        if by_label := selector.get("labelMatch"):
            return [name for name, held in labels.items() if matches(by_label, held)]
        return ()

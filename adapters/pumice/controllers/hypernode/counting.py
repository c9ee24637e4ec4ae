"""The nodes of a HyperNode."""

import re
from collections.abc import Iterator, Mapping

from pumice.controllers.hypernode.types import HyperNode, Member
from pumice.controllers.selectors import matches

Labels = Mapping[str, Mapping[str, str]]


def nodes_of(
    top: HyperNode,
    nodes: Labels,
    others: Mapping[str, HyperNode],
    seen: frozenset[str] = frozenset(),
) -> set[str]:
    """Names of the nodes below a HyperNode. One that is below itself counts once."""
    found: set[str] = set()
    seen |= {top.metadata.name}
    for member in top.spec.members or ():
        if member.type != "HyperNode":
            found.update(_chosen(member, nodes))
            continue
        labels = {name: one.metadata.labels or {} for name, one in others.items()}
        for name in _chosen(member, labels):
            below = others.get(name)
            if below is not None and name not in seen:
                found |= nodes_of(below, nodes, others, seen)
    return found


def _chosen(member: Member, candidates: Labels) -> Iterator[str]:
    """Names that a member chooses; a name that is given exactly need not exist."""
    selector = member.selector
    if exact := selector.get("exactMatch"):
        yield exact.get("name", "")
    elif pattern := selector.get("regexMatch"):
        try:
            expression = re.compile(pattern.get("pattern", ""))
        except re.error:
            return
        yield from (name for name in candidates if expression.search(name))
    elif by_label := selector.get("labelMatch"):
        yield from (name for name, labels in candidates.items() if matches(by_label, labels))

"""Formats amounts and the reasons of predicates for people."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pumice.core.model.reasons import NodeCount
from pumice.core.plugins.predicates import interpod
from pumice.server.explaining.node_details import NOT_SELECTED, TAINTED

_GIB, _MIB = 2**30, 2**20
_INSUFFICIENT = "Insufficient "
# The reason of a pre-predicate, which concerns the pod and not a node.
_PRE_PREDICATE = re.compile(r"plugin \S+ pre-predicates failed (.+)")
# The phrases for one node and for several nodes.
_PHRASES = {
    "node(s) had untolerated taint(s)": (
        "has taints that it does not tolerate",
        "have taints that it does not tolerate",
    ),
    "node(s) were unschedulable": ("is cordoned", "are cordoned"),
    "node(s) didn't match Pod's node affinity/selector": (
        "does not match its node selector or affinity",
        "do not match its node selector or affinity",
    ),
    "node(s) didn't match pod affinity rules": (
        "has no pod near that it must be near to",
        "have no pod near that it must be near to",
    ),
    "node(s) didn't match pod anti-affinity rules": (
        "is near a pod that it must keep away from",
        "are near a pod that it must keep away from",
    ),
    "node(s) didn't satisfy existing pods anti-affinity rules": (
        "is near a pod that keeps it away",
        "are near a pod that keeps it away",
    ),
    "node(s) didn't match pod topology spread constraints": (
        "would make its pods too unevenly spread",
        "would make its pods too unevenly spread",
    ),
    "node(s) didn't have free ports for the requested pod ports": (
        "has a port in use that it needs",
        "have a port in use that it needs",
    ),
    "node(s) pod number exceeded": ("takes no more pods", "take no more pods"),
    "node(s) exceed max volume count": ("takes no more volumes", "take no more volumes"),
    "node(s) had no available volume zone": (
        "is not in the zone of its volumes",
        "are not in the zone of its volumes",
    ),
    "node(s) didn't match PersistentVolume's node affinity": (
        "cannot reach its volumes",
        "cannot reach its volumes",
    ),
    "node(s) didn't find available persistent volumes to bind": (
        "has no free volume for its claims",
        "have no free volume for their claims",
    ),
    "node(s) did not have enough free storage": (
        "has too little free storage",
        "have too little free storage",
    ),
    "node(s) that no eviction could make feasible": (
        "would not take it whatever is evicted",
        "would not take it whatever is evicted",
    ),
    "node(s) with too few resources to evict": (
        "has too little that may be evicted for it",
        "have too little that may be evicted for it",
    ),
    "node(s) where evictions were not enough": (
        "would not take it with the evictions that plugins allow",
        "would not take it with the evictions that plugins allow",
    ),
    "node(s) were out of sync": (
        "holds more than it has",
        "hold more than they have",
    ),
}


def amount(resource: str, value: int) -> str:
    """An amount with its unit, for people."""
    if resource == "cpu" or "/" in resource:
        return f"{value / 1000:g} {resource}"
    if resource == "memory":
        return (
            f"{value / _GIB:.3g} GiB memory" if value >= _GIB else f"{value / _MIB:.3g} MiB memory"
        )
    return f"{value} {resource}"


def concerns_pod_only(counts: Iterable[NodeCount]) -> bool:
    """Whether a reason concerns the pod itself and not a node."""
    return any(_PRE_PREDICATE.fullmatch(count.reason) for count in counts)


def counted(counts: Iterable[NodeCount]) -> str:
    """Nodes by reason, such as ``3 nodes have too little cpu, 1 is cordoned``."""
    parts: list[str] = []
    for count in counts:
        everywhere = _PRE_PREDICATE.fullmatch(count.reason)
        if everywhere is not None:
            parts.append(everywhere[1])
            continue
        noun = " node" if count.nodes == 1 else " nodes"
        phrase = _phrase(count)
        first = noun if phrase is not None and not any(p[0].isdigit() for p in parts) else ""
        parts.append(f"{count.nodes}{first} {phrase or count.reason}")
    return ", ".join(parts)


def _phrase(count: NodeCount) -> str | None:
    one = count.nodes == 1
    if count.reason.startswith(_INSUFFICIENT):
        return f"{'has' if one else 'have'} too little {count.reason.removeprefix(_INSUFFICIENT)}"
    phrases = _PHRASES.get(count.reason)
    return None if phrases is None else phrases[0 if one else 1]


def of_one_node(reason: str) -> str:
    """Why a node refuses a pod, as the predicate of a sentence about the node."""
    text, _, about = reason.partition(": ")
    everywhere = _PRE_PREDICATE.fullmatch(reason)
    if everywhere is not None:
        return f"is refused: {everywhere[1]}"
    if about and text in TAINTED:
        return f"has the taint {about}, which it does not tolerate"
    if about and text in NOT_SELECTED:
        return f"does not have {about}"
    if about and text == interpod.NO_AFFINITY:
        return f"has no pod near that it must be near to ({about})"
    if about and text == interpod.ANTI_AFFINITY:
        return f"is near a pod that it must keep away from ({about})"
    phrases = _PHRASES.get(text)
    return f"is refused: {reason}" if phrases is None else phrases[0]

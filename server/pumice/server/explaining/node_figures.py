"""Details of why a plugin refuses a node: its measured load, or its node group."""

from __future__ import annotations

from pumice.core.plugins.nodegroup import NO_AFFINITY, NODE_GROUP, NOT_ALLOWED
from pumice.core.plugins.usage import TOO_MUCH_CPU, TOO_MUCH_MEMORY
from pumice.core.session.feasibility.figures import USAGE
from pumice.core.session.session import Session

_MEASURED = {TOO_MUCH_CPU: "cpu", TOO_MUCH_MEMORY: "memory"}
_NS = 10**9


def with_figures(reason: str, session: Session, node: str) -> str:
    """The reason with the measured load and its age, or with the group of the node."""
    key = _MEASURED.get(reason)
    if key is not None:
        figures = session.data(USAGE).get(node)
        percent, time = figures.get(key), figures.get("time")
        if isinstance(percent, float | int) and isinstance(time, float | int):
            age = max(session.now_ns / _NS - time, 0.0)
            return f"{reason} It was {percent:.0f} % {age:.0f} s ago"
    if reason in (NO_AFFINITY, NOT_ALLOWED):
        held = session.cache.nodes.get(node)
        group = "" if held is None else held.labels.get(NODE_GROUP, "")
        return f"{reason}: its group is {group}"
    return reason

"""Faults in the tree of queues, because of which queues or the whole cluster get nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.configuration import Configuration
from pumice.core.decisions import Event
from pumice.core.model.group import Queue
from pumice.core.session.session import Session

_ROOT = "root"
EVENT_REASON = "QueueTreeInvalid"
# Queues that are named in events and log lines at once.
MAX_NAMED = 20


def uses_tree(configuration: Configuration) -> bool:
    """Whether the queues have to form a tree."""
    options = [o for tier in configuration.tiers for o in tier if o.name == "capacity"]
    return any(each.enabled("enableHierarchy") for each in options)


def queue_faults(
    configuration: Configuration, queues: Mapping[str, Queue], busy: Iterable[str] = ()
) -> dict[str, str]:
    """What is wrong with which queue; ``busy`` are the queues that have jobs."""
    if not uses_tree(configuration):
        return {}
    if _ROOT not in queues:
        return {_ROOT: f"there is no queue {_ROOT}, so nothing is scheduled"}
    faults = {}
    parents = {}
    for name, queue in queues.items():
        if name == _ROOT:
            continue
        parent = queue.parent or _ROOT
        if parent not in queues:
            faults[name] = f"its parent {parent} does not exist, so nothing is scheduled"
            continue
        parents[parent] = name
        loop = _loop(queues, name)
        if name in loop:
            faults[name] = f"queues are parents of each other ({' below '.join(loop)})"
    for name in busy:
        if name in parents and name not in faults:
            child = parents[name]
            faults[name] = f"it has jobs and a child queue ({child}), so nothing is scheduled"
    return faults


def why_no_tree(session: Session, queue: str) -> str:
    """Why a job of a queue gets nothing; empty: the queues form a tree, or need not."""
    if not uses_tree(session.configuration):
        return ""
    loop = _loop(session.queues, queue)
    if loop:
        return f"queues are parents of each other ({' below '.join(loop)})"
    if session.accounts:
        return ""
    busy = {job.queue for job in session.jobs.values()}
    faults = queue_faults(session.configuration, session.queues, sorted(busy))
    name, fault = next(iter(faults.items()), ("", "look at the parents of the queues"))
    return f"the queues form no tree: queue {name}: {fault}" if name else fault


def fault_events(faults: Mapping[str, str], queues: Mapping[str, Queue]) -> tuple[Event, ...]:
    """A warning on each of the queues that exist, up to a limit."""
    named = [(queues[name], fault) for name, fault in faults.items() if name in queues]
    return tuple(
        Event(
            "Queue", "", queue.name, queue.uid, True, EVENT_REASON, f"queue {queue.name}: {fault}"
        )
        for queue, fault in named[:MAX_NAMED]
    )


def _loop(queues: Mapping[str, Queue], queue: str) -> list[str]:
    """The loop that the way up from a queue ends in; empty: it ends at the root."""
    way: list[str] = []
    name = queue
    while name in queues and name != _ROOT:
        if name in way:
            return [*way[way.index(name) :], name]
        way.append(name)
        name = queues[name].parent or _ROOT
    return []

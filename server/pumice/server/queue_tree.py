"""Faults in the queue tree, because of which queues or the whole cluster are not scheduled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.configuration import Configuration
from pumice.core.decisions import Event
from pumice.core.model.group import Queue
from pumice.core.session.session import Session

_ROOT = "root"
EVENT_REASON = "QueueTreeInvalid"
# Number of queues that get an event at once.
MAX_NAMED = 20


def uses_tree(configuration: Configuration) -> bool:
    """Whether the configuration requires the queues to form a tree."""
    options = [o for tier in configuration.tiers for o in tier if o.name == "capacity"]
    return any(each.enabled("enableHierarchy") for each in options)


def queue_faults(
    configuration: Configuration, queues: Mapping[str, Queue], busy: Iterable[str] = ()
) -> dict[str, str]:
    """The faults by queue; ``busy`` are the queues with jobs."""
    if not uses_tree(configuration):
        return {}
    if _ROOT not in queues:
        return {_ROOT: f"the queue {_ROOT} does not exist, so nothing is scheduled"}
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
        cycle = _cycle(queues, name)
        if name in cycle:
            faults[name] = f"queues are parents of each other ({' below '.join(cycle)})"
    for name in busy:
        if name in parents and name not in faults:
            child = parents[name]
            faults[name] = f"it has jobs and a child queue ({child}), so nothing is scheduled"
    return faults


def why_no_tree(session: Session, queue: str) -> str:
    """Why the queue tree prevents scheduling in a queue; empty: it does not."""
    if not uses_tree(session.configuration):
        return ""
    cycle = _cycle(session.queues, queue)
    if cycle:
        return f"queues are parents of each other ({' below '.join(cycle)})"
    if session.accounts:
        return ""
    busy = {job.queue for job in session.jobs.values()}
    faults = queue_faults(session.configuration, session.queues, sorted(busy))
    name, fault = next(iter(faults.items()), ("", "check the parents of the queues"))
    return f"the queues do not form a tree: queue {name}: {fault}" if name else fault


def fault_events(faults: Mapping[str, str], queues: Mapping[str, Queue]) -> tuple[Event, ...]:
    """A warning event for each existing queue with a fault, up to a limit."""
    named = [(queues[name], fault) for name, fault in faults.items() if name in queues]
    return tuple(
        Event(
            "Queue", "", queue.name, queue.uid, True, EVENT_REASON, f"queue {queue.name}: {fault}"
        )
        for queue, fault in named[:MAX_NAMED]
    )


def _cycle(queues: Mapping[str, Queue], queue: str) -> list[str]:
    """The cycle that the parents of a queue lead into; empty: they lead to the root."""
    path: list[str] = []
    name = queue
    while name in queues and name != _ROOT:
        if name in path:
            return [*path[path.index(name) :], name]
        path.append(name)
        name = queues[name].parent or _ROOT
    return []

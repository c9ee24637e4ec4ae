"""Why the queues of a cluster form no tree, for want of which nobody gets anything."""

from __future__ import annotations

from pumice.core.session.session import Session

_ROOT = "root"


def why_no_tree(session: Session, queue: str) -> str:
    """Empty: they do, or nobody asks for one. The queue is that of the job in question."""
    options = [o for tier in session.configuration.tiers for o in tier if o.name == "capacity"]
    if not any(each.enabled("enableHierarchy") for each in options):
        return ""
    circle = _circle(session, queue)
    if circle:
        return f"queues are above each other in a circle ({' below '.join(circle)})"
    if session.accounts:
        return ""
    return f"the queues form no tree, and until they do nothing starts: {_fault(session)}"


def _fault(session: Session) -> str:
    queues = session.queues
    if _ROOT not in queues:
        return f"there is no queue {_ROOT}"
    parents = set()
    for name, each in queues.items():
        if name == _ROOT:
            continue
        parent = each.parent or _ROOT
        if parent not in queues:
            return f"queue {name} is below {parent}, which does not exist"
        parents.add(parent)
    for job in session.jobs.values():
        if job.queue in parents:
            return f"{job.id} is in queue {job.queue}, which has queues below it"
    return "look at the parents of the queues"


def _circle(session: Session, queue: str) -> list[str]:
    way: list[str] = []
    name = queue
    while name in session.queues and name != _ROOT:
        if name in way:
            return [*way[way.index(name) :], name]
        way.append(name)
        name = session.queues[name].parent or _ROOT
    return []

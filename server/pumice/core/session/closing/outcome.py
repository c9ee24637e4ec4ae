"""What a session reports in addition to decisions and statuses: events, waits and reservations."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.jobs import Job
from pumice.core.decisions import Event, PodGroupStatusChanged, StatusChange, Wait
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.model.status import PIPELINED
from pumice.core.session.closing.conditions import UNSCHEDULABLE
from pumice.core.session.session import Session


def events_of(session: Session, statuses: Iterable[StatusChange]) -> tuple[Event, ...]:
    """The events of a session.

    A plugin records why it holds a job back in every session. Such an event is reported only
    together with a change of the job's status, so that neither the next session nor a restarted
    core repeats it.
    """
    changed = {s.uid for s in statuses if isinstance(s, PodGroupStatusChanged)}
    return tuple([e for e in session.events if not _is_repeatable(e) or e.uid in changed])


def _is_repeatable(event: Event) -> bool:
    return event.kind == "PodGroup" and event.reason == UNSCHEDULABLE and not event.warning


def waits_of(session: Session) -> tuple[Wait, ...]:
    """Why jobs wait, including those whose queue does not exist."""
    waits = {id_: Wait(id_, tuple(reasons)) for id_, reasons in session.reasons.items()}
    waits |= session.waiting.unplaceable.waits
    waits |= session.waiting.held.waits
    waits |= {job.id: Wait(job.id, (reason,)) for job, reason in jobs_without_queue(session)}
    return tuple([waits[id_] for id_ in sorted(waits)])


def jobs_without_queue(session: Session) -> list[tuple[Job, Reason]]:
    """Waiting jobs whose queue does not exist, by id."""
    jobs = session.cache.jobs
    if len(session.jobs) == len(jobs):
        return []
    return [
        (job, Reason("core", ReasonCode.QUEUE_MISSING, subjects=(job.queue,)))
        for _, job in sorted(jobs.items())
        if job.group is not None
        and job.queue not in session.queues
        and (job.index.pending or not len(job.index))
    ]


def promises_of(session: Session) -> dict[str, Resources]:
    """By node: the resources that pipelined tasks wait for."""
    promised: dict[str, Resources] = {}
    for task in session.moves.pipelined.values():
        if task.status is PIPELINED:
            promised.setdefault(task.node_name, Resources()).add(task.request)
    return promised

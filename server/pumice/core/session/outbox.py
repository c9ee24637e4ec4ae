"""The results of a session: decisions, events, waits, and reservations of pipelined tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import (
    Bind,
    Decision,
    Event,
    Evict,
    Gang,
    PodGroupStatusChanged,
    SharedDevice,
    StatusChange,
    VolumeChoice,
    Wait,
)
from pumice.core.model.devices import ClaimChoice
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.model.status import PIPELINED
from pumice.core.session.closing.conditions import UNSCHEDULABLE

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# Task, node, reason (empty for a bind), and the job for which it is bound or evicted.
_Order = tuple[Task, str, str, str]
V = TypeVar("V")


class Outbox:
    """Collects binds and evictions that were committed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.orders: list[_Order] = []
        self._volumes: dict[str, tuple[VolumeChoice, ...]] = {}
        self._claims: dict[str, tuple[ClaimChoice, ...]] = {}
        self._devices: dict[str, SharedDevice] = {}
        # The actions that have run, each with the number of orders at its end.
        self.made_by: list[tuple[str, int]] = []

    def action_ended(self, name: str) -> None:
        self.made_by.append((name, len(self.orders)))

    def evict(self, task: Task, reason: str, for_job: str) -> None:
        self.orders.append((task, task.node_name, reason, for_job))
        message = f"{reason}: makes room for {for_job}" if for_job else reason
        victim_job = self._session.jobs.get(task.job_id)
        if victim_job is not None:
            self._session.record_event(victim_job, "Evict", message)
        self._session.events.append(Event.about(task.pod, "Evict", message))

    def attach_volumes(self, task: Task, volumes: tuple[VolumeChoice, ...]) -> None:
        """Sets the volumes for the task's claims in its bind."""
        _set_or_remove(self._volumes, task.uid, volumes)

    def attach_claims(self, task: Task, claims: tuple[ClaimChoice, ...]) -> None:
        """Sets the devices for the task's claims in its bind."""
        _set_or_remove(self._claims, task.uid, claims)

    def attach_device(self, task: Task, device: SharedDevice | None) -> None:
        """Sets the device for which the bind of the task locks the node."""
        _set_or_remove(self._devices, task.uid, device)

    def decisions(self) -> tuple[Decision, ...]:
        session = self._session
        sizes = Counter([for_job for _, _, _, for_job in self.orders])
        prefix = f"{session.id_prefix}{session.number}"
        gangs = {id_: _gang(prefix, session.jobs.get(id_), size) for id_, size in sizes.items()}
        volumes, claims, devices = self._volumes, self._claims, self._devices
        has_attachments = bool(volumes or claims or devices)
        decisions: list[Decision] = []
        for number, (task, node, reason, for_job) in enumerate(self.orders):
            pod, uid, gang, id_ = task.pod, task.uid, gangs[for_job], f"{prefix}.{number}"
            space, name, added = pod.namespace, pod.name, task.bind_annotations
            if reason:
                job = task.job_id
                decisions.append(Evict(id_, space, name, uid, node, reason, for_job, gang, job))
            elif has_attachments:
                attached = (volumes.get(uid, ()), claims.get(uid, ()), devices.get(uid))
                decisions.append(Bind(id_, space, name, uid, node, gang, added, *attached))
            else:
                decisions.append(Bind(id_, space, name, uid, node, gang, added))
        return tuple(decisions)


def _set_or_remove(values: dict[str, V], key: str, value: V | None) -> None:
    if value:
        values[key] = value
    else:
        values.pop(key, None)


def _gang(prefix: str, job: Job | None, size: int) -> Gang | None:
    group = None if job is None else job.group
    if job is None or group is None:
        return None
    return Gang(f"{prefix}/{job.id}", job.id, group.uid, group.spec_hash, size)


def events_of(session: Session, statuses: Iterable[StatusChange]) -> tuple[Event, ...]:
    """The events of a session.

    A plugin that rejects a job records an event in every session. Such an event is reported only
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
    waits |= session.waiting.unschedulable.waits
    waits |= session.waiting.inadmissible.waits
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


def pipelined_of(session: Session) -> dict[str, Resources]:
    """By node: the resources that pipelined tasks wait for."""
    reserved: dict[str, Resources] = {}
    for task in session.moves.pipelined.values():
        if task.status is PIPELINED:
            reserved.setdefault(task.node_name, Resources()).add(task.request)
    return reserved

"""Collects the binds and evictions that a session commits, and makes decisions of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, Decision, Event, Evict, Gang, SharedDevice, VolumeChoice
from pumice.core.model.devices import ClaimChoice

if TYPE_CHECKING:
    from pumice.core.session.session import Session


# Task, node, reason (empty for a bind), and the job that it is done for.
_Order = tuple[Task, str, str, str]


class Outbox:
    """Collects binds and evictions that were committed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.orders: list[_Order] = []
        self._volumes: dict[str, tuple[VolumeChoice, ...]] = {}
        self._claims: dict[str, tuple[ClaimChoice, ...]] = {}
        self._devices: dict[str, SharedDevice] = {}
        # The actions that have run, each with the number of orders by its end.
        self.made_by: list[tuple[str, int]] = []

    def action_ended(self, name: str) -> None:
        self.made_by.append((name, len(self.orders)))

    def evict(self, task: Task, reason: str, for_job: str) -> None:
        self.orders.append((task, task.node_name, reason, for_job))
        message = f"{reason}: makes room for {for_job}" if for_job else reason
        victim_job = self._session.jobs.get(task.job_id)
        if victim_job is not None:
            self._session.record_event(victim_job, "Evict", message)
        pod = task.pod
        self._session.events.append(Event.about(pod, "Evict", message))

    def attach_volumes(self, task: Task, volumes: tuple[VolumeChoice, ...]) -> None:
        """Sets the volumes for the task's claims in its bind."""
        if volumes:
            self._volumes[task.uid] = volumes
        else:
            self._volumes.pop(task.uid, None)

    def attach_claims(self, task: Task, claims: tuple[ClaimChoice, ...]) -> None:
        """Sets the devices for the task's claims in its bind."""
        if claims:
            self._claims[task.uid] = claims
        else:
            self._claims.pop(task.uid, None)

    def attach_device(self, task: Task, device: SharedDevice | None) -> None:
        """Sets the device for which the task's node is locked in its bind."""
        if device is not None:
            self._devices[task.uid] = device
        else:
            self._devices.pop(task.uid, None)

    def decisions(self) -> tuple[Decision, ...]:
        session = self._session
        sizes = Counter([for_job for _, _, _, for_job in self.orders])
        prefix = f"{session.id_prefix}{session.number}"
        gangs = {id_: _gang(prefix, session.jobs.get(id_), size) for id_, size in sizes.items()}
        takes = bool(self._volumes or self._claims or self._devices)
        decisions: list[Decision] = []
        for number, (task, node, reason, for_job) in enumerate(self.orders):
            pod, uid, gang, id_ = task.pod, task.uid, gangs[for_job], f"{prefix}.{number}"
            space, name, added = pod.namespace, pod.name, task.bind_annotations
            if reason:
                job = task.job_id
                decisions.append(Evict(id_, space, name, uid, node, reason, for_job, gang, job))
            elif takes:
                decisions.append(
                    Bind(id_, space, name, uid, node, gang, added, *self._taken_by(uid))
                )
            else:
                decisions.append(Bind(id_, space, name, uid, node, gang, added))
        return tuple(decisions)

    def _taken_by(
        self, uid: str
    ) -> tuple[tuple[VolumeChoice, ...], tuple[ClaimChoice, ...], SharedDevice | None]:
        """What a bind takes beside its node."""
        return self._volumes.get(uid, ()), self._claims.get(uid, ()), self._devices.get(uid)


def _gang(prefix: str, job: Job | None, size: int) -> Gang | None:
    group = None if job is None else job.group
    if job is None or group is None:
        return None
    return Gang(f"{prefix}/{job.id}", job.id, group.uid, group.spec_hash, size)

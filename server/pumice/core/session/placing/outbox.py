"""The decisions of a session, in the order of their commits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

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
        self._orders: list[_Order] = []
        self._volumes: dict[str, tuple[VolumeChoice, ...]] = {}
        self._claims: dict[str, tuple[ClaimChoice, ...]] = {}
        self._devices: dict[str, SharedDevice] = {}
        # The actions that have run, each with the number of orders by its end.
        self.made_by: list[tuple[str, int]] = []

    def action_ended(self, name: str) -> None:
        self.made_by.append((name, len(self._orders)))

    def bind(self, tasks: list[Task]) -> None:
        self._orders += [(task, task.node_name, "", task.job_id) for task in tasks]

    def evict(self, task: Task, reason: str, for_job: str) -> None:
        self._orders.append((task, task.node_name, reason, for_job))
        message = f"{reason}: makes room for {for_job}" if for_job else reason
        victim_job = self._session.jobs.get(task.job_id)
        if victim_job is not None:
            self._session.tell(victim_job, "Evict", message)
        pod = task.pod
        self._session.events.append(
            Event("Pod", pod.namespace, pod.name, pod.uid, True, "Evict", message)
        )

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
        sizes = Counter(for_job for _, _, _, for_job in self._orders)
        gangs = {job: self._gang(job, size) for job, size in sizes.items()}
        prefix, volumes = f"{self._session.id_prefix}{self._session.number}.", self._volumes
        decisions: list[Decision] = []
        for number, (task, node, reason, for_job) in enumerate(self._orders):
            pod, gang, id_ = task.pod, gangs[for_job], f"{prefix}{number}"
            names = (pod.namespace, pod.name, task.uid)
            if reason:
                decisions.append(Evict(id_, *names, node, reason, for_job, gang, task.job_id))
            else:
                chosen = volumes.get(task.uid, ()) if volumes else ()
                claims = self._claims.get(task.uid, ()) if self._claims else ()
                device = self._devices.get(task.uid) if self._devices else None
                added = task.bind_annotations
                decisions.append(Bind(id_, *names, node, gang, added, chosen, claims, device))
        return tuple(decisions)

    def _gang(self, job_id: str, size: int) -> Gang | None:
        job = self._session.jobs.get(job_id)
        if job is None or job.group is None:
            return None
        id_ = f"{self._session.id_prefix}{self._session.number}/{job_id}"
        return Gang(id_, job_id, job.group.uid, job.group.spec_hash, size)

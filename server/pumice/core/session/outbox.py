"""The decisions of a session, gathered gang by gang."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, Decision, Event, Evict, Gang, VolumeChoice

if TYPE_CHECKING:
    from pumice.core.session.session import Session


@dataclass(slots=True)
class _Order:
    task: Task
    node: str
    # Empty for a bind.
    reason: str
    for_job: str


class Outbox:
    """Orders in the sequence in which they were committed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._orders: list[_Order] = []
        self._volumes: dict[str, tuple[VolumeChoice, ...]] = {}

    def bind(self, task: Task) -> None:
        self._orders.append(_Order(task, task.node_name, "", task.job_id))

    def evict(self, task: Task, reason: str, for_job: str) -> None:
        self._orders.append(_Order(task, task.node_name, reason, for_job))
        victim_job = self._session.jobs.get(task.job_id)
        if victim_job is not None:
            self._session.tell(victim_job, "Evict", reason)
        pod = task.pod
        self._session.events.append(
            Event("Pod", pod.namespace, pod.name, pod.uid, True, "Evict", reason)
        )

    def attach_volumes(self, task: Task, volumes: tuple[VolumeChoice, ...]) -> None:
        """What becomes of the task's claims if it is bound; nothing takes it back."""
        if volumes:
            self._volumes[task.uid] = volumes
        else:
            self._volumes.pop(task.uid, None)

    def decisions(self) -> tuple[Decision, ...]:
        sizes = Counter(order.for_job for order in self._orders)
        gangs = {job: self._gang(job, size) for job, size in sizes.items()}
        return tuple(
            self._decision(number, order, gangs[order.for_job])
            for number, order in enumerate(self._orders)
        )

    def _decision(self, number: int, order: _Order, gang: Gang | None) -> Decision:
        pod = order.task.pod
        id_ = f"{self._session.id_prefix}{self._session.number}.{number}"
        if order.reason:
            names = (pod.namespace, pod.name, pod.uid)
            why = (order.reason, order.for_job, gang)
            return Evict(id_, *names, order.node, *why, order.task.job_id)
        volumes = self._volumes.get(pod.uid, ())
        return Bind(id_, pod.namespace, pod.name, pod.uid, order.node, gang, volumes=volumes)

    def _gang(self, job_id: str, size: int) -> Gang | None:
        job = self._session.jobs.get(job_id)
        if job is None or job.group is None:
            return None
        id_ = f"{self._session.id_prefix}{self._session.number}/{job_id}"
        return Gang(id_, job_id, job.group.uid, job.group.spec_hash, size)

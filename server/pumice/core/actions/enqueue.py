"""enqueue: admits pending jobs, so that their pods may be created and placed."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments, ArgumentSchema
from pumice.core.model.group import PodGroupPhase, Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.ordering.heap import Heap, LiveHeap
from pumice.core.session.session import Session


class EnqueueAction:
    """Visits the queues in their order, one pending job a visit; a rejected job blocks no other."""

    name: ClassVar[str] = "enqueue"
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        # Jobs that are passed over were admitted before.
        if not any(job.is_pending for job in session.awake_jobs()):
            return
        queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        waiting: dict[str, Heap[Job]] = {}
        for job in session.unsettled_jobs:
            if job.queue not in waiting:
                waiting[job.queue] = session.orders.waiting_jobs()
                queues.push(session.queue_of(job))
            if job.is_pending:
                waiting[job.queue].push(job)
        while queues:
            queue = queues.pop()
            if not waiting[queue.name]:
                continue
            self._consider(session, waiting[queue.name].pop())
            queues.push(queue)

    def _consider(self, session: Session, job: Job) -> None:
        if job.min_resources is None or session.votes.is_enqueueable(job):
            session.votes.enqueued(job)
            session.set_phase(job, PodGroupPhase.INQUEUE)
        else:
            session.explain(job, Reason(self.name, ReasonCode.NOT_ENQUEUED))

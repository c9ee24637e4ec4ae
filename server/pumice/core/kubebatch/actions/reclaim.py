"""reclaim, as in kube-batch: one task of a queue's first job at a time, evictions at once."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.actions.evictions import Evictions
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.group import Queue
from pumice.core.session.orders import LiveHeap
from pumice.core.session.session import Session


class KubeBatchReclaimAction:
    """A queue is visited again only after a success; every job is tried once."""

    name: ClassVar[str] = "reclaim"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        jobs: dict[str, LiveHeap[Job]] = {}
        first: dict[str, Task] = {}
        for job in session.active_jobs:
            if job.queue not in jobs:
                jobs[job.queue] = LiveHeap(session.orders.job_first)
                queues.push(session.queue_of(job))
            if tasks := session.pending(job):
                jobs[job.queue].push(job)
                first[job.id] = tasks[0]
        evictions = Evictions(session, self.name, session.votes.reclaimable)
        while queues:
            queue = queues.pop()
            if session.votes.is_overused(queue) or not jobs[queue.name]:
                continue
            job = jobs[queue.name].pop()
            session.count("reclaimers_tried")
            statement = evictions.make_room(
                job, first[job.id], lambda own, other: other.queue != own.queue
            )
            if statement is not None:
                statement.commit(job.id)
                queues.push(queue)

"""enqueue: admits pending jobs, so that their pods can be created and placed."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.model.group import PodGroupPhase, Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.orders import Heap, KeyHeap, LiveHeap
from pumice.core.session.session import Session
from pumice.core.session.waiting import InadmissibleJobs


class EnqueueAction:
    """Visits queues in their order, with one pending job per visit; a rejected job blocks no other."""

    name: ClassVar[str] = "enqueue"

    def execute(self, session: Session) -> None:
        inadmissible = InadmissibleJobs(session)
        pending = [job for job in session.jobs_to_visit() if job.is_pending]
        if not pending and not len(inadmissible):
            return
        queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        waiting: dict[str, Heap[Job]] = {}
        for job in session.unsettled_jobs:
            if job.queue not in waiting:
                waiting[job.queue] = session.orders.waiting_jobs()
                queues.push(session.queue_of(job))
        for job in pending:
            waiting[job.queue].push(job)
        while queues:
            queue = queues.pop()
            jobs = waiting[queue.name]
            if isinstance(jobs, KeyHeap) and len(inadmissible):
                for job in inadmissible.activate_before(queue, jobs.first_key):
                    jobs.push(job)
            if jobs:
                self._consider(session, jobs)
                queues.push(queue)

    def _consider(self, session: Session, jobs: Heap[Job]) -> None:
        """Admits the first of the jobs, or explains why not."""
        key, job = jobs.pop_entry() if isinstance(jobs, KeyHeap) else (None, jobs.pop())
        session.count("jobs_considered")
        if job.min_resources is None or session.votes.is_enqueueable(job):
            session.votes.enqueued(job)
            session.set_phase(job, PodGroupPhase.INQUEUE)
            return
        session.explain(job, Reason(self.name, ReasonCode.NOT_ENQUEUED))
        if key is not None:
            session.waiting.not_admitted[job.id] = (job, key, tuple(session.reasons[job.id]))

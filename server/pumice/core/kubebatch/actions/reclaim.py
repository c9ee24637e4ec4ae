"""reclaim, as in kube-batch: one task of a queue's first job at a time, evictions at once."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, ArgumentSchema
from pumice.core.kubebatch.actions.dispatch import pending
from pumice.core.kubebatch.actions.victims import are_enough, candidates_on, replace
from pumice.core.kubebatch.fit import allowed_nodes
from pumice.core.kubebatch.running import RunningTasks
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.ordering.heap import LiveHeap
from pumice.core.session.session import Session


class KubeBatchReclaimAction:
    """A queue is visited again only after a success; every job is tried once."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        jobs: dict[str, LiveHeap[Job]] = {}
        tasks: dict[str, deque[Task]] = {}
        for job in session.active_jobs:
            if job.queue not in jobs:
                jobs[job.queue] = LiveHeap(session.orders.job_first)
                queues.push(session.queue_of(job))
            waiting = pending(session, job)
            if waiting:
                jobs[job.queue].push(job)
                tasks[job.id] = deque(waiting)
        if not tasks:
            return
        running = RunningTasks(session)
        while queues:
            queue = queues.pop()
            if session.votes.is_overused(queue) or not jobs[queue.name]:
                continue
            job = jobs[queue.name].pop()
            if self._make_room(session, running, job, tasks[job.id].popleft()):
                queues.push(queue)

    def _make_room(
        self, session: KubeBatchSession, running: RunningTasks, job: Job, task: Task
    ) -> bool:
        session.count("reclaimers_tried")
        view = session.view(task)
        rows = allowed_nodes(session, task, view) & running.in_other_queues(job.queue, view)
        for row in np.flatnonzero(rows).tolist():
            session.count("nodes_tried_for_victims")
            candidates = candidates_on(
                session, row, lambda other: session.jobs[other.job_id].queue != job.queue
            )
            victims = session.votes.reclaimable(task, candidates)
            if are_enough(victims, task.request):
                statement = replace(session, victims, task, row, self.name)
                if statement is not None:
                    statement.commit(job.id)
                    return True
        have, need = job.index.ready_count + job.index.waiting_count, job.min_available
        reason = Reason(self.name, ReasonCode.NO_VICTIMS, task.name, have=have, need=need)
        session.explain(job, reason)
        return False

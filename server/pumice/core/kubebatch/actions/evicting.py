"""preempt and reclaim, as in kube-batch.

The victims on a node alone must free enough, whatever is idle there. Any job with pending tasks may
preempt other jobs of its queue. reclaim tries one task of a queue's first job at a time.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.actions.placing import allowed_nodes
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.kubebatch.tolerance import is_at_most
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.evicting import EvictionReasons, Holdings
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.hooks import Rows
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session


class KubeBatchPreemptAction:
    """Queue by queue: first between jobs, then within the jobs of all queues.

    It does not matter whether a job is starving, or what is idle.
    """

    name: ClassVar[str] = "preempt"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        run = _PreemptRun(session, self.name)
        for queue in sorted({job.queue for job in session.active_jobs}):
            run.between_jobs(queue)
            run.within_jobs()


class _PreemptRun:
    """One run of the action."""

    def __init__(self, session: KubeBatchSession, author: str) -> None:
        self._session = session
        self._evictions = Evictions(session, author, self._choose)
        self._jobs: dict[str, LiveHeap[Job]] = {}
        self._under: list[Job] = []
        self._tasks: dict[str, deque[Task]] = {}
        for job in session.active_jobs:
            if tasks := session.pending(job):
                if job.queue not in self._jobs:
                    self._jobs[job.queue] = LiveHeap(session.orders.job_first)
                self._jobs[job.queue].push(job)
                self._under.append(job)
                self._tasks[job.id] = deque(tasks)

    def _choose(self, task: Task, candidates: list[Task]) -> list[Task]:
        """The least important first."""
        return self._session.orders.tasks(self._session.votes.preemptable(task, candidates))[::-1]

    def between_jobs(self, queue: str) -> None:
        jobs = self._jobs.get(queue)
        while jobs:
            job = jobs.pop()
            if self._preempt_others(job):
                jobs.push(job)

    def _preempt_others(self, job: Job) -> bool:
        """Commits as soon as the job is pipelined; true when a task was placed and more may be."""
        session, assigned = self._session, False
        statement = session.statement()
        tasks = self._tasks[job.id]
        while tasks:
            task = tasks.popleft()
            assigned = self._make_room(statement, job, task, own=False) or assigned
            if session.votes.is_pipelined(job):
                statement.commit(job.id)
                break
        if not session.votes.is_pipelined(job):
            statement.discard()
            return False
        return assigned

    def within_jobs(self) -> None:
        """Each job from its own running tasks; every success is committed, ready or not."""
        for job in self._under:
            tasks = self._tasks[job.id]
            while tasks:
                statement = self._session.statement()
                assigned = self._make_room(statement, job, tasks.popleft(), own=True)
                statement.commit(job.id)
                if not assigned:
                    break

    def _make_room(self, statement: Statement, job: Job, task: Task, *, own: bool) -> bool:
        self._session.count("preemptors_tried")
        may_evict = operator.is_ if own else _is_in_the_same_queue
        trial = self._evictions.make_room(job, task, may_evict, by_score=True)
        if trial is None:
            return False
        statement.merge(trial)
        return True


def _is_in_the_same_queue(job: Job, other: Job) -> bool:
    return other is not job and other.queue == job.queue


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


class Evictions:
    """Makes room for tasks in one run of an action."""

    def __init__(
        self,
        session: KubeBatchSession,
        author: str,
        choose: Callable[[Task, list[Task]], list[Task]],
    ) -> None:
        self._session = session
        self._author = author
        # Chooses victims for a task among candidates, in the order of eviction.
        self._choose = choose
        self._reasons = EvictionReasons(session, author)

    def make_room(
        self, job: Job, task: Task, may_evict: Callable[[Job, Job], bool], *, by_score: bool = False
    ) -> Statement | None:
        """Evicts running tasks of other jobs from one node, and pipelines the task there.

        Nodes are tried by name, or the best first. None: nothing was changed.
        """
        session = self._session
        view, wanted = session.view(task), partial(may_evict, job)
        allowed = allowed_nodes(session, task, view)
        rows = allowed & self._rows_with_enough(view, wanted)
        ordered = self._by_score(task, view, allowed, rows) if by_score else np.flatnonzero(rows)
        for row in ordered.tolist():
            session.count("nodes_tried_for_victims")
            candidates = self._candidates_on(row, wanted)
            victims = _enough_of(self._choose(task, candidates), task.request)
            statement = self._replace(victims, task, row) if victims else None
            if statement is not None:
                return statement
        self._reasons.add(job, task.name)
        return None

    def _rows_with_enough(self, view: ClassView, wanted: Callable[[Job], bool]) -> Mask:
        """Rows where the running tasks of wanted jobs hold enough for the task."""
        session, evictable = self._session, self._session.cache.evictable
        evictable.sync()
        chosen = [job is not None and wanted(job) for job in session.victim_jobs.get().jobs]
        tasks = evictable.candidates(np.array(chosen, dtype=np.bool_), running_only=True)
        holdings = Holdings(evictable, tasks, view.needs, np.zeros_like(session.table.future))
        return holdings.rows() & holdings.sufficient_rows()

    def _by_score(self, task: Task, view: ClassView, allowed: Mask, wanted: Mask) -> Rows:
        """The wanted rows, best first; of equals the last one, as kube-batch sorted them.

        Scores are normalised over all nodes that are allowed.
        """
        if not wanted.any():
            return np.flatnonzero(wanted)
        rows = np.flatnonzero(allowed)
        scores = self._session.choice.scores(task, view, rows)
        ordered = rows[np.lexsort((-rows, -scores))]
        return ordered[wanted[ordered]]

    def _candidates_on(self, row: int, wanted: Callable[[Job], bool]) -> list[Task]:
        """Running tasks of wanted jobs, also those that are not preemptable."""
        jobs = self._session.jobs
        return [
            task
            for task in self._session.table.rows[row].tasks_in_order()
            if task.status is TaskStatus.RUNNING
            and (job := jobs.get(task.job_id)) is not None
            and wanted(job)
        ]

    def _replace(self, victims: list[Task], task: Task, row: int) -> Statement | None:
        """None where a plugin objects."""
        statement = self._session.statement()
        for victim in victims:
            statement.evict(victim, self._author)
        if statement.pipeline(task, self._session.table.names[row], eviction_occurred=True):
            return statement
        statement.discard()
        return None


def _enough_of(victims: Iterable[Task], request: Resources) -> list[Task]:
    """The first victims that together free enough; none where all of them do not."""
    freed, enough = Resources(), []
    for victim in victims:
        enough.append(victim)
        if is_at_most(request, freed.add(victim.request)):
            return enough
    return []

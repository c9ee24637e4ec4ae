"""reclaim: evicts from queues above their deserved share for queues below it."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.configuration.volcano_names import IgnoredErrorCache
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.session.evicting.candidates import (
    EvictionNodes,
    EvictionReasons,
    frees_enough,
)
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.search import CandidateRows, VictimFilter, VictimSearch
from pumice.core.session.evicting.visits import EvictionVisits
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session

_RUNNING = TaskStatus.RUNNING


class ReclaimAction:
    """Visits queues in their order, all starving jobs of one before the next; nodes by name."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[type[Arguments]] = IgnoredErrorCache

    def execute(self, session: Session) -> None:
        if not session.unsettled_jobs:
            return
        run, visits = _ReclaimRun(session, self.name), EvictionVisits(session, self.name)
        run.visit(visits.jobs(run.may_help))
        run.visit(visits.changed())


class _ReclaimRun:
    """One run of the action."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        self._nodes = EvictionNodes(session, remembers_errors=False)
        self._reasons = EvictionReasons(session, author)

    @cached_property
    def _search(self) -> VictimSearch:
        return VictimSearch(self._session, "reclaimable")

    @cached_property
    def _order(self) -> VictimOrder:
        return VictimOrder(self._session)

    def visit(self, jobs: list[Job]) -> None:
        self._queues: LiveHeap[Queue] = LiveHeap(self._session.orders.queue_first)
        self._jobs: dict[str, LiveHeap[Job]] = {}
        self._tasks: dict[str, list[Task]] = {}
        # The representative of a waiting group is tried again when it is visited itself.
        self._reasons.clear()
        self._failed: dict[tuple[object, ...], int] = {}
        for job in jobs:
            self._enlist(job)
        self._visit_all()

    def may_help(self, job: Job) -> bool:
        """Whether evictions in other queues might make room for a task of the job."""
        session = self._session
        tasks = {task.class_.number: task for task in job.index.pending.values() if not task.gated}
        if not tasks or job.is_pending or not session.votes.is_starving(job) or job.topology_key:
            return False
        if session.votes.is_overused(session.queue_of(job)):
            return False
        return any(self._may_help(job, task) for task in tasks.values())

    def _may_help(self, job: Job, task: Task) -> bool:
        session = self._session
        view = session.view(task)
        nodes = session.feasibility.resolvable_by_eviction(task, view)
        nodes = nodes & self._nodes.large_enough(view)
        if task.class_.spec.never_preempts or not nodes.any():
            return False
        if not session.votes.may_reclaim(session.queue_of(job), [task]):
            return False
        wanted = VictimFilter(job.queue, elsewhere=True)
        rows = self._search.possible_rows(task, view, wanted)
        rows |= view.fits_future & self._search.holders(wanted)
        return bool((rows & nodes).any())

    def _enlist(self, job: Job) -> None:
        """Adds the queue of a valid job, and the job itself if it is starving."""
        session = self._session
        pending = job.index.pending.values()
        if job.is_pending or (not pending and job.queue in self._jobs):
            return
        # Evictions in several domains would not help a job that must stay in one.
        starving = bool(pending) and not job.topology_key and session.votes.is_starving(job)
        if not starving and job.queue in self._jobs:
            return
        if session.votes.why_not_valid(job) is not None:
            return
        if job.queue not in self._jobs:
            self._jobs[job.queue] = LiveHeap(session.orders.job_first)
            self._queues.push(session.queue_of(job))
        if starving:
            self._jobs[job.queue].push(job)
            self._tasks[job.id] = session.orders.tasks(task for task in pending if not task.gated)

    def _visit_all(self) -> None:
        if not self._tasks:
            return
        while self._queues:
            queue = self._queues.pop()
            jobs = self._jobs[queue.name]
            if self._session.votes.is_overused(queue):
                while jobs:
                    self._reasons.add(
                        jobs.pop(), code=ReasonCode.QUEUE_OVERUSED, subjects=(queue.name,)
                    )
                continue
            while jobs:
                job = jobs.pop()
                self._reclaim_for(queue, job, self._tasks[job.id])
                if jobs:
                    # Volcano pushes the queue again after each job, which shapes the heap.
                    self._queues.push(queue)

    def _reclaim_for(self, queue: Queue, job: Job, tasks: list[Task]) -> None:
        session = self._session
        statement = session.statement()
        for task in tasks:
            if not session.votes.is_starving(job):
                break
            if task.class_.spec.never_preempts:
                self._reasons.add(job, task.name, subjects=("preemption policy is Never",))
                continue
            if not session.votes.may_reclaim(queue, [task]):
                self._reasons.add(job, task.name, ReasonCode.QUEUE_QUOTA, subjects=(queue.name,))
                continue
            problem = session.feasibility.why_not_anywhere(task)
            if problem is not None:
                self._reasons.add(job, task.name, subjects=(problem,))
            elif not self._make_room(statement, job, task):
                self._reasons.add(job, task.name)
        if session.votes.is_pipelined(job):
            statement.commit(job.id)
        else:
            statement.discard()

    # Nodes by name; the first one that works is used.

    def _make_room(self, statement: Statement, job: Job, task: Task) -> bool:
        session = self._session
        session.count("reclaimers_tried")
        view = session.view(task)
        nodes = self._nodes.nodes_for(task, view)
        if not self._nodes.is_any_large_enough(nodes, view):
            return False
        before = len(session.moves.log)
        if self._failed and self._failed.get(_key(task, nodes)) == before:
            return False
        if any(
            self._make_room_on(statement, job, task, view, group)
            for group in session.shard.groups(nodes)
        ):
            return True
        if self._search.is_predictable and len(session.moves.log) == before:
            self._failed[_key(task, nodes)] = before
        return False

    def _make_room_on(
        self, statement: Statement, job: Job, task: Task, view: ClassView, nodes: Mask
    ) -> bool:
        wanted = VictimFilter(job.queue, elsewhere=True)
        candidate_rows = CandidateRows(self._search, task, view, wanted)
        possible = nodes & candidate_rows.rows
        with_room: Mask | None = None
        if np.count_nonzero(view.fits_future):
            # Room that is free anyway counts only beside a candidate.
            with_room = nodes & view.fits_future & self._search.holders(wanted)
            possible |= with_room
        while possible.item(row := int(possible.argmax())):
            candidates = self._candidates_on(row, job)
            if self._try_node(statement, candidates, task, view, row):
                return True
            possible[row] = False
            if candidate_rows.narrow(row, candidates):
                possible &= (
                    candidate_rows.rows if with_room is None else candidate_rows.rows | with_room
                )
        return False

    def _try_node(
        self, statement: Statement, candidates: list[Task], task: Task, view: ClassView, row: int
    ) -> bool:
        session = self._session
        session.count("nodes_tried_for_victims")
        if not candidates:
            return False
        victims = session.votes.reclaimable(task, candidates)
        if not frees_enough(session, view, row, victims):
            return False
        trial = session.statement()
        waiting = self._order.waiting(victims, task)
        # Predicates and quota are not asked again: Volcano checks resources alone.
        while waiting and not frees_enough(session, view, row, ()):
            trial.evict(waiting.pop(), self._author)
        node = session.table.names[row]
        if trial.pipeline(task, node, eviction_occurred=trial.has_evictions):
            statement.merge(trial)
            return True
        trial.discard()
        return False

    def _candidates_on(self, row: int, job: Job) -> list[Task]:
        queue, queues = job.queue, self._session.queues
        return [
            task
            for task, other in self._search.residents[row]
            if task.status is _RUNNING
            and other.queue != queue
            and queues[other.queue].is_reclaimable
        ]


def _key(task: Task, nodes: Mask) -> tuple[object, ...]:
    """Everything that the outcome for a task depends on."""
    return (task.job_id, task.class_.number, task.priority, nodes.tobytes())

"""The common part of all evicting actions: visits to jobs, nodes to try, and reasons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.evicting.visits import EvictionVisits
from pumice.core.session.orders import LiveHeap

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


class EvictionReasons:
    """Reasons why an action made no room for jobs; one for each job until it is cleared."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        self._explained: set[str] = set()

    def clear(self) -> None:
        self._explained.clear()

    def __contains__(self, job: Job) -> bool:
        return job.id in self._explained

    def add(
        self, job: Job, task: str = "", code: ReasonCode = ReasonCode.NO_VICTIMS, **details: Any
    ) -> None:
        """Adds a reason; ``task`` is the name of the task for which there is no room."""
        if job in self:
            return
        self._explained.add(job.id)
        have, need = job.index.ready_count + job.index.waiting_count, job.min_available
        reason = Reason(self._author, code, task, have=have, need=need, **details)
        self._session.explain(job, reason)


class EvictingRun(ABC):
    """One run of an action that evicts: visits queues in their order, and the jobs of each.

    With ``remembers_errors``, a node that refused a task of a job and role is not tried again for that
    job and role. As in Volcano, this holds even if evictions have changed the result since.
    """

    def __init__(self, session: Session, author: str, *, remembers_errors: bool = False) -> None:
        self._session = session
        self._author = author
        self._reasons = EvictionReasons(session, author)
        self._remembers_errors = remembers_errors
        # By job and role.
        self._refused: dict[tuple[str, str], Mask] = {}
        # By class number: the nodes that offer enough.
        self._large: dict[int, Mask] = {}

    def run(self) -> None:
        """Visits the jobs for which evictions might make room."""
        visits = EvictionVisits(self._session, self._author)
        self._visit(visits.jobs(self.may_help))
        self._visit(visits.changed())

    @abstractmethod
    def may_help(self, job: Job) -> bool:
        """Whether evictions might make room for a task of the job; false: certainly not."""

    @abstractmethod
    def select(self, jobs: list[Job]) -> None:
        """Enlists the jobs to make room for, and the queues to visit."""

    @abstractmethod
    def visit_queue(self, queue: Queue, jobs: LiveHeap[Job]) -> None:
        """Makes room for the enlisted jobs of a queue."""

    def is_overused(self, queue: Queue) -> bool:
        """Whether the queue is skipped because it is overused."""
        return False

    # Visits.

    def _is_starving(self, job: Job) -> bool:
        """Whether a job is admitted, valid and starving."""
        votes = self._session.votes
        return not job.is_pending and votes.is_starving(job) and votes.why_not_valid(job) is None

    def _visit(self, jobs: list[Job]) -> None:
        # The representative of a waiting group is tried again when its whole group is visited.
        self._reasons.clear()
        self._queues: LiveHeap[Queue] = LiveHeap(self._session.orders.queue_first)
        self._jobs: dict[str, LiveHeap[Job]] = {}
        self.select(jobs)
        if not any(self._jobs.values()):
            return
        while self._queues:
            queue = self._queues.pop()
            waiting = self._jobs[queue.name]
            if self.is_overused(queue):
                code, subjects = ReasonCode.QUEUE_OVERUSED, (queue.name,)
                while waiting:
                    self._reasons.add(waiting.pop(), code=code, subjects=subjects)
            else:
                self.visit_queue(queue, waiting)

    def _enlist_queue(self, job: Job) -> LiveHeap[Job]:
        """Enlists the queue of a job, and returns the jobs that are enlisted with it."""
        jobs = self._jobs.get(job.queue)
        if jobs is None:
            jobs = self._jobs[job.queue] = LiveHeap(self._session.orders.job_first)
            self._queues.push(self._session.queue_of(job))
        return jobs

    def _enlist(self, job: Job) -> None:
        """Enlists a job and its queue."""
        self._enlist_queue(job).push(job)

    # Nodes.

    def nodes_for(self, task: Task, view: ClassView) -> Mask:
        """Nodes whose refusals an eviction could resolve."""
        nodes = self._session.feasibility.resolvable_by_eviction(task, view)
        checked = self._resolvable_before(task)
        if self._remembers_errors and task.role:
            key = (task.job_id, task.role)
            known = self._refused.get(key)
            if known is not None:
                nodes = nodes & ~known
            refused = ~nodes if checked is None else ~nodes & checked
            self._refused[key] = refused if known is None else known | refused
        return nodes if checked is None else nodes & checked

    def _resolvable_before(self, task: Task) -> Mask | None:
        """Nodes without an unresolvable refusal when this session tried the task before; None: all."""
        errors = self._session.jobs[task.job_id].fit_errors.get(task.uid)
        if errors is None or errors.unresolvable is None:
            return None
        return ~errors.unresolvable

    def large_enough(self, view: ClassView) -> Mask:
        """Nodes that offer enough for the class; no eviction helps on others."""
        rows = self._large.get(view.class_.number)
        if rows is None:
            rows = self._large[view.class_.number] = view.fits(self._session.table.allocatable)
        return rows

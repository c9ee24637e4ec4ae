"""allocate: places the tasks of admitted jobs, job by job, on idle or releasing resources."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import ClassVar

from pumice.core.cache.job_index import Key
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.configuration import Arguments
from pumice.core.configuration.volcano_names import REMEMBERS_ERRORS
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.orders import Heap, KeyHeap
from pumice.core.session.placing.pending_tasks import (
    PendingTasks,
    of_one_sub_job,
    pending_tasks_of,
    tasks_to_place_of,
)
from pumice.core.session.placing.placement import Placement, why_not_placeable
from pumice.core.session.placing.search import DomainSearch
from pumice.core.session.placing.statement import Statement
from pumice.core.session.placing.topology import CLUSTER_TOP
from pumice.core.session.session import Session
from pumice.core.session.waiting import UnschedulableJobs


class AllocateArguments(Arguments):
    """Arguments that gangpreempt and gangreclaim read."""

    remembers_errors = replace(
        REMEMBERS_ERRORS,
        meaning="gangpreempt and gangreclaim do not try a node again that refused a pod of the same"
        " role; it has no effect on allocate, which always caches results for equal pods",
    )


class AllocateAction:
    """Visits queues and jobs in their orders, which are evaluated again after every visit.

    The first visit to a job tries to make it ready. Every later visit places one more task, so that
    shares change after each task.
    """

    name: ClassVar[str] = "allocate"
    arguments: ClassVar[type[Arguments]] = AllocateArguments

    def execute(self, session: Session) -> None:
        run = _AllocateRun(session, self.name)
        run.prepare()
        run.place_all()


class _AllocateRun:
    """One run of the action."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        self._placement = Placement(session, author)
        self._search = DomainSearch(session, self._placement)
        self._queues = session.orders.waiting_queues()
        self._jobs: dict[str, Heap[Job]] = {}
        # The tasks of jobs that were not visited yet.
        self._to_place: dict[str, TasksToPlace] = {}
        # The remaining tasks of other jobs: by sub-job if the job or its sub-jobs must stay in a
        # domain, otherwise in one list.
        self._pending: dict[str, PendingTasks] = {}
        self._tasks: dict[str, deque[Task]] = {}
        self._unschedulable = UnschedulableJobs(session)
        self._has_unschedulable = len(self._unschedulable) > 0
        # The key of the job that is being visited; None: jobs have no keys.
        self._key: Key | None = None

    def prepare(self) -> None:
        for job in self._session.schedulable_jobs():
            if job.index.pending:
                self._add_job(job)
        for name in self._unschedulable.queues():
            self._jobs_of(name)

    def _add_job(self, job: Job) -> None:
        session = self._session
        reason = session.votes.why_not_valid(job)
        if reason is not None:
            session.broken.pop(job.id, None)
            session.explain(job, reason)
            return
        if job.has_network_topology:
            reason = self._why_no_topology(job)
            if reason is not None:
                session.explain(job, reason)
                return
        if self._has_work(job):
            self._jobs_of(job.queue).push(job)
        else:
            self._explain_gates(job)

    def _why_no_topology(self, job: Job) -> Reason | None:
        """Why the network topology of a job cannot be respected; None: it can."""
        topology = self._session.topology
        if not topology.ready:
            problem = (topology.tree.problem,)
            return Reason(self._author, ReasonCode.TOPOLOGY_NOT_READY, subjects=problem)
        unknown = topology.unknown_tier(job)
        if unknown:
            # Volcano places such a job on any nodes.
            return Reason(self._author, ReasonCode.TIER_UNKNOWN, subjects=(unknown,))
        return None

    def _explain_gates(self, job: Job) -> None:
        """Explains a job of which no task can be placed because of scheduling gates."""
        to_place = self._to_place.get(job.id)
        reasons = to_place.reasons if to_place is not None else ()
        if not reasons:
            pending = job.index.pending.values()
            gated = [task for task in pending if task.gated and not task.only_volcano_gate]
            if not gated:
                return
            first = min(gated, key=lambda task: task.order_key)
            gates = first.class_.spec.scheduling_gates
            reasons = (Reason(self._author, ReasonCode.GATED, first.name, subjects=gates),)
            if to_place is not None:
                to_place.reasons = reasons
        for reason in reasons:
            self._session.explain(job, reason)

    def _jobs_of(self, name: str) -> Heap[Job]:
        jobs = self._jobs.get(name)
        if jobs is None:
            jobs = self._jobs[name] = self._session.orders.waiting_jobs()
            self._queues.push(self._session.queues[name])
        return jobs

    def _has_work(self, job: Job) -> bool:
        """Finds the tasks of the job to place; false: there are none."""
        if job.has_policies:
            pending_tasks = pending_tasks_of(self._session, job)
            self._pending[job.id] = pending_tasks
            return bool(pending_tasks)
        to_place = self._to_place[job.id] = tasks_to_place_of(self._session, job)
        return bool(to_place.tasks)

    def place_all(self) -> None:
        queues, is_overused = self._queues, self._session.votes.is_overused
        while queues:
            queue = queues.pop()
            jobs = self._jobs[queue.name]
            if is_overused(queue):
                self._add_jobs(self._unschedulable.of_overused(queue))
                self._explain_overused(queue, jobs)
                continue
            job = self._next(queue, jobs)
            if job is None:
                continue
            if self._visit(job):
                jobs.push(job)
            queues.push(queue)

    def _next(self, queue: Queue, jobs: Heap[Job]) -> Job | None:
        """The next job of the queue. Jobs before it that are still unschedulable are skipped."""
        if not isinstance(jobs, KeyHeap):
            return jobs.pop() if jobs else None
        if self._has_unschedulable:
            self._add_jobs(self._unschedulable.activate_before(queue, jobs.first_key))
        try:
            entry: tuple[Key, Job] = jobs.pop_entry()
        except IndexError:
            return None
        self._key, job = entry
        return job

    def _add_jobs(self, jobs: list[Job]) -> None:
        """Adds jobs that can no longer be skipped."""
        for job in jobs:
            self._add_job(job)

    def _explain_overused(self, queue: Queue, jobs: Heap[Job]) -> None:
        session = self._session
        reason = Reason(self._author, ReasonCode.QUEUE_OVERUSED, subjects=(queue.name,))
        while jobs:
            key, job = jobs.pop_entry() if isinstance(jobs, KeyHeap) else (None, jobs.pop())
            session.explain(job, reason)
            to_place = self._to_place.pop(job.id, None)
            if key is not None and to_place is not None and to_place is job.to_place:
                to_place.cause, to_place.reasons = reason.code, (reason,)
                session.waiting.found_unschedulable[job.id] = (job, key)

    def _visit(self, job: Job) -> bool:
        """Tries to place tasks of the job; true: the job needs another visit."""
        session, votes = self._session, self._session.votes
        session.work["jobs_visited"] += 1
        if session.broken:
            session.broken.pop(job.id, None)
        to_place, statement = self._to_place.pop(job.id, None), None
        if to_place is not None:
            statement = self._placement.place_at_once(job, to_place)
            if statement is None and self._is_unschedulable(job, to_place):
                return False
        if statement is None:
            statement = self._place(job, to_place)
        if statement is None:
            self._explain_short(job)
            return False
        if votes.is_ready(job):
            statement.commit(job.id)
            return job.id in self._tasks or (
                job.id in self._pending and bool(self._pending[job.id])
            )
        if votes.is_pipelined(job):
            # The resources of the job stay reserved until the end of the session.
            session.explain(job, Reason(self._author, ReasonCode.PIPELINED))
        else:
            statement.discard()
            self._explain_short(job)
        return False

    def _place(self, job: Job, to_place: TasksToPlace | None) -> Statement | None:
        """Makes the job ready or pipelined; the remaining tasks wait for the next visit."""
        session = self._session
        if job.has_policies or (job.stays_together and session.topology.is_constrained(job)):
            if to_place is not None:
                self._pending[job.id] = of_one_sub_job(session, job, to_place.tasks)
            return self._place_in_domain(job, self._pending[job.id])
        if to_place is None:
            tasks = self._tasks.pop(job.id)
        else:
            tasks = session.orders.waiting_tasks(to_place.tasks)
        sub_job = job.default_sub_job()
        statement = self._placement.place_tasks(job, sub_job, tasks, CLUSTER_TOP)
        if tasks:
            self._tasks[job.id] = tasks
        return statement

    def _place_in_domain(self, job: Job, pending_tasks: PendingTasks) -> Statement | None:
        """The same for a job that must stay in one domain, or whose sub-jobs must."""
        statement = self._search.find(job, pending_tasks)
        topology, key = self._session.topology, job.topology_key
        limit = topology.widest_limit_of(job)
        if statement is not None or (limit is None and not key):
            return statement
        name, have, need = self._search.nearest or ("", 0, job.min_available)
        errors = next(iter(job.fit_errors.values()), None)
        if key and (problem := topology.by_label.problem(job)):
            count = len(self._session.table)
            errors = FitErrors(count, ((problem, count),))
        subject = key or str(limit)
        reason = Reason(
            self._author,
            ReasonCode.NO_LABEL_DOMAIN_FITS if key else ReasonCode.NO_DOMAIN_FITS,
            have=have,
            need=need,
            subjects=(subject, name) if name else (subject,),
            nodes=errors.as_counts() if errors is not None else (),
        )
        self._session.explain(job, reason)
        return None

    def _is_unschedulable(self, job: Job, to_place: TasksToPlace) -> bool:
        """Explains a gang whose first task fits on no node, or is refused by its queue.

        False: the tasks have to be tried. It is true only if a trial would have the same result.
        """
        session, votes, first = self._session, self._session.votes, to_place.tasks[0]
        if not to_place.needs_all or to_place is not job.to_place or first.gated:
            return False
        cause = why_not_placeable(session, session.queue_of(job), first)
        if cause is None or votes.is_ready(job) or votes.is_pipelined(job):
            return False
        if isinstance(cause, FitErrors):
            session.feasibility.prepare(first)
            job.fit_errors[first.uid] = cause
        elif not to_place.is_uniform or first.class_.spec.resource_claims:
            # The queue may allow another task of the job.
            return False
        session.count("tasks_tried")
        if self._key is not None:
            session.waiting.found_unschedulable[job.id] = (job, self._key)
        reasons = session.reasons.setdefault(job.id, [])
        if to_place.cause is cause:
            reasons += to_place.reasons
            return True
        before = len(reasons)
        if isinstance(cause, FitErrors):
            self._placement.explain_nodes(job, first, cause)
        else:
            self._placement.explain_queue(job, cause, to_place.tasks)
        self._explain_short(job)
        to_place.cause, to_place.reasons = cause, tuple(reasons[before:])
        return True

    def _explain_short(self, job: Job) -> None:
        # Tasks that were placed before the statement was discarded count too.
        pending = job.index.pending.values()
        fitted = sum(1 for task in pending if task.last_transaction is not None)
        have, need = job.index.ready_count + fitted, job.min_available
        if have < need:
            reason = Reason("gang", ReasonCode.GANG_SHORT, have=have, need=need)
            self._session.explain(job, reason)

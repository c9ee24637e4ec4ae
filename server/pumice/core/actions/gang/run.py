"""The common part of gangpreempt and gangreclaim, which make room for a whole gang in one domain."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from pumice.core.actions.gang.bundles import (
    Bundle,
    JobFirst,
    allowed_bundles,
    bundles_of,
    in_order,
)
from pumice.core.actions.gang.trial import GangTrials
from pumice.core.cache.evictable import Positions
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Limit, boolean, integer
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.memo import Memo
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.session.evicting import EvictingRun, VictimJobs
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.pending_tasks import pending_tasks_of
from pumice.core.session.placing.statement import Statement
from pumice.core.session.placing.topology import CLUSTER_TOP
from pumice.core.session.queues import request_of
from pumice.core.session.session import Session

_PREEMPTABLE = "volcano.sh/preemptable"


class GangArguments(Arguments):
    """The arguments of an action that evicts for a whole gang."""

    most_domains = integer(
        "maxDomains",
        8,
        "maximum number of HyperNodes that are searched for victims",
        Limit(above=0, otherwise="Volcano would use 8 instead"),
    )
    may_break_gangs = boolean(
        "allowWholeBundle",
        "evicts whole gangs if tasks above the minima of jobs are not enough",
        default=True,
    )


class GangRun(EvictingRun):
    """One run of a gang action: tries evictions for each starving job, domain by domain."""

    # Whether only running tasks are evicted, and no bound tasks that do not run yet.
    running_only: ClassVar[bool]

    def __init__(self, session: Session, author: str) -> None:
        super().__init__(session, author)
        self._arguments = GangArguments(session.configuration.arguments_of(author))
        self._trials = GangTrials(session, author, self.nodes_for)
        # By queue and priority: the jobs whose tasks may be evicted, by number.
        self._victim_jobs = Memo(self._find_victim_jobs)

    # Differences between the actions.

    def may_reclaim(self, queue: Queue, tasks: list[Task]) -> bool:
        """Whether the queue may reclaim for the tasks."""
        return True

    @abstractmethod
    def victim_jobs(self, jobs: VictimJobs, queue: str) -> Mask:
        """The jobs whose tasks may be evicted for a job of the queue, by number."""

    def may_evict(self, job: Job, priority: int) -> bool:
        """Whether tasks of one of these jobs may be evicted for a job of the priority."""
        return True

    @abstractmethod
    def victim_first(self, job: Job) -> JobFirst:
        """The order of the jobs that are evicted for a job."""

    # Jobs.

    def may_help(self, job: Job) -> bool:
        queue = self._session.queue_of(job)
        if not self._is_starving(job) or self.is_overused(queue):
            return False
        tasks = self._tasks_of(job)
        if not tasks or not self.may_reclaim(queue, tasks) or self._is_too_large(job, tasks):
            return False
        need = request_of(tasks)
        return any(self._might_free(domain, job, need) for domain in self._domains(job))

    def _might_free(self, domain: str, job: Job, need: Resources) -> bool:
        """Whether there are candidates in a domain, and the eviction of all would free enough."""
        within = self._session.topology.rows_of(domain)
        candidates = self._candidates_in(within, job)
        if not len(candidates):
            return False
        amounts = self._session.cache.evictable.request[:, candidates].sum(axis=1).tolist()
        freed = Resources.of(zip(self._session.table.columns, amounts, strict=True))
        return need.less_equal(self._free_in(within).add(freed))

    def _is_starving(self, job: Job) -> bool:
        return bool(job.index.pending) and super()._is_starving(job)

    def select(self, jobs: list[Job]) -> None:
        for job in jobs:
            if self._is_starving(job):
                self._enlist(job)

    def visit_queue(self, queue: Queue, jobs: LiveHeap[Job]) -> None:
        while jobs:
            self._make_room(queue, jobs.pop())

    def _make_room(self, queue: Queue, job: Job) -> None:
        """Evicts in the first domain where that makes room for the whole job."""
        self._session.count("gangs_tried")
        tasks = self._tasks_of(job)
        if not tasks:
            return
        if not self.may_reclaim(queue, tasks):
            self._reasons.add(job, code=ReasonCode.QUEUE_QUOTA, subjects=(queue.name,))
            return
        if self._is_too_large(job, tasks):
            self._reasons.add(job, subjects=("no node is large enough for a task",))
            return
        need, has_victims = request_of(tasks), False
        for domain in self._domains(job):
            bundles = self._bundles_in(domain, job, need)
            has_victims = has_victims or bool(bundles)
            statement = self._evict_in(domain, job, need, bundles) if bundles else None
            if statement is not None:
                statement.commit(job.id)
                return
        self._reasons.add(
            job, subjects=() if has_victims else ("no task may be evicted for the job",)
        )

    def _tasks_of(self, job: Job) -> list[Task]:
        """The tasks that need room: those of one sub-job if the job is ready, else all."""
        session = self._session
        if job.has_network_topology and session.topology.unknown_tier(job):
            # An unknown tier has no domains; allocate has reported it.
            return []
        pending = pending_tasks_of(session, job, gated=False)
        only_first = session.votes.is_ready(job)
        tasks: list[Task] = []
        while pending.sub_jobs:
            tasks += pending.tasks[pending.sub_jobs.pop().id]
            if tasks and only_first:
                break
        return tasks

    def _is_too_large(self, job: Job, tasks: list[Task]) -> bool:
        """Whether a task is too large for every node, even for an empty one."""
        if job.has_policies:
            return False
        classes = {task.class_.number: task for task in tasks}.values()
        return any(not self.large_enough(self._session.view(task)).any() for task in classes)

    # Domains.

    def _domains(self, job: Job) -> list[str]:
        topology = self._session.topology
        gradients = topology.job_gradients(job, CLUSTER_TOP, for_evicting=True)
        names = list(dict.fromkeys(name for domains in gradients for name in domains))
        if not names and not topology.is_constrained(job):
            return [CLUSTER_TOP]
        return names[: self._arguments.most_domains]

    def _evict_in(
        self, domain: str, job: Job, need: Resources, bundles: list[Bundle]
    ) -> Statement | None:
        """Evicts bundle after bundle until the job is pipelined; None: nothing was changed."""
        free = self._free_in(self._session.topology.rows_of(domain))
        victims: list[Task] = []
        for bundle in bundles:
            victims += bundle.tasks
            if need.less_equal(free.clone().add(request_of(victims))):
                statement = self._trials.attempt(job, domain, victims)
                if statement is not None:
                    return statement
        return None

    def _free_in(self, within: Mask) -> Resources:
        """The idle and releasing resources, with those that are reserved for pipelined tasks."""
        table = self._session.table
        return table.sum_of(table.idle[:, within] + table.releasing[:, within])

    # Victims.

    def _bundles_in(self, domain: str, job: Job, need: Resources) -> list[Bundle]:
        """The bundles that may be evicted for a job, in their order."""
        session = self._session
        by_job: dict[str, list[Task]] = {}
        for position in self._candidates_in(session.topology.rows_of(domain), job).tolist():
            task = session.cache.evictable.tasks[position]
            by_job.setdefault(task.job_id, []).append(task)
        found: list[Bundle] = []
        for job_id in sorted(by_job):
            found += bundles_of(session.jobs[job_id], by_job[job_id])
        if not found:
            return []
        first = self.victim_first(job)
        ordered = in_order(found, need, first)
        candidates = [task for bundle in ordered for task in bundle.tasks]
        allowed = session.votes.unified_evictable(self._author, job, candidates)
        bundles = allowed_bundles(ordered, {task.uid for task in allowed})
        if not self._arguments.may_break_gangs:
            bundles = [bundle for bundle in bundles if not bundle.breaks_gang]
        return in_order(bundles, need, first)

    def _candidates_in(self, within: Mask, job: Job) -> Positions:
        """The candidates in a domain, by position among all tasks that can be evicted."""
        evictable = self._session.cache.evictable
        evictable.sync()
        jobs = self._victim_jobs[job.queue, job.priority]
        found = evictable.candidates(jobs, running_only=self.running_only)
        return found[within[evictable.row[found]]]

    def _find_victim_jobs(self, key: tuple[str, int]) -> Mask:
        all_jobs, (queue, priority) = self._session.victim_jobs.get(), key
        jobs = self.victim_jobs(all_jobs, queue)
        for number in np.flatnonzero(jobs).tolist():
            job = all_jobs.jobs[number]
            assert job is not None, "a job that is not in the session has no queue"
            jobs[number] = self.may_evict(job, priority) and _is_preemptable(job)
        return jobs


def _is_preemptable(job: Job) -> bool:
    """Whether tasks of the PodGroup may be evicted; true if it has neither annotation nor label."""
    group = job.group
    if group is None or (
        _PREEMPTABLE not in group.annotations and _PREEMPTABLE not in group.labels
    ):
        return True
    return group.preemptable

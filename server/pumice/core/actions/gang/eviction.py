"""Evictions over a whole domain: room for all pending tasks of a gang at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.actions.gang.bundles import (
    Bundle,
    First,
    allowed_bundles,
    bundles_of,
    in_order,
)
from pumice.core.cache.evictable import GONE, RUNNING
from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Limit, boolean, integer
from pumice.core.model.fit import Mask
from pumice.core.model.resources import Resources
from pumice.core.session.evicting.candidates import REMEMBERS_ERRORS, EvictionNodes
from pumice.core.session.placing.pending_tasks import PendingTasks, pending_tasks_of
from pumice.core.session.placing.topology import CLUSTER_TOP
from pumice.core.session.queues import request_of

if TYPE_CHECKING:
    from pumice.core.session.placing.statement import Statement
    from pumice.core.session.session import Session

_PREEMPTABLE = "volcano.sh/preemptable"


@dataclass(frozen=True, slots=True)
class GangVictims:
    """Whose tasks a gang action evicts, and in which order."""

    # Makes the order of victims' jobs for a job.
    first: Callable[[Job], First]
    # Running tasks of other queues are evicted. Otherwise it is tasks of the same queue and of a
    # lower priority, also those that are bound and do not run yet.
    reclaims: bool


class GangArguments(Arguments):
    """The arguments of an action that evicts for a whole gang."""

    most_domains = integer(
        "maxDomains",
        8,
        "maximum number of network domains that are tried for victims",
        Limit(above=0, otherwise="Volcano would use 8 instead"),
    )
    may_break_gangs = boolean(
        "allowWholeBundle",
        "may break whole gangs where tasks to spare are not enough",
        default=True,
    )


class GangEviction:
    """Makes room for gangs in one run of a gang action."""

    def __init__(self, session: Session, action: str, victims: GangVictims) -> None:
        self._session = session
        self._action = action
        self._victims = victims
        self._arguments = GangArguments(session.configuration.arguments_of(action))
        # A node that refused a task of a role is not asked again for that role in the same trial.
        of_allocate = session.configuration.arguments_of("allocate")
        self._remembers_errors = REMEMBERS_ERRORS.read(of_allocate)
        self._nodes = EvictionNodes(session, remembers_errors=False)
        # By queue and priority: the jobs that evictions may take from, by number.
        self._victim_jobs: dict[tuple[str, int], Mask] = {}
        self._generation = -1
        # Why no evictions were tried for the last job; empty: some were.
        self.problem: tuple[str, ...] = ()

    def pending_of(self, job: Job) -> list[Task]:
        """The tasks that need room: of a ready job those of one sub-job, else all of them."""
        pending = pending_tasks_of(self._session, job, gated=False)
        only_first = self._session.votes.is_ready(job)
        tasks: list[Task] = []
        while pending.sub_jobs:
            tasks += pending.tasks[pending.sub_jobs.pop().id]
            if tasks and only_first:
                break
        return tasks

    def make_room(self, job: Job, tasks: list[Task]) -> Statement | None:
        """Evicts in a domain until the job is pipelined there; None: nothing was changed."""
        if self._is_too_large(job, tasks):
            self.problem = ("no node is large enough for it",)
            return None
        need = request_of(tasks)
        self.problem = ("no task may be evicted for it",)
        for domain in self._domains(job):
            statement = self._try_domain(job, need, domain)
            if statement is not None:
                return statement
        return None

    def may_try(self, job: Job, tasks: list[Task]) -> bool:
        """Whether evictions might free enough for all tasks in a domain; false: surely not."""
        if self._is_too_large(job, tasks):
            return False
        need, rows_of = request_of(tasks), self._session.topology.tree.rows_of
        evictable = self._session.cache.evictable
        for within in [rows_of(domain) for domain in self._domains(job)]:
            where = self._candidates_in(job, within)
            amounts = evictable.request[:, where].sum(axis=1).tolist()
            freed = Resources.of(zip(self._session.table.columns, amounts, strict=True))
            if len(where) and need.less_equal(self._free_in(within).add(freed)):
                return True
        return False

    def _is_too_large(self, job: Job, tasks: list[Task]) -> bool:
        """Whether no node could take some task that has to be placed, were it empty."""
        if job.has_policies:
            return False
        classes = {task.class_.number: task for task in tasks}.values()
        return any(not self._nodes.large_enough(self._session.view(t)).any() for t in classes)

    def _domains(self, job: Job) -> list[str]:
        topology = self._session.topology
        gradients = topology.job_gradients(job, CLUSTER_TOP, for_evicting=True)
        names = list(dict.fromkeys(name for domains in gradients for name in domains))
        if not names and not topology.is_constrained(job):
            return [CLUSTER_TOP]
        return names[: self._arguments.most_domains]

    def _try_domain(self, job: Job, need: Resources, domain: str) -> Statement | None:
        session = self._session
        within = session.topology.rows_of(domain)
        bundles = self._bundles(job, need, within) if within.any() else []
        if not bundles:
            return None
        self.problem = ()
        free = self._free_in(within)
        chosen: list[Task] = []
        for bundle in bundles:
            chosen += bundle.tasks
            if not need.less_equal(free.clone().add(request_of(chosen))):
                continue
            statement = self._plan(job, domain, chosen)
            if statement is not None:
                return statement
        return None

    def _free_in(self, within: Mask) -> Resources:
        """What is idle or being released, including what is reserved for pipelined tasks."""
        table = self._session.table
        return table.sum_of(table.idle[:, within] + table.releasing[:, within])

    # Victims.

    def _bundles(self, job: Job, need: Resources, within: Mask) -> list[Bundle]:
        found: list[Bundle] = []
        for victim, tasks in self._candidates(job, within):
            found += bundles_of(victim, tasks)
        first = self._victims.first(job)
        ordered = in_order(found, need, first)
        candidates = [task for bundle in ordered for task in bundle.tasks]
        if not candidates:
            return []
        allowed = self._session.votes.unified_evictable(self._action, job, candidates)
        bundles = allowed_bundles(ordered, {task.uid for task in allowed})
        if not self._arguments.may_break_gangs:
            bundles = [bundle for bundle in bundles if not bundle.breaks_gang]
        return in_order(bundles, need, first)

    def _candidates(self, job: Job, within: Mask) -> list[tuple[Job, list[Task]]]:
        """The candidates in a domain, by job."""
        by_job: dict[str, list[Task]] = {}
        for position in self._candidates_in(job, within).tolist():
            task = self._session.cache.evictable.tasks[position]
            by_job.setdefault(task.job_id, []).append(task)
        return [(self._session.jobs[id_], by_job[id_]) for id_ in sorted(by_job)]

    def _candidates_in(self, job: Job, within: Mask) -> NDArray[np.intp]:
        """The candidates in a domain, by position among all tasks that can be evicted."""
        evictable = self._session.cache.evictable
        evictable.sync()
        states, jobs = evictable.state, self._jobs_for(job)
        if not jobs.any():
            return np.flatnonzero(jobs)
        candidates = states == RUNNING if self._victims.reclaims else states != GONE
        return np.flatnonzero(candidates & jobs[evictable.job] & within[evictable.row])

    def _jobs_for(self, job: Job) -> Mask:
        """The jobs whose tasks may be evicted for the job, by number."""
        evictable = self._session.cache.evictable
        if self._generation != evictable.generation:
            self._generation, self._victim_jobs = evictable.generation, {}
        key, own = (job.queue, job.priority), evictable.job_ids.get(job.id)
        wanted = self._victim_jobs.get(key)
        if wanted is None:
            wanted = self._victim_jobs[key] = self._find_jobs(job)
        if own is not None and wanted[own]:
            wanted = wanted.copy()
            wanted[own] = False
        return wanted

    def _find_jobs(self, job: Job) -> Mask:
        known, reclaims = self._session.victim_jobs(), self._victims.reclaims
        wanted = known.in_other_queues(job.queue) if reclaims else known.in_queue(job.queue)
        for number in np.flatnonzero(wanted).tolist():
            other = known.jobs[number]
            wanted[number] = (
                other is not None
                and (reclaims or other.priority < job.priority)
                and _is_preemptable(other)
            )
        return wanted

    # A trial of evictions.

    def _plan(self, job: Job, domain: str, victims: list[Task]) -> Statement | None:
        """Evicts the victims and pipelines the job's tasks, sub-job by sub-job."""
        session = self._session
        was_ready = session.votes.is_ready(job)
        pending = pending_tasks_of(session, job, gated=False)
        statement = session.statement()
        for victim in victims:
            statement.evict(victim, self._action)
        while pending.sub_jobs:
            sub_job = pending.sub_jobs.pop()
            placed = self._pipeline_sub_job(job, sub_job, pending, domain)
            if placed is None:
                break
            statement.merge(placed)
            if session.votes.is_pipelined(job):
                return statement
            if was_ready:
                break
        statement.discard()
        return None

    def _pipeline_sub_job(
        self, job: Job, sub_job: SubJob, pending: PendingTasks, domain: str
    ) -> Statement | None:
        topology = self._session.topology
        gradients = [[domain]]
        if topology.is_constrained(job):
            gradients = topology.sub_job_gradients(sub_job, domain, for_evicting=True)
        for domains in gradients:
            for inner in domains:
                statement = self._pipeline_all(job, sub_job, pending, inner)
                if statement is not None:
                    return statement
        return None

    def _pipeline_all(
        self, job: Job, sub_job: SubJob, pending: PendingTasks, domain: str
    ) -> Statement | None:
        """Pipelines all tasks of a sub-job in one domain."""
        session = self._session
        within = session.topology.rows_of(domain)
        trial = session.statement()
        refused: dict[str, Mask] = {}
        for task in pending.tasks[sub_job.id]:
            row = self._row_for(job, task, within, refused)
            if row is None:
                break
            node_name = session.table.names[row]
            if not trial.pipeline(task, node_name, eviction_occurred=True):
                break
        else:
            votes = session.votes
            if votes.is_sub_job_ready(job, sub_job) or votes.is_sub_job_pipelined(job, sub_job):
                return trial
        trial.discard()
        return None

    def _row_for(self, job: Job, task: Task, within: Mask, refused: dict[str, Mask]) -> int | None:
        """The best node with room after the evictions; nodes with idle room come first."""
        session = self._session
        if not session.votes.is_allocatable(session.queue_of(job), task):
            return None
        if session.feasibility.why_not_anywhere(task) is not None:
            return None
        view = session.view(task)
        feasible = self._nodes.nodes_for(task, view) & view.fits_future & within
        if self._remembers_errors and task.role:
            known = refused.get(task.role)
            if known is not None:
                feasible = feasible & ~known
            refused[task.role] = ~feasible
        idle = feasible & view.fits_idle
        return session.choice.best(task, view, idle if idle.any() else feasible)


def _is_preemptable(job: Job) -> bool:
    """Whether tasks of the PodGroup may be evicted: they may where it says nothing."""
    group = job.group
    if group is None or (
        _PREEMPTABLE not in group.annotations and _PREEMPTABLE not in group.labels
    ):
        return True
    return group.preemptable

"""A session of kube-batch's mode, and how it combines the answers of plugins."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Event
from pumice.core.kubebatch.cache import KubeBatchCache
from pumice.core.kubebatch.jobs import KubeBatchJob, Origin
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.predicates.binding import VolumeBinding
from pumice.core.session.hooks import ABSTAIN, EventHandler, Votes
from pumice.core.session.session import Session

_UNSCHEDULABLE = "Unschedulable"
# Hooks of Volcano that kube-batch does not have.
_ABSENT_HOOKS = (
    "why_not_valid",
    "allocatable",
    "job_enqueueable",
    "job_enqueued",
    "job_starving",
    "preemptive",
    "simulation",
)


class KubeBatchSession(Session):
    """Uses only nodes in sync, and leaves out no job for having too few pods.

    Filters and scores count the tasks on a node, also evicted ones, whatever plugins are
    configured.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        assert isinstance(self.cache, KubeBatchCache)
        self.votes = KubeBatchVotes(self)
        for point in _ABSENT_HOOKS:
            setattr(self.hooks, point, _AbsentHook())
        self.in_sync = self.cache.in_sync()
        # kube-batch took volumes outside of its plugins.
        self.volumes = VolumeBinding(self)
        self.hooks.handlers.append(EventHandler(self._appeared, self._vanished))
        self.moves.keeps_kube_view = True

    def _appeared(self, task: Task) -> None:
        # An eviction that was undone is not in the view.
        if task.status is not TaskStatus.RUNNING:
            self.moves.kube_add(task)

    def _vanished(self, task: Task) -> None:
        if task.status is TaskStatus.PENDING:
            self.moves.kube_remove(task)

    def record_event(self, job: Job, reason: str, message: str, *, warning: bool = False) -> None:
        """Records an event on the job's PodGroup or budget, if it has one."""
        known = _kube_batch_job(job)
        if known.origin is Origin.POD_GROUP:
            super().record_event(job, reason, message, warning=warning)
        elif known.budget is not None:
            kind, uid = "PodDisruptionBudget", known.budget.uid
            event = Event(kind, job.namespace, job.name, uid, warning, reason, message)
            self.events.append(event)

    # Placing.

    def pending(self, job: Job) -> list[Task]:
        """The pending tasks in task order, without gated ones, which cannot be bound."""
        return self.orders.tasks(task for task in job.index.pending.values() if not task.gated)

    def place(self, job: Job, task: Task, row: int) -> None:
        """Places the task on a node, and binds all placed tasks of the job if the job is ready.

        Tasks of a job that does not become ready keep their resources until the session ends.
        """
        volumes = self.volumes if task.class_.spec.volumes else None
        if volumes is not None and volumes.reserve(task, row) is not None:
            return
        if not self.statement().allocate(task, self.table.names[row]):
            if volumes is not None:
                volumes.unreserve(task)
            return
        if self.votes.is_ready(job):
            for placed in job.index.in_order(TaskStatus.ALLOCATED):
                self.moves.commit_binds([placed])

    # Backoff.

    @cached_property
    def active_jobs(self) -> list[Job]:
        """Jobs that actions may work for, by id: all but those that are left out for a while."""
        active = []
        for job in self.jobs.values():
            code = self._why_left_out(job)
            if code is None:
                _kube_batch_job(job).left_out_for = ""
                active.append(job)
            else:
                self._leave_out(job, code)
        return active

    def _why_left_out(self, job: Job) -> ReasonCode | None:
        code = self.cache.cool_downs.why_cooling(job.id, self.now_ns)
        whole = job.index.valid_count >= job.min_available
        if code is ReasonCode.GANG_INVALID and whole:
            # The job has enough pods again.
            self.cache.cool_downs.end(job.id)
            return None
        return code

    def back_off(self, job: Job, code: ReasonCode) -> None:
        """Leaves the job out of this session's actions, and out of others for a while."""
        if self.cache.cool_downs.why_cooling(job.id, self.now_ns) is None:
            self.cache.cool_downs.back_off(job.id, code, self.now_ns)

    def _leave_out(self, job: Job, code: ReasonCode) -> None:
        if code is ReasonCode.GANG_INVALID:
            valid, needed = job.index.valid_count, job.min_available
            reason = Reason("gang", code, have=valid, need=needed)
            message = f"not enough valid tasks for gang-scheduling, valid: {valid}, min: {needed}"
        else:
            reason = Reason("core", code)
            message = "left out for a while: binding its pods failed several times"
        self.explain(job, reason)
        known = _kube_batch_job(job)
        if known.left_out_for == message:
            return
        known.left_out_for = message
        self.record_event(job, _UNSCHEDULABLE, message, warning=True)
        for task in sorted(job.index, key=lambda task: task.order_key):
            self.events.append(Event.about(task.pod, _UNSCHEDULABLE, message))


class _AbsentHook(dict[str, Any]):
    """A hook that kube-batch does not have: functions of plugins are not kept."""

    def __setitem__(self, plugin: str, function: Any) -> None:
        pass


def _kube_batch_job(job: Job) -> KubeBatchJob:
    assert isinstance(job, KubeBatchJob)
    return job


class KubeBatchVotes(Votes):
    """All plugins must agree that a job is pipelined, and on the victims."""

    def is_pipelined(self, job: Job) -> bool:
        return all(function(job) >= 0 for function in self._chains.flat("job_pipelined"))

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        return _agreed(self._chains.tiers("preemptable"), preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        return _agreed(self._chains.tiers("reclaimable"), reclaimer, candidates)


def _agreed(tiers: list[list[Any]], asker: Task, candidates: list[Task]) -> list[Task]:
    """The victims that all plugins name, up to the first tier after which there are any.

    The first answer starts the list. Every later answer only removes tasks from it, also in later
    tiers: if the first tier agrees on no victim, there is none.
    """
    agreed: list[Task] | None = None
    for tier in tiers:
        for function in tier:
            named, answer = function(asker, candidates)
            if answer == ABSTAIN:
                continue
            if agreed is None:
                agreed = list(named)
            else:
                uids = {task.uid for task in named}
                agreed = [task for task in agreed if task.uid in uids]
        if agreed:
            return agreed
    return []

"""drf: the job with the smallest dominant share comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import Queue
from pumice.core.model.memo import Memo
from pumice.core.model.resources import Resources
from pumice.core.model.status import PIPELINED
from pumice.core.plugins.drf.hierarchy import ShareTree
from pumice.core.session.hooks import PERMIT, EventHandler
from pumice.core.session.policies import SortKey, VictimRule
from pumice.core.session.session import Session

# Shares that differ by less are equal when victims are chosen.
_SHARE_DELTA = 0.000001


class DrfPlugin:
    """Dominant resource fairness between jobs and, with hierarchy, between queues."""

    name: ClassVar[str] = "drf"

    def __init__(self, options: PluginOptions) -> None:
        self._hierarchical = options.enabled("enableHierarchy")
        # Made when queues are first compared.
        self._tree: ShareTree | None = None

    def open(self, session: Session) -> None:
        self._session = session
        # Shares of jobs by id, and the number of the session's moves that they include.
        self._shares: Memo[str, float] = Memo(lambda job_id: self.share(self._held_by(job_id)))
        self._moves = 0
        # By job id; the tasks of a job change only between sessions.
        self._least: Memo[str, Resources] = Memo(
            lambda job_id: _least_request(session.jobs[job_id])
        )
        hooks = session.hooks
        hooks.job_order[self.name] = SortKey(self._share_of)
        # The share of a job that holds nothing is 0 in any cluster.
        hooks.lasts[self.name] = lambda _point: True
        hooks.preemptable[self.name] = VictimRule(
            self._preemptable,
            mark=self._share_without_one,
            limit=lambda preemptor: self._share_with(preemptor) - 2 * _SHARE_DELTA,
        )
        if self._hierarchical:
            hooks.queue_order[self.name] = self._queue_order
            hooks.reclaimable[self.name] = self._reclaimable
            hooks.handlers.append(EventHandler.counting(self._change))

    def share(self, held: Resources) -> float:
        """The dominant share of an amount in the cluster."""
        return held.dominant_share(self._session.total)

    def _held_by(self, job_id: str) -> Resources:
        """What a job holds, with the pipelined tasks of this session; read-only."""
        index = self._session.jobs[job_id].index
        pipelined = index.with_status(PIPELINED)
        if not pipelined:
            return index.allocated
        held = index.allocated.clone()
        for task in pipelined.values():
            held.add(task.request)
        return held

    def _share_of(self, job: Job) -> float:
        index = job.index
        if len(index.pending) == len(index.tasks):
            return 0.0
        log = self._session.moves.log
        for task in log[self._moves :]:
            self._shares.pop(task.job_id, None)
        self._moves = len(log)
        return self._shares[job.id]

    def _share_with(self, preemptor: Task) -> float:
        """The share of the preemptor's job, with the preemptor placed."""
        return self.share(self._held_by(preemptor.job_id).clone().add(preemptor.request))

    def _share_without_one(self, job: Job) -> float:
        """An upper bound on the job's share after the eviction of a task."""
        return self.share(self._held_by(job.id).clone().subtract(self._least[job.id]))

    def _preemptable(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Candidates whose jobs keep at least the share that the preemptor's job would have.

        As in Volcano, a candidate counts as evicted for the ones after it, even if it is no victim.
        """
        jobs = self._session.jobs
        if preemptor.job_id not in jobs:
            return [], PERMIT
        preemptor_share = self._share_with(preemptor)
        remaining: Memo[str, Resources] = Memo(lambda job_id: self._held_by(job_id).clone())
        victims = []
        for task in candidates:
            if task.job_id in jobs:
                share = self.share(remaining[task.job_id].subtract(task.request))
                if preemptor_share < share or abs(preemptor_share - share) <= _SHARE_DELTA:
                    victims.append(task)
        return victims, PERMIT

    # Between queues.

    def _share_tree(self) -> ShareTree:
        if self._tree is None:
            self._tree = ShareTree(self._session.total)
            for job in self._session.jobs.values():
                queue = self._session.queue_of(job)
                self._tree.add_job(job.id, queue, self._held_by(job.id), job.index.total_request)
        return self._tree

    def _queue_order(self, left: Queue, right: Queue) -> int:
        difference = self._share_tree().compare(left, right)
        return (difference > 0) - (difference < 0)

    def _reclaimable(self, reclaimer: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Candidates whose queue would still come after the reclaimer's queue if they were evicted.

        Each candidate is checked as if it were the only victim.
        """
        session = self._session
        job = session.jobs.get(reclaimer.job_id)
        if job is None:
            return [], PERMIT
        tree, queue, held_by = self._share_tree(), session.queue_of(job), self._held_by
        tree.set_held(job.id, held_by(job.id).clone().add(reclaimer.request))
        victims = []
        for task in candidates:
            other = session.jobs.get(task.job_id)
            if other is None:
                continue
            tree.set_held(other.id, held_by(other.id).clone().subtract(task.request))
            if tree.compare(queue, session.queue_of(other)) < 0:
                victims.append(task)
            tree.set_held(other.id, held_by(other.id))
        tree.set_held(job.id, held_by(job.id))
        return victims, PERMIT

    def _change(self, tasks: Sequence[Task], _sign: int) -> None:
        job_id = tasks[0].job_id
        if self._tree is not None:
            self._tree.set_held(job_id, self._held_by(job_id))


def _least_request(job: Job) -> Resources:
    """The smallest request among the tasks of a job, resource by resource."""
    least, last = None, None
    for task in job.index:
        if task.class_ is not last:
            last = task.class_
            if least is None:
                least = last.request.clone()
            else:
                least.lower_to(last.request, missing_is_zero=True)
    return least or Resources()

"""One run of a gang action: queues and starving jobs in their orders, each job in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.evicting.domain import GangEviction, GangLimits, GangVictims
from pumice.core.session.ordering.heap import LiveHeap

if TYPE_CHECKING:
    from pumice.core.session.session import Session

MOST_DOMAINS = "maxDomains"
WHOLE_BUNDLES = "allowWholeBundle"
GANG_ARGUMENTS = ArgumentSchema(
    {MOST_DOMAINS: ArgumentType.INT, WHOLE_BUNDLES: ArgumentType.BOOL},
    limits={MOST_DOMAINS: Limit(above=0, otherwise="Volcano would use 8 instead")},
    defaults={MOST_DOMAINS: 8, WHOLE_BUNDLES: True},
)


class GangActionRun:
    """Visits every queue once.

    With ``reclaims`` room comes from other queues, and the own queue must be allowed to grow.
    """

    def __init__(
        self, session: Session, victims: GangVictims, author: str, *, reclaims: bool
    ) -> None:
        self._session = session
        self._author = author
        self._reclaims = reclaims
        arguments = session.configuration.arguments_of(author)
        # Volcano has one setting for this and for allocate.
        allocate = session.configuration.arguments_of("allocate")
        limits = GangLimits(
            arguments.integer(MOST_DOMAINS, 8),
            may_break_gangs=arguments.boolean(WHOLE_BUNDLES, default=True),
            remembers_errors=allocate.boolean("predicateErrorCacheEnable", default=True),
        )
        self._eviction = GangEviction(session, author, victims, limits)
        self._queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        self._jobs: dict[str, LiveHeap[Job]] = {}

    def run(self) -> None:
        for job in self._session.unsettled_jobs:
            self._enlist(job)
        while self._queues:
            queue = self._queues.pop()
            jobs = self._jobs[queue.name]
            if self._reclaims and self._session.votes.is_overused(queue):
                while jobs:
                    self._explain(jobs.pop(), ReasonCode.QUEUE_OVERUSED, (queue.name,))
                continue
            while jobs:
                self._make_room(queue, jobs.pop())

    def _enlist(self, job: Job) -> None:
        """Adds a starving job, and its queue."""
        votes = self._session.votes
        if job.is_pending or not job.index.pending or not votes.is_starving(job):
            return
        if votes.why_not_valid(job) is not None:
            return
        if job.queue not in self._jobs:
            self._jobs[job.queue] = LiveHeap(self._session.orders.job_first)
            self._queues.push(self._session.queue_of(job))
        self._jobs[job.queue].push(job)

    def _make_room(self, queue: Queue, job: Job) -> None:
        session = self._session
        if job.has_network_topology and session.topology.unknown_tier(job):
            # No domain is within a tier that nobody knows; allocate has said so.
            return
        tasks = self._eviction.pending_of(job)
        if not tasks:
            return
        if self._reclaims and not session.votes.may_reclaim(queue, tasks):
            self._explain(job, ReasonCode.QUEUE_QUOTA, (queue.name,))
            return
        statement = self._eviction.make_room(job, tasks)
        if statement is None:
            about = () if self._eviction.domains_tried else ("no task may be evicted for it",)
            self._explain(job, ReasonCode.NO_VICTIMS, about)
        else:
            statement.commit(job.id)

    def _explain(self, job: Job, code: ReasonCode, subjects: tuple[str, ...]) -> None:
        have = job.index.ready_count + job.index.waiting_count
        reason = Reason(self._author, code, have=have, need=job.min_available, subjects=subjects)
        self._session.explain(job, reason)

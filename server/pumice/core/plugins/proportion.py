"""proportion: queues share the cluster by weight, and get no more than they ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.model.group import Queue, QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT, EventHandler
from pumice.core.session.session import Session

_UNLIMITED = math.inf


class _Share:
    """A queue in this session."""

    __slots__ = (
        "_share",
        "allocated",
        "deserved",
        "elastic",
        "guarantee",
        "inqueue",
        "queue",
        "real_capability",
        "request",
    )

    def __init__(self, queue: Queue, held: Contribution, unguaranteed: Resources) -> None:
        self.queue = queue
        self.deserved = Resources()
        self.allocated = held.allocated.clone()
        self.request = held.request
        self.inqueue = held.inqueue.clone()
        self.elastic = held.elastic
        self.guarantee = Resources.of(queue.guarantee)
        self.real_capability = unguaranteed.clone().add(self.guarantee)
        if queue.capability:
            capability = Resources.of(queue.capability)
            if capability.milli_cpu <= 0:
                capability.milli_cpu = _UNLIMITED
            if capability.memory <= 0:
                capability.memory = _UNLIMITED
            self.real_capability.lower_to(capability, missing_is_zero=False)
        self._share: float | None = None

    def changed(self) -> None:
        self._share = None

    @property
    def share(self) -> float:
        if self._share is None:
            self._share = self.allocated.dominant_share(self.deserved)
        return self._share


class ProportionPlugin:
    """Fills queues like vessels: by weight, until each has what it asks for or may have."""

    name: ClassVar[str] = "proportion"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._queues: dict[str, _Share] = {}

    def open(self, session: Session) -> None:
        self._session = session
        guaranteed = Resources()
        for queue in session.queues.values():
            guaranteed.add(Resources.of(queue.guarantee))
        unguaranteed = session.total.surplus_over(guaranteed)
        totals = session.totals
        for name in totals.queues():
            held = totals.of(name)
            if held is not None:
                self._queues[name] = _Share(session.queues[name], held, unguaranteed)
        divide(session.total, list(self._queues.values()))
        hooks = session.hooks
        hooks.queue_order[self.name] = self._queue_order
        hooks.overused[self.name] = self._overused
        hooks.allocatable[self.name] = lambda queue, task: self._allowed(queue, task.request)
        hooks.preemptive[self.name] = self._may_reclaim
        hooks.reclaimable[self.name] = self._above_deserved
        hooks.job_enqueueable[self.name] = self._enqueueable
        hooks.job_enqueued[self.name] = self._enqueued
        hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def _queue_order(self, left: Queue, right: Queue) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        mine, other = self._queues[left.name].share, self._queues[right.name].share
        return (mine > other) - (mine < other)

    def _overused(self, queue: Queue) -> bool:
        state = self._queues[queue.name]
        return state.deserved.less_equal(state.allocated)

    def _allowed(self, queue: Queue, request: Resources) -> bool:
        if queue.state is not QueueState.OPEN:
            return False
        state = self._queues[queue.name]
        return state.allocated.has_room_for(request, state.deserved)

    def _may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        total = Resources()
        for task in tasks:
            total.add(task.request)
        return self._allowed(queue, total)

    def _above_deserved(self, _task: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims of a queue until it is down to what it deserves; the last may go below."""
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            job = self._session.jobs.get(task.job_id)
            state = self._queues.get(job.queue) if job is not None else None
            if state is None:
                continue
            allocated = left.setdefault(state.queue.name, state.allocated.clone())
            if not allocated.less_equal(state.deserved):
                allocated.subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def _enqueueable(self, job: Job) -> int:
        queue = self._session.queue_of(job)
        if queue.state is not QueueState.OPEN:
            reason = Reason(self.name, ReasonCode.QUEUE_NOT_OPEN, subjects=(queue.name,))
            self._session.explain(job, reason)
            return REJECT
        if job.min_resources is None:
            return PERMIT
        state = self._queues[queue.name]
        wanted = job.min_resources.clone().add(state.allocated).add(state.inqueue)
        wanted.subtract(state.elastic)
        above = wanted.names_above_for(state.real_capability, job.min_resources)
        if not above:
            return PERMIT
        names = ", ".join(f"insufficient {name}" for name in above)
        self._session.tell(job, "Unschedulable", f"queue resource quota insufficient: {names}")
        self._session.explain(job, Reason(self.name, ReasonCode.QUEUE_QUOTA, subjects=tuple(above)))
        return REJECT

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None and job.queue in self._queues:
            self._queues[job.queue].inqueue.add(job.without_gated(job.min_resources))

    def _state_of(self, task: Task) -> _Share | None:
        job = self._session.jobs.get(task.job_id)
        return None if job is None else self._queues.get(job.queue)

    def _allocated(self, task: Task) -> None:
        state = self._state_of(task)
        if state is not None:
            state.allocated.add(task.request)
            state.changed()

    def _deallocated(self, task: Task) -> None:
        state = self._state_of(task)
        if state is not None:
            state.allocated.subtract(task.request)
            state.changed()


def divide(total: Resources, queues: list[_Share]) -> None:
    """Water filling: what a queue does not need flows on to the others."""
    remaining = total.clone()
    met: set[str] = set()
    while weight := sum(state.queue.weight for state in queues if state.queue.name not in met):
        before = remaining.clone()
        increased, decreased = Resources(), Resources()
        for state in queues:
            if state.queue.name in met:
                continue
            old = state.deserved
            new = old.clone().add(remaining.clone().scale(state.queue.weight / weight))
            new.lower_to(state.real_capability, missing_is_zero=False)
            new.lower_to(state.request, missing_is_zero=True)
            new.raise_to(state.guarantee)
            if state.request.less_equal(new) or new == old:
                met.add(state.queue.name)
            increased.add(new.surplus_over(old))
            decreased.add(old.surplus_over(new))
            state.deserved = new
        remaining = remaining.clone().add(decreased).surplus_over(increased)
        if remaining.is_empty() or remaining == before:
            break

"""Shares and amounts of queues during a session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources

UNLIMITED = math.inf


class QueueAccount:
    """What a queue holds, requests and deserves, and its share."""

    __slots__ = (
        "_share",
        "allocated",
        "deserved",
        "elastic",
        "guarantee",
        "inqueue",
        "name",
        "queue",
        "real_capability",
        "request",
    )

    def __init__(self, queue: Queue, contribution: Contribution | None, ceiling: Resources) -> None:
        contribution = contribution or Contribution.of_queue()
        self.queue = queue
        self.name = queue.name
        self.allocated = contribution.allocated.clone()
        self.request = contribution.request
        self.inqueue = contribution.inqueue.clone()
        self.elastic = contribution.elastic
        self.guarantee = Resources.of(queue.guarantee)
        self.deserved = Resources()
        # No more than this, whatever the others leave over.
        self.real_capability = ceiling
        self._share: float | None = None

    @property
    def share(self) -> float:
        """The dominant share of what it holds in what it deserves."""
        if self._share is None:
            self._share = self.share_now()
        return self._share

    def share_now(self) -> float:
        return self.allocated.dominant_share(self.deserved)

    def take(self, request: Resources) -> None:
        self.allocated.add(request)
        self._share = None

    def take_times(self, request: Resources, count: int) -> None:
        self.allocated.add_times(request, count)
        self._share = None

    def give_back(self, request: Resources) -> None:
        self.allocated.subtract(request)
        self._share = None

    def names_over_ceiling(self, minimum: Resources) -> list[str]:
        """The resources in which a job with this minimum would exceed the limit.

        What jobs hold above their minima does not count: it could be taken back.
        """
        wanted = minimum.clone().add(self.allocated).add(self.inqueue).subtract(self.elastic)
        return wanted.names_above_for(self.real_capability, minimum)


class Ceilings:
    """The upper limits of queues without a hierarchy."""

    def __init__(self, total: Resources, queues: Iterable[Queue]) -> None:
        guaranteed = Resources()
        for queue in queues:
            guaranteed.add(Resources.of(queue.guarantee))
        self._unguaranteed = total.surplus_over(guaranteed)

    def of(self, queue: Queue) -> Resources:
        """What is guaranteed to nobody else, within the queue's capability."""
        ceiling = self._unguaranteed.clone().add(Resources.of(queue.guarantee))
        if queue.capability:
            ceiling.lower_to(flat_capability(queue), missing_is_zero=False)
        return ceiling


def flat_capability(queue: Queue) -> Resources:
    """The capability as written; cpu and memory that it does not name have no limit."""
    capability = Resources.of(queue.capability)
    if capability.milli_cpu <= 0:
        capability.milli_cpu = UNLIMITED
    if capability.memory <= 0:
        capability.memory = UNLIMITED
    return capability


# What a queue would hold.
Held = Callable[[QueueAccount], Resources]


class QueueSimulation:
    """What queues would hold without some tasks; whether they are open is not asked again.

    ``accounts_of`` gives the queues that a task counts in, and ``has_room`` says whether a queue
    may take a task.
    """

    def __init__(
        self,
        accounts_of: Callable[[Task], Sequence[QueueAccount]],
        has_room: Callable[[Queue, Task, Held], bool],
    ) -> None:
        self._accounts_of = accounts_of
        self._has_room = has_room
        self._changed: dict[str, Resources] = {}

    def _held(self, account: QueueAccount) -> Resources:
        return self._changed.get(account.name, account.allocated)

    def _change(self, task: Task, apply: Callable[[Resources, Resources], Resources]) -> str | None:
        accounts = self._accounts_of(task)
        for account in accounts:
            if account.name not in self._changed:
                self._changed[account.name] = account.allocated.clone()
            apply(self._changed[account.name], task.request)
        return None if accounts else f"the queue of {task.key} is not known"

    def remove(self, task: Task) -> str | None:
        return self._change(task, Resources.subtract)

    def add(self, task: Task) -> str | None:
        return self._change(task, Resources.add)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        return self._has_room(queue, task, self._held)

    def why_not(self, _task: Task) -> str | None:
        return None

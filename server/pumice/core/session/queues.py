"""Shares and amounts of queues during a session."""

from __future__ import annotations

import math
from collections.abc import Iterable

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

    def __init__(self, queue: Queue, held: Contribution | None, ceiling: Resources) -> None:
        held = held or Contribution.of_queue()
        self.queue = queue
        self.name = queue.name
        self.allocated = held.allocated.clone()
        self.request = held.request
        self.inqueue = held.inqueue.clone()
        self.elastic = held.elastic
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


class TrialAmounts:
    """Amounts of queues in a simulation, copied on write."""

    __slots__ = ("_own",)

    def __init__(self) -> None:
        self._own: dict[str, Resources] = {}

    def of(self, account: QueueAccount) -> Resources:
        return self._own.get(account.name, account.allocated)

    def own(self, account: QueueAccount) -> Resources:
        """The queue's amount, to be changed at will."""
        if account.name not in self._own:
            self._own[account.name] = account.allocated.clone()
        return self._own[account.name]

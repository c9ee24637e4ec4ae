"""gangpreempt and gangreclaim: evict for a whole gang at once.

They look for victims in one domain of the network after the other, widest first. Tasks that other
jobs can spare go first. Then whole gangs are broken, if that is allowed.
"""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments
from pumice.core.session.evicting.bundles import First
from pumice.core.session.evicting.domain import GangArguments, GangVictims
from pumice.core.session.evicting.gang_action import GangActionRun
from pumice.core.session.session import Session


class GangPreemptAction:
    """Evicts jobs of lower priority in the same queue."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        def later_first(left: Job, right: Job) -> bool | None:
            return None if left is right else not session.orders.job_first(left, right)

        victims = GangVictims(lambda _job: later_first, reclaims=False)
        GangActionRun(session, victims, self.name).run()


class GangReclaimAction:
    """Evicts jobs of queues above their share."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        victims = GangVictims(lambda job: _by_queue(session, job), reclaims=True)
        GangActionRun(session, victims, self.name).run()


def _by_queue(session: Session, job: Job) -> First:
    """Jobs in the order in which their queues are reclaimed from; it depends on the job that asks."""
    queues = session.queues

    def first(left: Job, right: Job) -> bool | None:
        if left.queue == right.queue:
            return None
        mine, other, asking = queues[left.queue], queues[right.queue], queues[job.queue]
        before = session.orders.victim_queue_first(mine, other, asking)
        after = session.orders.victim_queue_first(other, mine, asking)
        return before if before != after else None

    return first

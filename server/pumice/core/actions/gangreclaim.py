"""gangreclaim: evicts from queues above their share for a whole gang of another queue at once."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments
from pumice.core.session.evicting.bundles import First
from pumice.core.session.evicting.domain import GangArguments, GangVictims
from pumice.core.session.evicting.gang_action import GangActionRun
from pumice.core.session.session import Session


class GangReclaimAction:
    """Looks for victims in one domain of the network after the other, widest first.

    Tasks that other jobs can spare go first. Then whole gangs are broken, if that is allowed.
    """

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        queues = session.queues

        def may_evict(job: Job, victim: Job) -> bool:
            return victim.queue != job.queue and queues[victim.queue].is_reclaimable

        victims = GangVictims(may_evict, lambda job: _by_queue(session, job))
        GangActionRun(session, victims, self.name, reclaims=True).run()


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

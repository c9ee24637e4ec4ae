"""gangpreempt: evicts jobs of lower priority in the same queue for a whole gang at once."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments
from pumice.core.session.evicting.domain import GangArguments, GangVictims
from pumice.core.session.evicting.gang_action import GangActionRun
from pumice.core.session.session import Session


class GangPreemptAction:
    """Looks for victims in one domain of the network after the other, widest first.

    Tasks that other jobs can spare go first. Then whole gangs are broken, if that is allowed.
    """

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        victims = GangVictims(
            _may_evict,
            lambda _job: lambda left, right: _later_first(session, left, right),
            takes_bound=True,
        )
        GangActionRun(session, victims, self.name, reclaims=False).run()


def _may_evict(job: Job, victim: Job) -> bool:
    return victim.queue == job.queue and victim.priority < job.priority


def _later_first(session: Session, left: Job, right: Job) -> bool | None:
    return None if left is right else not session.orders.job_first(left, right)

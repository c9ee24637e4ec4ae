"""Evicts the bound members of gangs that were broken for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import TaskStatus

if TYPE_CHECKING:
    from pumice.core.session.session import Session

GANG_BROKEN = "gang-broken"


def break_up(session: Session, broken: dict[str, int], deadline_ns: int | None) -> None:
    """Evicts the bound tasks of each gang that has been broken for at least ``deadline_ns``."""
    if deadline_ns is None:
        return
    for job_id, since_ns in broken.items():
        if session.now_ns - since_ns < deadline_ns:
            continue
        job = session.jobs[job_id]
        have, need = job.index.ready_count, job.min_available
        session.explain(job, Reason(GANG_BROKEN, ReasonCode.GANG_SHORT, have=have, need=need))
        statement = session.statement()
        bound = job.index.in_order(TaskStatus.BOUND) + job.index.in_order(TaskStatus.RUNNING)
        for task in bound:
            statement.evict(task, GANG_BROKEN)
        # The evictions are for no job, so that the adapter applies each by itself.
        statement.commit("")
    # These evictions belong to no action.
    session.outbox.action_ended("")

"""The nodes on which evictions are tried for a task, and why they make no room for a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import boolean
from pumice.core.model.fit import Mask
from pumice.core.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session

# Volcano has one setting for preempt, the gang actions and allocate; the gang actions read that of
# allocate.
REMEMBERS_ERRORS = boolean(
    "predicateErrorCacheEnable", "remembers where pods of a role did not fit", default=True
)


class EvictionNodes:
    """Nodes whose refusals an eviction could resolve.

    With ``remembers_errors`` a node that once refused a task of some job and role is not asked
    again for that role. Volcano does so even where evictions have changed the answer since.
    """

    def __init__(self, session: Session, *, remembers_errors: bool) -> None:
        self._session = session
        self._remembers = remembers_errors
        self._refused: dict[tuple[str, str], Mask] = {}
        # By class: the nodes that offer enough.
        self._large: dict[int, Mask] = {}

    def nodes_for(self, task: Task, view: ClassView) -> Mask:
        session = self._session
        nodes = session.feasibility.resolvable_by_eviction(task, view)
        asked = self._not_found_unresolvable(task)
        if self._remembers and task.role:
            key = (task.job_id, task.role)
            known = self._refused.get(key)
            if known is not None:
                nodes = nodes & ~known
            refused = ~nodes if asked is None else ~nodes & asked
            self._refused[key] = refused if known is None else known | refused
        return nodes if asked is None else nodes & asked

    def _not_found_unresolvable(self, task: Task) -> Mask | None:
        """Nodes without an unresolvable refusal when the task was tried earlier in this session."""
        errors = self._session.jobs[task.job_id].fit_errors.get(task.uid)
        if errors is None or errors.unresolvable is None:
            return None
        return ~errors.unresolvable

    def large_enough(self, view: ClassView) -> Mask:
        """Nodes that offer enough for the class: on others no eviction helps."""
        rows = self._large.get(view.class_.number)
        if rows is None:
            rows = self._large[view.class_.number] = view.fits(self._session.table.allocatable)
        return rows

    def is_any_large_enough(self, nodes: Mask, view: ClassView) -> bool:
        """Whether one of these nodes is."""
        return bool((nodes & self.large_enough(view)).any())


class EvictionReasons:
    """Says why an action made no room for jobs, once for each job until it is cleared."""

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        self._explained: set[str] = set()

    def clear(self) -> None:
        self._explained.clear()

    def __contains__(self, job: Job) -> bool:
        return job.id in self._explained

    def add(
        self, job: Job, task: str = "", code: ReasonCode = ReasonCode.NO_VICTIMS, **details: Any
    ) -> None:
        """``task`` is the name of the one for which there is no room."""
        if job in self:
            return
        self._explained.add(job.id)
        have, need = job.index.ready_count + job.index.waiting_count, job.min_available
        reason = Reason(self._author, code, task, have=have, need=need, **details)
        self._session.explain(job, reason)


def frees_enough(session: Session, view: ClassView, row: int, victims: Sequence[Task]) -> bool:
    """Whether the task would fit the node with these victims gone."""
    table = session.table
    for column, need in view.needs:
        free = table.future.item(column, row)
        if free >= need:
            continue
        for victim in victims:
            # Requests are never negative, so later victims cannot make it less.
            free += table.vector(victim.class_).item(column)
            if free >= need:
                break
        else:
            return False
    return True

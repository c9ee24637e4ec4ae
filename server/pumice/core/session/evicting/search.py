"""Which nodes can have enough victims, found from sums over all nodes.

For a preemptor, every plugin with a bound says which jobs could have victims. For each node, that
gives the most that evictions could free there. Nodes where that is not enough are passed over. On
the other nodes the plugins are asked for victims as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pumice.core.cache.evictable import EvictableTasks, Whole
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.session.evicting.bounds import (
    EvictableSums,
    VictimMarks,
    VictimTier,
    sums_of,
    would_free,
)
from pumice.core.session.policies import VictimRule

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session

# After this many rows that failed for one task, the sums of all nodes are computed again.
_MOST_FAILED_ROWS = 4


class VictimFilter(NamedTuple):
    """Which tasks are candidates for eviction."""

    queue: str
    # The job that asks in its own queue; empty where none of that queue's tasks are its own.
    job_id: str = ""
    # Running tasks of all other queues that are reclaimable are wanted, not those of this one.
    elsewhere: bool = False
    best_effort_only: bool = False


@dataclass(slots=True)
class _KnownRows:
    """Rows that were possible or have changed since, and the marks and limits behind that."""

    rows: Mask
    # Where the node table stood.
    changes: int
    limits: list[float]
    marks: Floats
    # How many marks had risen when none was above what it was.
    rises: int
    # How many had changed when the tiers were last seen to agree, and the limits then.
    seen: int = 0
    agreed: list[float] | None = None


class VictimSearch:
    """The bounds of one extension point (preemptable or reclaimable) in one action's run."""

    def __init__(self, session: Session, point: str) -> None:
        self._session = session
        self._tasks: EvictableTasks = session.cache.evictable
        tiers = [tier for tier in session.chains.tiers(point) if tier]
        rules = [rule for tier in tiers for rule in tier if isinstance(rule, VictimRule)]
        self._tiers = [VictimTier(tier, rules) for tier in tiers]
        # Tiers with more than one bound, which may have to agree.
        self._shared = [tier for tier in self._tiers if len(tier.bounded) > 1]
        self._together = [position for tier in self._shared for position in tier.bounded]
        # Equal tasks of a job get equal answers.
        self.is_predictable = len(rules) == sum(len(tier) for tier in tiers)
        self._marks = VictimMarks(session, rules)
        self._generation = -1
        self._known_rows: dict[tuple[int, VictimFilter], _KnownRows] = {}
        # By row: tasks that may be preempted, and their jobs, in the order of candidates. Tasks that
        # the action places are pipelined, which no victim is, so that this stays valid.
        self.residents = Memo(self._find_residents)
        self._sync()

    # Queries of actions.

    def in_queue(self, queue: str, job_id: str, *, best_effort_only: bool) -> VictimFilter:
        """Tasks of the other jobs of a queue."""
        own = job_id if job_id in self._tasks.job_ids else ""
        return VictimFilter(queue, own, best_effort_only=best_effort_only)

    def _find_residents(self, row: int) -> list[tuple[Task, Job]]:
        jobs = self._session.jobs
        return [
            (task, job)
            for task in self._session.table.rows[row].tasks_in_order()
            if task.pod.preemptable and (job := jobs.get(task.job_id)) is not None
        ]

    def holders(self, wanted: VictimFilter) -> Mask:
        """Rows with candidates."""
        self._sync()
        return self._sums(self._jobs[wanted], wanted).count > 0

    def sufficient_rows(self, view: ClassView, wanted: VictimFilter) -> Mask:
        """Rows where the resources of all candidates would be enough, if plugins allowed them all."""
        self._sync()
        sums = self._sums(self._jobs[wanted], wanted)
        return (sums.count > 0) & self._fits(view, sums)

    def possible_rows(self, task: Task, view: ClassView, wanted: VictimFilter) -> Mask:
        """Rows where victims and releasing resources might be enough for the task."""
        self._sync()
        result = np.zeros(len(self._session.table), dtype=np.bool_)
        if not self._jobs[wanted].any():
            return result
        if not self._marks.is_started:
            self._marks.start(self._tasks.job_ids)
        limits = self._marks.limits(task)
        for tier in self._tiers:
            # The first tier that agrees on victims decides, so any of them might.
            rows = self._possible_rows_for(tier, limits, view, wanted)
            if rows is not None:
                result |= rows
        known = _KnownRows(
            result,
            self._session.table.changes,
            limits,
            self._marks.values.copy(),
            self._marks.rises,
        )
        self._known_rows[view.class_.number, wanted] = known
        return result.copy()

    def known_rows(self, task: Task, view: ClassView, wanted: VictimFilter) -> Mask | None:
        """A superset of the possible rows, from an earlier answer; None: there is none that holds.

        As long as no plugin offers more than it did, a row that was not promising has become so
        only if something on it moved. The result is read-only.
        """
        known = self._known_rows.get((view.class_.number, wanted))
        if known is None:
            return None
        self._marks.follow()
        if not self._holds(known, self._marks.limits(task), wanted):
            return None
        table = self._session.table
        known.rows |= table.stamps > known.changes
        known.changes = table.changes
        return known.rows

    def rule_out(
        self, row: int, candidates: list[Task], task: Task, view: ClassView, wanted: VictimFilter
    ) -> None:
        """Removes a row that failed from the known rows, if the bounds rule it out too."""
        known = self._known_rows.get((view.class_.number, wanted))
        if known is None:
            return
        self._marks.follow()
        # For all tasks that used these rows, or else for those with the limits of this one.
        for limits in (known.limits, self._marks.limits(task)):
            if not self._might_suffice(row, candidates, limits, view):
                known.rows[row] = False
                known.limits, known.marks = limits, self._marks.values.copy()
                known.rises = self._marks.rises
                return

    def _might_suffice(
        self, row: int, candidates: list[Task], limits: list[float], view: ClassView
    ) -> bool:
        """What ``possible_rows`` says about the candidates of one node."""
        by_job: dict[int, list[Task]] = {}
        for task in candidates:
            number = self._tasks.job_ids.get(task.job_id)
            if number is None:
                return True
            by_job.setdefault(number, []).append(task)
        numbers = list(by_job)
        above = self._marks.values[:, numbers] - np.array(limits)[:, None]
        surplus = dict(zip(numbers, above.T.tolist(), strict=True))
        for tier in self._tiers:
            offers = tier.offers(by_job, surplus)
            if offers and would_free(self._session.table, row, offers, view.needs):
                return True
        return False

    def _holds(self, known: _KnownRows, limits: list[float], wanted: VictimFilter) -> bool:
        """Whether a row that was ruled out still is, unless something on it moved."""
        marks = self._marks
        for limit, before in zip(limits, known.limits, strict=True):
            if limit < before:
                return False
        if known.rises != marks.rises:
            if (marks.values > known.marks).any():
                return False
            known.rises = marks.rises
        return not self._shared or self._still_agree(known, limits, wanted)

    def _still_agree(self, known: _KnownRows, limits: list[float], wanted: VictimFilter) -> bool:
        """Whether in each shared tier one plugin offers none but jobs that the others offer too."""
        marks = self._marks
        together, agreed = self._together, known.agreed
        same = agreed is not None and [agreed[n] for n in together] == [limits[n] for n in together]
        for position, before, after in marks.changes[known.seen :] if same else ():
            limit = limits[position]
            if position in together and (before > limit) != (after > limit):
                same = False
        if not same:
            offers = (marks.values > np.array(limits)[:, None]) & self._jobs[wanted]
            if not all(_agree(offers[tier.bounded]) for tier in self._shared):
                return False
        known.seen, known.agreed = len(marks.changes), limits
        return True

    # All nodes, tier by tier.

    def _possible_rows_for(
        self, tier: VictimTier, limits: list[float], view: ClassView, wanted: VictimFilter
    ) -> Mask | None:
        """Rows where the plugins of a tier might agree on enough victims.

        Each of them must offer someone. Where they might all offer the same job, and each but
        the last keeps a job's first candidate, they agree; elsewhere the last plugin decides.
        """
        marks, jobs = self._marks.values, self._jobs[wanted]
        least = np.array(limits)
        # The jobs that each plugin with a bound might offer tasks of.
        offers = jobs & (marks[tier.bounded] > least[tier.bounded, None])
        if not offers.any(axis=1).all():
            return None
        common = jobs & offers.all(axis=0)
        caps: Whole | None = None
        for position in tier.counting:
            caps = self._caps(marks[position] - limits[position], caps)
        agreed = self._sums(common, wanted, caps if tier.orderly else None)
        rows = agreed.count > 0
        freed = agreed if tier.orderly else self._sums(jobs, wanted)
        possible = rows & self._fits(view, freed)
        if len(offers) > 1 and not _agree(offers):
            apart = ~rows
            for mask in offers:
                apart &= self._sums(mask, wanted).count > 0
            if apart.any():
                possible |= apart & self._fits(view, self._sums(jobs, wanted))
        return possible

    def _caps(self, most: Floats, caps: Whole | None) -> Whole:
        """How many tasks of each job one answer may name, as far as any node has them."""
        most = np.minimum(np.maximum(most, 0), self._tasks.job_most)
        clipped: Whole = np.ceil(most).astype(np.int64)
        return clipped if caps is None else np.minimum(caps, clipped)

    def _fits(self, view: ClassView, freed: EvictableSums) -> Mask:
        future = self._session.table.future
        mask: Mask | None = None
        for column, need in view.needs:
            enough = future[column] + freed.held[column] >= need
            mask = enough if mask is None else mask & enough
        assert mask is not None
        return mask

    # Job numbers, and sums by row for a set of jobs; both follow what moved.

    def _sync(self) -> None:
        self._tasks.sync()
        if self._generation == self._tasks.generation:
            self._marks.follow()
            return
        self._generation = self._tasks.generation
        self._known_rows.clear()
        # By job number: whether tasks of the job are candidates.
        self._jobs = Memo(self._find_jobs)
        # Marks are computed when there are candidates.
        self._marks.is_started = False

    def _find_jobs(self, wanted: VictimFilter) -> Mask:
        known = self._session.victim_jobs()
        if wanted.elsewhere:
            return known.in_other_queues(wanted.queue)
        jobs = known.in_queue(wanted.queue)
        own = self._tasks.job_ids.get(wanted.job_id)
        if own is not None:
            jobs[own] = False
        return jobs

    def _sums(self, jobs: Mask, wanted: VictimFilter, caps: Whole | None = None) -> EvictableSums:
        return sums_of(
            self._session.table,
            self._tasks,
            jobs,
            caps,
            running_only=wanted.elsewhere,
            best_effort_only=wanted.best_effort_only,
        )


class CandidateRows:
    """The rows to try for one task; narrowed when tries fail."""

    def __init__(
        self, search: VictimSearch, task: Task, view: ClassView, wanted: VictimFilter
    ) -> None:
        self._search = search
        self._question = (task, view, wanted)
        known = search.known_rows(*self._question)
        # Read-only.
        self.rows = search.possible_rows(*self._question) if known is None else known
        self._failed = 0 if known is not None else _MOST_FAILED_ROWS

    def narrow(self, row: int, candidates: list[Task]) -> bool:
        """Notes that a row failed. True: there are fewer rows now."""
        if self._failed == _MOST_FAILED_ROWS:
            return False
        self._search._session.count("rows_tried_in_vain")
        self._failed += 1
        if self._failed < _MOST_FAILED_ROWS:
            self._search.rule_out(row, candidates, *self._question)
            return False
        # The known rows contain too many: compute them again.
        self.rows = self._search.possible_rows(*self._question)
        return True


def _agree(offers: Mask) -> bool:
    """Whether one plugin offers none but jobs that all the others offer too."""
    return bool((offers == offers.all(axis=0)).all(axis=1).any())

"""Upper bounds of the victims that plugins with rules allow, found without a call for each node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.evicting.holdings import Holdings
from pumice.core.session.policies import VictimRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session


@dataclass(frozen=True, slots=True)
class _Tier:
    """The rules of one tier, by their numbers among all rules."""

    rules: list[int]
    # Those that limit the number of victims of a job.
    counting: list[int]
    # Whether each plugin but the last always allows a job's first candidate, so that plugins that
    # allow tasks of the same job have a common victim.
    keeps_first: bool


class VictimBounds:
    """The tiers of one extension point, and the marks that its rules give to jobs."""

    def __init__(self, session: Session, point: str) -> None:
        self._session = session
        tiers = [tier for tier in session.chains.tiers(point) if tier]
        self._rules = [rule for tier in tiers for rule in tier if isinstance(rule, VictimRule)]
        self._tiers = [self._tier_of(tier) for tier in tiers]
        self._shared_tiers = [tier for tier in self._tiers if len(tier.rules) > 1]
        # The rules of tiers with several rules.
        self.shared_rules = [number for tier in self._shared_tiers for number in tier.rules]
        self._job_ids = session.cache.evictable.job_ids
        self._jobs_of_queue: dict[str, list[int]] = {}
        # By rule and number of the job.
        self.marks: Floats = np.zeros((len(self._rules), len(self._job_ids)))
        # Every mark that has changed: the rule, the job or the first job of its queue, and the mark
        # before and after.
        self.changes: list[tuple[int, int, float, float]] = []
        # The number of moved tasks in the log that were read.
        self._position = len(session.moves.log)
        self._mark_all()

    def _tier_of(self, plugins: list[Any]) -> _Tier:
        numbers = [n for n, rule in enumerate(self._rules) if any(p is rule for p in plugins)]
        counting = [number for number in numbers if self._rules[number].counts]
        others = plugins[:-1]
        keeps_first = all(isinstance(p, VictimRule) and p.keeps_first for p in others)
        return _Tier(numbers, counting, keeps_first)

    def limits(self, preemptor: Task) -> list[float]:
        """By rule, the limit that the mark of a job must exceed, so that its tasks can be victims."""
        return [rule.limit(preemptor) for rule in self._rules]

    def possible_rows(self, holdings: Holdings, limits: list[float]) -> Mask:
        """Nodes where the plugins of any tier might agree on enough victims."""
        if not len(holdings.job):
            return holdings.no_rows()
        # The difference of mark and limit, by rule and holding.
        above = self.marks[:, holdings.job] - np.array(limits)[:, None]
        rows = holdings.no_rows()
        for tier in self._tiers:
            rows |= self._possible_rows_of(tier, holdings, above)
        return rows

    def may_allow(self, job_ids: Iterable[str], limits: list[float]) -> bool:
        """Whether all rules of a tier might allow victims of these jobs; fast for a few jobs."""
        jobs, marks = [self._job_ids[id_] for id_ in job_ids], self.marks
        return any(
            all(any(marks.item(rule, job) > limits[rule] for job in jobs) for rule in tier.rules)
            for tier in self._tiers
        )

    def _possible_rows_of(self, tier: _Tier, holdings: Holdings, above: Floats) -> Mask:
        """Nodes where the plugins of a tier might agree on enough victims.

        Each plugin must allow a victim there. Where all might allow tasks of the same job, and all
        but the last keep a job's first candidate, only such jobs have victims. Elsewhere the last
        plugin decides, and any candidate might be a victim.
        """
        # By rule, the holdings of which a plugin might allow tasks.
        allowed = above[tier.rules] > 0
        if not allowed.any(axis=1).all():
            return holdings.no_rows()
        common: Mask = np.asarray(allowed.all(axis=0))
        agreed = holdings.rows(common)
        if tier.keeps_first:
            possible = agreed & holdings.sufficient_rows(common, self._most(tier, holdings, above))
        else:
            possible = agreed & holdings.sufficient_rows()
        without_common = ~agreed
        if len(allowed) > 1 and without_common.any() and not _is_one_within_all(allowed):
            for rule_allows in allowed:
                without_common &= holdings.rows(rule_allows)
            if without_common.any():
                possible |= without_common & holdings.sufficient_rows()
        return possible

    def _most(self, tier: _Tier, holdings: Holdings, above: Floats) -> Floats | None:
        """The maximum number of victims of each holding; None: all of its tasks."""
        if not tier.counting:
            return None
        least = np.maximum(above[tier.counting].min(axis=0), 0)
        most: Floats = np.ceil(np.minimum(least, holdings.count))
        return most

    def agree(self, limits: list[float], jobs: Mask) -> bool:
        """Whether in each tier one plugin allows only jobs that all others allow too."""
        if not self._shared_tiers:
            return True
        allowed = (self.marks > np.array(limits)[:, None]) & jobs
        return all(_is_one_within_all(allowed[tier.rules]) for tier in self._shared_tiers)

    # Marks.

    def _mark_all(self) -> None:
        job_ids = self._job_ids
        by_queue: dict[str, list[Job]] = {}
        for job in filter(None, map(self._session.jobs.get, job_ids)):
            by_queue.setdefault(job.queue, []).append(job)
        for queue, jobs in by_queue.items():
            numbers = self._jobs_of_queue[queue] = [job_ids[job.id] for job in jobs]
            for marks, rule in zip(self.marks, self._rules, strict=True):
                marks[numbers] = (
                    rule.mark(jobs[0]) if rule.by_queue else [rule.mark(job) for job in jobs]
                )

    def sync(self) -> None:
        """Updates the marks of the jobs whose tasks have moved."""
        log = self._session.moves.log
        if self._position == len(log):
            return
        for id_ in dict.fromkeys([task.job_id for task in log[self._position :]]):
            job = self._session.jobs.get(id_)
            if job is not None:
                self._update(job)
        self._position = len(log)

    def _update(self, job: Job) -> None:
        own, of_queue = self._job_ids.get(job.id), self._jobs_of_queue.get(job.queue)
        for rule_number, rule in enumerate(self._rules):
            where = of_queue if rule.by_queue else own
            if where is None:
                # The job, or its queue, has no evictable tasks.
                continue
            first = where[0] if isinstance(where, list) else where
            mark, before = rule.mark(job), self.marks.item(rule_number, first)
            if mark != before:
                self.marks[rule_number, where] = mark
                self.changes.append((rule_number, first, before, mark))


def _is_one_within_all(allowed: Mask) -> bool:
    """Whether one plugin allows only what all the others allow too."""
    return bool((allowed == allowed.all(axis=0)).all(axis=1).any())

"""Where victims could be: sums over all nodes, before anyone walks them.

For a preemptor, every plugin that registered a bound says which jobs it could offer tasks of. From
that follows, for each node, the most that evictions there could free. Nodes where even that would
not do are passed over, and where it would do nowhere no node is looked at at all. The bounds say
nothing else: on a node that is left, the plugins are asked as always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.evictable import EvictableTasks, Whole
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.evictable_sums import EvictableSums
from pumice.core.session.hooks import VictimBound

if TYPE_CHECKING:
    from pumice.core.session.session import Session
    from pumice.core.session.views import ClassView


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tasks an action takes for candidates."""

    queue: str
    # The job that asks in its own queue; empty: tasks of all other queues are wanted.
    job_id: str
    # By job number.
    jobs: Mask
    running_only: bool = False
    best_effort_only: bool = False


@dataclass(slots=True)
class _Guess:
    """Rows that were promising once, and what that followed from."""

    rows: Mask
    limits: dict[str, float]
    marks: dict[str, Floats]
    changes: int


class VictimSearch:
    """The bounds of one extension point (preemptable or reclaimable) in one action's run."""

    def __init__(self, session: Session, point: str) -> None:
        self._session = session
        self._tasks: EvictableTasks = session.cache.evictable
        bounds: dict[str, VictimBound] = getattr(session.hooks, f"{point}_bound")
        self._tiers = [names for names in session.chains.named_tiers(point) if names]
        self._bounds = {n: bounds[n] for tier in self._tiers for n in tier if n in bounds}
        # Tiers with more than one bound, which may have to agree.
        bounded = [[n for n in tier if n in self._bounds] for tier in self._tiers]
        self._shared = [names for names in bounded if len(names) > 1]
        # Equal tasks of a job get equal answers.
        self.is_predictable = all(n in bounds for tier in self._tiers for n in tier)
        self._generation = -1
        self._seen = 0
        self._guesses: dict[tuple[int, str, str, bool], _Guess] = {}
        self._sync()

    # What actions ask.

    def in_queue(self, queue: str, job: Job, *, best_effort_only: bool) -> Wanted:
        """Tasks of the other jobs of a queue."""
        key = (queue, job.id, best_effort_only)
        wanted = self._wanted.get(key)
        if wanted is None:
            jobs = self._queue == self._queue_numbers.get(queue, -1)
            number = self._tasks.job_ids.get(job.id)
            if number is not None:
                jobs[number] = False
            wanted = Wanted(queue, job.id, jobs, best_effort_only=best_effort_only)
            self._wanted[key] = wanted
        return wanted

    def in_other_queues(self, queue: str) -> Wanted:
        """Running tasks of other queues that let go of them."""
        key = (queue, "", False)
        wanted = self._wanted.get(key)
        if wanted is None:
            own = self._queue_numbers.get(queue, -1)
            jobs = self._reclaimable & (self._queue != own)
            wanted = self._wanted[key] = Wanted(queue, "", jobs, running_only=True)
        return wanted

    def holders(self, wanted: Wanted) -> Mask:
        """Rows with candidates."""
        wanted = self._up_to_date(wanted)
        held: Mask = self._sums("", wanted.jobs, wanted).count > 0
        return held

    def promising(self, task: Task, view: ClassView, wanted: Wanted) -> Mask:
        """Rows where victims, with what will be free anyway, might be enough for the task."""
        wanted = self._up_to_date(wanted)
        limits = {name: bound.limit(task) for name, bound in self._bounds.items()}
        result = np.zeros(len(self._session.table), dtype=np.bool_)
        for number, names in enumerate(self._tiers):
            # The first tier that agrees on victims decides, so any of them might.
            rows = self._tier(f"{number}", names, limits, view, wanted)
            if rows is not None:
                result |= rows
        marks = {name: values.copy() for name, values in self._marks.items()}
        guess = _Guess(result, limits, marks, self._session.table.changes)
        self._guesses[_key(view, wanted)] = guess
        return result.copy()

    def guess(self, task: Task, view: ClassView, wanted: Wanted) -> Mask | None:
        """All promising rows and perhaps some more, from what was found before; None: ask anew.

        As long as no plugin offers more than it did, a row that was not promising has become so
        only if something on it moved.
        """
        guess = self._guesses.get(_key(view, wanted))
        if guess is None:
            return None
        self._follow_moves()
        limits = {name: bound.limit(task) for name, bound in self._bounds.items()}
        for name, marks in self._marks.items():
            if limits[name] < guess.limits[name] or (marks > guess.marks[name]).any():
                return None
        if not all(self._agree(names, limits, wanted) for names in self._shared):
            return None
        rows = guess.rows.copy()
        rows[self._session.table.touched_since(guess.changes)] = True
        return rows

    def _agree(self, names: list[str], limits: dict[str, float], wanted: Wanted) -> bool:
        """Whether one plugin of a tier offers none but jobs that all the others offer too."""
        masks = self._masks(names, limits, wanted)
        common = _common(masks, wanted)
        return any(np.array_equal(mask, common) for mask in masks.values())

    # Tier by tier.

    def _masks(self, names: list[str], limits: dict[str, float], wanted: Wanted) -> dict[str, Mask]:
        """The jobs that each plugin with a bound might offer tasks of."""
        return {
            name: wanted.jobs & (self._marks[name] > limits[name])
            for name in names
            if name in self._bounds
        }

    def _tier(
        self,
        key: str,
        names: list[str],
        limits: dict[str, float],
        view: ClassView,
        wanted: Wanted,
    ) -> Mask | None:
        """Rows where the plugins of a tier might agree on enough victims.

        Each of them must offer someone. Where they might all offer the same job, and each but
        the last keeps a job's first candidate, they agree; elsewhere the last one's word stands.
        """
        masks = self._masks(names, limits, wanted)
        if not all(mask.any() for mask in masks.values()):
            return None
        common = _common(masks, wanted)
        caps: Whole | None = None
        for name in masks:
            if self._bounds[name].counts:
                caps = self._caps(self._marks[name] - limits[name], caps)
        orderly = all(name in masks and self._bounds[name].keeps_first for name in names[:-1])
        agreed = self._sums(key, common, wanted, caps if orderly else None)
        rows = agreed.count > 0
        freed = agreed if orderly else self._sums("", wanted.jobs, wanted)
        possible = rows & self._fits(view, freed)
        if len(masks) > 1 and not any(np.array_equal(mask, common) for mask in masks.values()):
            apart = ~rows
            for name, mask in masks.items():
                apart &= self._sums(f"{key}/{name}", mask, wanted).count > 0
            if apart.any():
                possible |= apart & self._fits(view, self._sums("", wanted.jobs, wanted))
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

    # Marks by job, and sums by row for a set of jobs; both follow what moved.

    def _sync(self) -> None:
        self._tasks.sync()
        if self._generation != self._tasks.generation:
            self._generation = self._tasks.generation
            self._seen = len(self._session.moves.log)
            self._start()
        else:
            self._follow_moves()

    def _up_to_date(self, wanted: Wanted) -> Wanted:
        """The same tasks, by the numbers that jobs have now."""
        before = self._generation
        self._sync()
        if self._generation == before:
            return wanted
        if not wanted.job_id:
            return self.in_other_queues(wanted.queue)
        job = self._session.jobs[wanted.job_id]
        return self.in_queue(wanted.queue, job, best_effort_only=wanted.best_effort_only)

    def _start(self) -> None:
        session = self._session
        self._guesses.clear()
        self._queue_marks: dict[tuple[str, str], float] = {}
        self._kept: dict[tuple[str, bool, bool], EvictableSums] = {}
        self._wanted: dict[tuple[str, str, bool], Wanted] = {}
        self._queue_numbers = {name: number for number, name in enumerate(session.queues)}
        jobs = [session.jobs.get(id_) for id_ in self._tasks.job_ids]
        self._queue: Whole = np.array(
            [-2 if job is None else self._queue_numbers[job.queue] for job in jobs], dtype=np.int64
        )
        gives = [queue.lets_go for queue in session.queues.values()]
        self._reclaimable: Mask = np.array(
            [number >= 0 and gives[number] for number in self._queue], dtype=np.bool_
        )
        self._marks = {
            name: np.array(
                [0 if job is None else bound.mark(job) for job in jobs], dtype=np.float64
            )
            for name, bound in self._bounds.items()
        }

    def _follow_moves(self) -> None:
        log = self._session.moves.log
        if self._seen < len(log):
            self._follow(log[self._seen :])
            self._seen = len(log)

    def _follow(self, moved: list[Task]) -> None:
        """Marks again what a moved task may have changed."""
        session = self._session
        for id_ in dict.fromkeys(task.job_id for task in moved):
            job, number = session.jobs.get(id_), self._tasks.job_ids.get(id_)
            if job is None:
                continue
            for name, bound in self._bounds.items():
                if bound.by_queue:
                    self._mark_queue(name, job.queue, bound.mark(job))
                elif number is not None:
                    self._marks[name][number] = bound.mark(job)

    def _mark_queue(self, name: str, queue: str, mark: float) -> None:
        """One mark for all jobs of a queue; it seldom changes."""
        if self._queue_marks.get((name, queue)) != mark:
            self._queue_marks[name, queue] = mark
            self._marks[name][self._queue == self._queue_numbers[queue]] = mark

    def _sums(
        self, key: str, jobs: Mask, wanted: Wanted, caps: Whole | None = None
    ) -> EvictableSums:
        kind = (key, wanted.running_only, wanted.best_effort_only)
        sums = self._kept.get(kind)
        if sums is None:
            sums = self._kept[kind] = EvictableSums(
                self._session.table,
                self._tasks,
                running_only=wanted.running_only,
                best_effort_only=wanted.best_effort_only,
            )
        sums.update(jobs, caps)
        return sums


def _key(view: ClassView, wanted: Wanted) -> tuple[int, str, str, bool]:
    return (view.class_.number, wanted.queue, wanted.job_id, wanted.best_effort_only)


def _common(masks: dict[str, Mask], wanted: Wanted) -> Mask:
    common = wanted.jobs
    for mask in masks.values():
        common = common & mask
    return common

"""Goals of scheduling: the recorded figure, the figure of a what-if run, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from pumice.evaluation.amounts import unit_of
from pumice.evaluation.figures import Figures, Percentiles

# Differences up to this part of the old figure, or up to the minimum of the unit, are ignored.
_TOLERANCE = 0.01
_SMALLEST = {"s": 0.1, "share": 0.005, "": 0.0}
_PERCENTILES = ("p50", "p90", "p99")


class Verdict(StrEnum):
    """The comparison of a new figure with the old one."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    # One of the two figures does not exist.
    UNKNOWN = "unknown"


class UnknownGoalError(ValueError):
    """An unknown goal. The message has the nearest known ones."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        near = get_close_matches(name, known, n=3) or known
        super().__init__(f"unknown goal {name!r}; allowed: {', '.join(near)}")


@dataclass(frozen=True, slots=True)
class GoalResult:
    """The result of one goal for one candidate."""

    name: str
    text: str
    # ``s``, ``share``, ``core-seconds`` and so on; empty for a count.
    unit: str
    lower_is_better: bool
    # None if the figure does not exist.
    old: float | None
    new: float | None
    # Whether the figures are lower bounds, because some jobs never started.
    old_is_bound: bool = False
    new_is_bound: bool = False
    # Whether the goal concerns one queue or one priority.
    is_detail: bool = False

    @property
    def difference(self) -> float | None:
        if self.old is None or self.new is None:
            return None
        return round(self.new - self.old, 4)

    @property
    def verdict(self) -> Verdict:
        difference = self.difference
        if difference is None or self.old is None:
            return Verdict.UNKNOWN
        smallest = _SMALLEST.get(self.unit, 1.0)
        if abs(difference) <= max(abs(self.old) * _TOLERANCE, smallest):
            return Verdict.SAME
        return Verdict.BETTER if (difference < 0) == self.lower_is_better else Verdict.WORSE


def goal_results(old: Figures, new: Figures) -> tuple[GoalResult, ...]:
    """All goals; those of one queue or one priority come last."""
    jobs = old.jobs.values()
    found = [*_waiting("wait", "waiting of jobs", old, new, lambda run: run.waits(), ("mean",))]
    found += [*_ended(old, new), *_resources(old, new)]
    for queue in sorted({job.queue for job in jobs if job.queue}):
        title = f"waiting in queue {queue}"
        waits = _waits_of_queue(queue)
        found += _waiting(f"wait.queue.{queue}", title, old, new, waits, detail=True)
    for priority in sorted({job.priority for job in jobs}):
        title = f"waiting with priority {priority}"
        waits = _waits_of_priority(priority)
        found += _waiting(f"wait.priority.{priority}", title, old, new, waits, detail=True)
    return tuple(found)


def _waits_of_queue(queue: str) -> Callable[[Figures], Percentiles]:
    return lambda run: run.waits(queue=queue)


def _waits_of_priority(priority: str) -> Callable[[Figures], Percentiles]:
    return lambda run: run.waits(priority=priority)


def _waiting(
    name: str,
    title: str,
    old: Figures,
    new: Figures,
    waits: Callable[[Figures], Percentiles],
    first: tuple[str, ...] = (),
    *,
    detail: bool = False,
) -> Iterator[GoalResult]:
    runs = [waits(old), waits(new)]
    if not any(run.count for run in runs):
        return
    for part in (*first, *_PERCENTILES):
        (one, one_bound), (two, two_bound) = (_percentile(run, part) for run in runs)
        text = f"{title}, {part}"
        bounds = (one_bound, two_bound)
        yield GoalResult(f"{name}.{part}", text, "s", True, one, two, *bounds, detail)


def _percentile(run: Percentiles, part: str) -> tuple[float | None, bool]:
    """The value, and whether it is a lower bound."""
    if not run.count:
        return None, False
    value: float = getattr(run, part)
    return value, run.never_started > 0 if part == "mean" else run.is_lower_bound(value)


def _ended(old: Figures, new: Figures) -> Iterator[GoalResult]:
    done = [{name: job.finished for name, job in run.jobs.items()} for run in (old, new)]
    one, two = (float(sum(time is not None for time in run.values())) for run in done)
    yield GoalResult("jobs.finished", "jobs finished", "", False, one, two)
    both = [
        (time, other)
        for name, time in done[0].items()
        if time is not None and (other := done[1].get(name)) is not None
    ]
    first = max((time for time, _ in both), default=None)
    last = max((time for _, time in both), default=None)
    text = f"makespan of the {len(both)} jobs that finish in both"
    yield GoalResult("makespan", text, "s", True, first, last)
    one, two = (
        float(sum(job.never_started and job.min_member > 1 for job in run.jobs.values()))
        for run in (old, new)
    )
    yield GoalResult("gangs.never-started", "gangs that never started", "", True, one, two)


def _resources(old: Figures, new: Figures) -> Iterator[GoalResult]:
    for name in _named(old.shares, new.shares):
        one, two = (run.useful_shares.get(name, 0.0) for run in (old, new))
        if one or two or name == "cpu":
            text = f"utilisation of {name}, without lost work"
            yield GoalResult(f"use.{name}", text, "share", False, one, two)
    yield GoalResult(
        "evictions", "pods evicted", "", True, float(old.evictions), float(new.evictions)
    )
    for name in _named(old.lost, new.lost) or ["cpu"]:
        unit = f"{unit_of(name)}-seconds"
        one, two = (run.lost.get(name, 0.0) for run in (old, new))
        yield GoalResult(f"lost.{name}", f"work lost to evictions, {name}", unit, True, one, two)
    fair = (old.fairness, new.fairness)
    yield GoalResult("fairness", "fairness between queues", "share", False, *fair)


def _named(*held: dict[str, float]) -> list[str]:
    names = {name for one in held for name in one}
    return sorted(names, key=lambda name: (name != "cpu", name))


def goal_of(results: Iterable[GoalResult], name: str) -> GoalResult:
    """The goal with this name. Raises UnknownGoalError."""
    known = {result.name: result for result in results}
    if name not in known:
        raise UnknownGoalError(name, list(known))
    return known[name]


def summary(results: Iterable[GoalResult]) -> str:
    """The numbers of better and worse goals, without those of one queue or priority."""
    main = [result.verdict for result in results if not result.is_detail]
    better, worse = main.count(Verdict.BETTER), main.count(Verdict.WORSE)
    if not better and not worse:
        return f"the same in all {len(main)} goals"
    return f"better in {better} of {len(main)} goals, worse in {worse}"

"""The order of candidates by the goals that they are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.evaluation.goals import GoalResult, Verdict, goal_of
from pumice.evaluation.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its place."""

    run: WhatIf
    better: int
    worse: int
    # Another candidate is as good in every goal, and better in one.
    is_dominated: bool


def chosen_goals(run: WhatIf, names: Sequence[str] = ()) -> list[GoalResult]:
    """The goals of these names, or else all that are not about one queue or priority.

    Raises UnknownGoalError.
    """
    if names:
        return [goal_of(run.goals, name) for name in names]
    return [goal for goal in run.goals if not goal.is_detail]


def cost(goal: GoalResult) -> float:
    """The new figure so that less is better; an unknown one is the worst."""
    if goal.new is None:
        return float("inf")
    return goal.new if goal.lower_is_better else -goal.new


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether costs are nowhere higher, and somewhere lower."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def ranked(runs: Sequence[WhatIf], names: Sequence[str] = ()) -> list[Ranked]:
    """Best first: those that no other dominates; then by goals better less goals worse than
    recorded; then by the first goal. Raises UnknownGoalError.
    """
    goals = [chosen_goals(run, names) for run in runs]
    shared = set.intersection(*({goal.name for goal in held} for held in goals)) if goals else set()
    costs = [[cost(goal) for goal in held if goal.name in shared] for held in goals]
    found = []
    for run, held, own in zip(runs, goals, costs, strict=True):
        verdicts = [goal.verdict for goal in held]
        found.append(
            Ranked(
                run,
                verdicts.count(Verdict.BETTER),
                verdicts.count(Verdict.WORSE),
                any(dominates(other, own) for other in costs),
            )
        )
    order = sorted(
        range(len(found)),
        key=lambda n: (
            bool(found[n].run.faults),
            found[n].is_dominated,
            found[n].worse - found[n].better,
            costs[n][:1],
            n,
        ),
    )
    return [found[number] for number in order]

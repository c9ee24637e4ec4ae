"""The ranking of candidates by goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.evaluation.goals import GoalResult, Verdict, goal_of
from pumice.evaluation.whatif import WhatIf


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with the data of its rank."""

    run: WhatIf
    better: int
    worse: int
    # Whether another candidate is as good in every goal, and better in one.
    is_dominated: bool


def chosen_goals(run: WhatIf, names: Sequence[str] = ()) -> list[GoalResult]:
    """The goals with these names, or else all except those of one queue or priority.

    Raises UnknownGoalError.
    """
    if names:
        return [goal_of(run.goals, name) for name in names]
    return [goal for goal in run.goals if not goal.is_detail]


def cost(goal: GoalResult) -> float:
    """The new figure with a sign so that lower is better; an unknown figure is the worst."""
    if goal.new is None:
        return float("inf")
    return goal.new if goal.lower_is_better else -goal.new


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the costs of one are nowhere higher and somewhere lower than those of the other."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def ranked(runs: Sequence[WhatIf], names: Sequence[str] = ()) -> list[Ranked]:
    """The candidates, best first. Raises UnknownGoalError.

    Candidates that no other one dominates come first; then the order is by goals better minus
    goals worse than recorded, then by the first goal.
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

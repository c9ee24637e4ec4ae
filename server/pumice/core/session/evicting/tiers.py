"""A tier of plugins that must agree on victims, as far as their rules tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.tasks import Task
from pumice.core.session.policies import VictimRule

# Tasks, and how many of them may be named in one answer.
Group = tuple[list[Task], int]


class VictimTier:
    """The plugins of one tier; those with a bound are known by their positions among all bounds."""

    def __init__(self, policies: list[Any], rules: list[VictimRule]) -> None:
        own = [
            (position, rule)
            for position, rule in enumerate(rules)
            if any(policy is rule for policy in policies)
        ]
        self.bounded = [position for position, _ in own]
        self.counting = [position for position, rule in own if rule.counts]
        # Each but the last keeps a job's first candidate: where they might all offer the same job,
        # they agree.
        self.orderly = all(
            isinstance(policy, VictimRule) and policy.keeps_first for policy in policies[:-1]
        )

    def offers(self, by_job: dict[int, list[Task]], surplus: dict[int, list[float]]) -> list[Group]:
        """The candidates on one node that the plugins might agree on.

        The surplus is how far a job's mark is above the limit, by bound.
        """
        common = [n for n in by_job if all(surplus[n][i] > 0 for i in self.bounded)]
        if common and self.orderly:
            return [(by_job[n], self._most(surplus[n], len(by_job[n]))) for n in common]
        # Elsewhere the last plugin decides, if all of them offer a victim.
        if common or all(any(surplus[n][i] > 0 for n in by_job) for i in self.bounded):
            return [(tasks, len(tasks)) for tasks in by_job.values()]
        return []

    def _most(self, surplus: list[float], there: int) -> int:
        counts = [min(surplus[position], there) for position in self.counting]
        return math.ceil(min(counts, default=there))


def would_free(
    table: NodeTable, row: int, groups: Iterable[Group], needs: list[tuple[int, float]]
) -> bool:
    """Whether what will be free on a node, and the groups' tasks, are enough.

    Of a group that is too large, all are taken to be like the largest one: rather too much.
    """
    vectors = [([table.vector(task.class_) for task in tasks], most) for tasks, most in groups]
    for column, need in needs:
        freed = float(table.future[column, row])
        for parts, most in vectors:
            amounts = [float(part[column]) for part in parts]
            total = sum(amounts)
            if most < len(amounts):
                total = min(total, most * max(amounts))
            freed += total
        if freed < need:
            return False
    return True

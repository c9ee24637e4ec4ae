"""Scores that follow from amounts: how full a node is, and how evenly."""

from __future__ import annotations

from pumice.core.cache.tasks import TaskClass
from pumice.core.session.feasibility.amounts import AmountScore

GPU = "nvidia.com/gpu"


class AmountScores:
    """Least, most and balanced allocation by their weights; cards count only if asked for."""

    def __init__(self, least: int, most: int, balanced: int) -> None:
        self._weights = (float(least), float(most), float(balanced))
        self._terms: dict[int, AmountScore] = {}

    def term(self, class_: TaskClass) -> AmountScore:
        known = self._terms.get(class_.number)
        if known is None:
            request, cards = class_.request, max(class_.request.get(GPU), 0)
            milli_cpu, memory = class_.spec.scored_amounts()
            known = self._terms[class_.number] = AmountScore(
                *self._weights,
                float(milli_cpu),
                float(memory),
                float(request.milli_cpu),
                float(request.memory),
                GPU if cards else "",
                float(cards),
            )
        return known

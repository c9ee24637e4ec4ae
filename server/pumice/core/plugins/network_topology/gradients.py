"""The domains that are tried for a job, tier by tier."""

from __future__ import annotations

from pumice.core.model.resources import Resources
from pumice.core.plugins.network_topology.amounts import DomainAmounts
from pumice.core.session.session import Session


class Gradients:
    """Domains within the highest tier allowed, the lowest tier first; for evictions the widest first."""

    def __init__(self, session: Session, amounts: DomainAmounts, most_for_evicting: int) -> None:
        self._tree = session.topology.tree
        self._amounts = amounts
        self._most_for_evicting = most_for_evicting

    def of(
        self, limit: int, occupied: str, start: str, minimum: Resources, *, for_evicting: bool
    ) -> list[list[str]]:
        """The domains at or below the start, tier by tier.

        Where the job occupies a domain, only those below the highest allowed ancestor of that
        domain. Where it occupies none, only those that have enough for the minimum.
        """
        tree = self._tree
        root = self._root(limit, occupied, start)
        if tree.number_of(root) is None:
            return []
        gradients, names = [], tree.names
        for tier, every in tree.levels_below(root):
            numbers = every
            if tier > limit:
                break
            if not occupied:
                numbers = self._amounts.with_room(numbers, minimum, for_evicting=for_evicting)
            if len(numbers):
                gradients.append([names[number] for number in numbers.tolist()])
        return self._for_evicting(gradients) if for_evicting else gradients

    def _root(self, limit: int, occupied: str, start: str) -> str:
        """The domain in which the search begins; empty: none contains the occupied one."""
        if not occupied:
            return start
        highest = ""
        for name in self._tree.ancestors_of(occupied):
            tier = self._tree.tier_of(name)
            if tier is None or tier > limit:
                break
            highest = name
        if not highest:
            return ""
        common = self._tree.common(start, highest)
        if common == highest:
            return start
        return highest if common == start else ""

    def _for_evicting(self, gradients: list[list[str]]) -> list[list[str]]:
        left = self._most_for_evicting
        result = []
        for domains in reversed(gradients):
            if left <= 0:
                break
            # Volcano keeps the last ones where there are too many.
            result.append(domains[-left:])
            left -= len(result[-1])
        return result

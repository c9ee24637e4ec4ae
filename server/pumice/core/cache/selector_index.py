"""An index of label selectors by the labels that they match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from pumice.core.model.selectors import LabelSelector, Operator, Requirement

T = TypeVar("T")

# The requirements that are left to check once an entry is found, and the item.
_Entry = tuple[LabelSelector | None, T]


class SelectorIndex(Generic[T]):
    """Finds the items whose selector matches given labels, without evaluating every selector.

    Most selectors require one of some values of a label and are stored under these values; all
    others are evaluated each time. The result has no particular order.
    """

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], list[_Entry[T]]] = {}
        self._others: list[_Entry[T]] = []

    def add(self, selector: LabelSelector | None, item: T) -> None:
        """An absent selector selects nothing and is not kept."""
        if selector is None:
            return
        demand = demanded(selector)
        if demand is None:
            self._others.append((selector, item))
            return
        rest = tuple(r for r in selector.requirements if r is not demand)
        entry = (LabelSelector(rest) if rest else None, item)
        for value in dict.fromkeys(demand.values):
            self._by_pair.setdefault((demand.key, value), []).append(entry)

    def find(self, labels: Mapping[str, str]) -> list[T]:
        if not self._others and self._by_pair.keys().isdisjoint(labels.items()):
            # Most pods are selected by none.
            return []
        found = [item for rest, item in self._others if rest is None or rest.matches(labels)]
        if self._by_pair:
            for pair in labels.items():
                entries = self._by_pair.get(pair)
                if entries is not None:
                    found += [
                        item for rest, item in entries if rest is None or rest.matches(labels)
                    ]
        return found


def demanded(selector: LabelSelector) -> Requirement | None:
    """A requirement that names all the values a label may have, if there is one."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return requirement
    return None

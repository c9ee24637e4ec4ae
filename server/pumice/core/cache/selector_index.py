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
        # By label and value.
        self._by_label: dict[str, dict[str, list[_Entry[T]]]] = {}
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
        values = self._by_label.setdefault(demand.key, {})
        for value in dict.fromkeys(demand.values):
            values.setdefault(value, []).append(entry)

    def finds_none(self, labels: Mapping[str, str]) -> bool:
        """Whether no selector can match the labels, as is the case for most pods."""
        if self._others:
            return False
        by_label = self._by_label
        if len(by_label) <= len(labels):
            for key, values in by_label.items():  # noqa: SIM110
                if labels.get(key) in values:
                    return False
            return True
        for key, value in labels.items():
            if key in by_label and value in by_label[key]:
                return False
        return True

    def find(self, labels: Mapping[str, str]) -> list[T]:
        if self.finds_none(labels):
            return []
        matching = [item for rest, item in self._others if rest is None or rest.matches(labels)]
        for key, value in labels.items():
            values = self._by_label.get(key)
            if values is not None and value in values:
                entries = values[value]
                matching += [item for rest, item in entries if rest is None or rest.matches(labels)]
        return matching


def demanded(selector: LabelSelector) -> Requirement | None:
    """A requirement that names all the values a label may have, if there is one."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN:
            return requirement
    return None

"""What plugins answer about a class for all nodes at once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.session.hooks import Chains
from pumice.core.session.policies import ClassRule

# ((point, plugin), facet) for every class rule with a facet.
Facets = tuple[tuple[tuple[str, str], Hashable], ...]
Refusals = list[tuple[str, list[Refusal]]]


class ClassAnswers:
    """The answers at ``class_predicate`` and ``class_score``, each kept as long as it holds."""

    __slots__ = ("_class", "_facets", "_kept", "_table", "asked")

    def __init__(self, class_: TaskClass, facets: Facets, table: NodeTable) -> None:
        self._class = class_
        self._facets = dict(facets)
        self._table = table
        # By point and plugin: the version that the answer holds for, and the answer.
        self._kept: dict[tuple[str, str], tuple[Hashable, Any]] = {}
        # How often a plugin was asked.
        self.asked = 0

    def facet_of(self, point: str, plugin: str) -> Hashable:
        """What a plugin's answers at a point depend on beside the class; None: nothing."""
        return self._facets.get((point, plugin))

    def combined(self, chains: Chains) -> tuple[Refusals, Mask, Floats]:
        """All refusals by plugin, the nodes that pass all of them, and the sum of the scores."""
        refused: Refusals = self.at("class_predicate", chains)
        passes: Mask = np.ones(len(self._table), dtype=np.bool_)
        for _, refusals in refused:
            for refusal in refusals:
                passes &= ~refusal.rows
        scores: Floats = np.zeros(len(self._table))
        for _, score in self.at("class_score", chains):
            scores = scores + score
        return refused, passes, scores

    def _version(self, rule: ClassRule[Any]) -> Hashable:
        own = rule.version()
        return own if rule.version_of is None else (own, rule.version_of(self._class))

    def at(self, point: str, chains: Chains) -> list[tuple[str, Any]]:
        """The answers at one point, by plugin, in the order in which plugins are asked."""
        answers = []
        for name, rule in chains.named(point):
            is_rule = isinstance(rule, ClassRule)
            own = self._version(rule) if is_rule else self._table.objects_version
            version = (self._table.layout, own)
            known = self._kept.get((point, name))
            if known is None or known[0] != version:
                self.asked += 1
                facet = self._facets.get((point, name))
                answer = rule.answer(self._class, facet) if is_rule else rule(self._class)
                answer = list(answer) if point == "class_predicate" else answer
                known = self._kept[point, name] = (version, answer)
            answers.append((name, known[1]))
        return answers

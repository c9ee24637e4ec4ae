"""The rules of plugins for one task class, and the results of the rules that cover all nodes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.session.hooks import Chains, Hooks
from pumice.core.session.policies import ClassRule, concerns

_NO_CHAINS = Chains(Hooks(), [])
# ((point, plugin), facet) for every rule with a facet.
Facets = tuple[tuple[tuple[str, str], Hashable], ...]
Refusals = list[tuple[str, list[Refusal]]]


class ClassRules:
    """The rules of the running session for a class.

    Results at ``class_predicate`` and ``class_score`` stay valid over sessions, each as long as the
    version of its rule stays the same.
    """

    __slots__ = ("_chains", "_facets", "_kept", "_table", "class_", "evaluations")

    def __init__(self, class_: TaskClass, facets: Facets, table: NodeTable) -> None:
        self.class_ = class_
        self._facets = dict(facets)
        self._table = table
        self._chains = _NO_CHAINS
        # By point and plugin: the version that the result is valid for, and the result.
        self._kept: dict[tuple[str, str], tuple[Hashable, Any]] = {}
        # The number of evaluations of rules at class points.
        self.evaluations = 0

    def use(self, chains: Chains) -> None:
        """Uses the rules of a new session."""
        self._chains = chains

    def release(self) -> None:
        """Drops the rules of a session that has ended, so that its plugins can be freed."""
        self._chains = _NO_CHAINS

    def facet_of(self, point: str, plugin: str) -> Hashable:
        """What a rule depends on beside the class; None: nothing."""
        return self._facets.get((point, plugin))

    def at(self, point: str) -> list[tuple[str, Any]]:
        """The rules at a point that concern the class, by plugin, in the order of plugins."""
        return [entry for entry in self._chains.named(point) if concerns(entry[1], self.class_)]

    def results(self, point: str) -> list[tuple[str, Any]]:
        """The results at a class point, by plugin, in the order of plugins."""
        results = []
        for name, rule in self._chains.named(point):
            is_rule = isinstance(rule, ClassRule)
            own = self._version(rule) if is_rule else self._table.objects_version
            version = (self._table.layout, own)
            known = self._kept.get((point, name))
            if known is None or known[0] != version:
                self.evaluations += 1
                facet = self.facet_of(point, name)
                result = rule.answer(self.class_, facet) if is_rule else rule(self.class_)
                result = list(result) if point == "class_predicate" else result
                known = self._kept[point, name] = (version, result)
            results.append((name, known[1]))
        return results

    def _version(self, rule: ClassRule[Any]) -> Hashable:
        own = rule.version()
        return own if rule.version_of is None else (own, rule.version_of(self.class_))

    def combined(self) -> tuple[Refusals, Mask, Floats]:
        """The refusals by plugin, the nodes that pass all of them, and the sum of the scores."""
        refused: Refusals = self.results("class_predicate")
        passes: Mask = np.ones(len(self._table), dtype=np.bool_)
        for _, refusals in refused:
            for refusal in refusals:
                passes &= ~refusal.rows
        scores: Floats = np.zeros(len(self._table))
        for _, score in self.results("class_score"):
            scores = scores + score
        return refused, passes, scores

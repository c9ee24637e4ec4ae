"""resource-strategy-fit: a strategy per resource, scarce resources, and reserves for devices."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.plugins.resource_strategy_fit.terms import (
    LEAST,
    MOST,
    FitPart,
    Reserve,
    Reserves,
    StrategyFit,
)
from pumice.core.session.feasibility.terms import Fullness
from pumice.core.session.hooks import Scores
from pumice.core.session.policies import RowTerms
from pumice.core.session.session import Session

SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHT = "volcano.sh/resource-strategy-weight"
_WEIGHT, _RESOURCES, _SRA, _PROPORTIONAL = (
    "resourceStrategyFitWeight",
    "resources",
    "sra",
    "proportional",
)
_DEFAULT_WEIGHT = 10
_FULL = 100.0
_NAMED = ArgumentType.STRING
_SCORED = ArgumentSchema(
    {"type": ArgumentType.STRING, "weight": ArgumentType.INT},
    limits={
        "type": Limit(choices=(LEAST, MOST)),
        "weight": Limit(above=0, otherwise="Volcano would use 1 instead"),
    },
    defaults={"type": LEAST, "weight": 1},
)
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class ResourceStrategyFitPlugin:
    """Scores how full a node would be, resource by resource, with the strategy of each."""

    name: ClassVar[str] = "resource-strategy-fit"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _WEIGHT: ArgumentType.INT,
            _RESOURCES: ArgumentType.MAP,
            _SRA: ArgumentType.MAP,
            _PROPORTIONAL: ArgumentType.MAP,
        },
        limits={_WEIGHT: Limit(at_least=0, otherwise="Volcano would use 10 instead")},
        defaults={_WEIGHT: _DEFAULT_WEIGHT, _RESOURCES: f"cpu and memory, {LEAST}"},
        members={
            _RESOURCES: ArgumentSchema(
                prefixes={"": ArgumentType.MAP},
                members={"": _SCORED},
                key_pattern=r"[^*]+\*?",
                key_form="a resource, or the beginning of its name and *",
            ),
            _SRA: ArgumentSchema(
                {
                    "enable": ArgumentType.BOOL,
                    "resources": _NAMED,
                    "weight": ArgumentType.INT,
                    "resourceWeight": ArgumentType.MAP,
                },
                limits={"weight": Limit(at_least=0, otherwise="it would have no effect")},
                defaults={"enable": False, "weight": 0},
                members={
                    "resourceWeight": ArgumentSchema(
                        prefixes={"": ArgumentType.INT}, limits={"": _NOT_NEGATIVE}
                    )
                },
            ),
            _PROPORTIONAL: ArgumentSchema(
                {
                    "enable": ArgumentType.BOOL,
                    "resources": _NAMED,
                    "resourceProportion": ArgumentType.MAP,
                },
                defaults={"enable": False},
                members={
                    "resourceProportion": ArgumentSchema(
                        prefixes={"": ArgumentType.FLOAT}, limits={"": _NOT_NEGATIVE}
                    )
                },
            ),
        },
    )

    def __init__(self, options: PluginOptions) -> None:
        arguments = options.arguments
        self._weight = arguments.integer(_WEIGHT, _DEFAULT_WEIGHT)
        self._strategies = _strategies(_mapping(arguments.get(_RESOURCES)))
        scarce = _mapping(arguments.get(_SRA))
        self._scarce_weight = scarce.get("weight", 0) if scarce.get("enable") else 0
        weights = _mapping(scarce.get("resourceWeight"))
        self._scarce = {name: weights.get(name, 1) for name in _names(scarce.get("resources"))}
        self._reserves = _reserves(_mapping(arguments.get(_PROPORTIONAL)))

    def open(self, session: Session) -> None:
        self._table = session.table
        hooks = session.hooks
        if self._reserves:
            hooks.row_predicate[self.name] = RowTerms(self._reserve_term)
        if self._weight > 0:
            hooks.row_score[self.name] = RowTerms(
                lambda class_: self._fit_term(class_, None), facet=_own, of_facet=self._fit_term
            )
        if self._scarce_weight > 0:
            hooks.class_score[self.name] = self._scarcity

    def _fit_term(self, class_: TaskClass, own: Hashable) -> Fullness | StrategyFit:
        strategy_of = self._strategy if own is None else _of_pod(own).get
        parts = tuple(
            FitPart(name, float(class_.request.get(name)), *strategy)
            for name in class_.request.names()
            if (strategy := strategy_of(name)) is not None
        )
        divisor = float(sum(part.weight for part in parts))
        factor = _FULL * self._weight
        if all(part.strategy == MOST for part in parts):
            # The kernel knows this term.
            packed = tuple((part.resource, part.asked, part.weight) for part in parts)
            return Fullness(packed, divisor, factor)
        return StrategyFit(parts, divisor, factor)

    def _strategy(self, resource: str) -> tuple[float, str] | None:
        """Weight and strategy by the resource's name, or else by its longest known beginning."""
        if resource in self._strategies:
            return self._strategies[resource]
        fitting = [
            name
            for name in self._strategies
            if name.endswith("*") and resource.startswith(name[:-1])
        ]
        return self._strategies[max(fitting, key=len)] if fitting else None

    def _scarcity(self, class_: TaskClass) -> Scores:
        """How little of the scarce resources a node has; 0 where it lacks what is asked for."""
        allocatable, count = self._table.allocatable, len(self._table)
        total = sum(self._scarce.values())
        scarce: Scores = np.zeros(count)
        for name, weight in self._scarce.items():
            column = self._table.column_of(name)
            if column is not None:
                scarce = scarce + np.where(allocatable[column] > 0, float(weight), 0.0)
        scores = 1.0 - scarce / total if total > 0 else scarce
        scores = scores * (_FULL * self._scarce_weight)
        for name in class_.request.names():
            column = self._table.column_of(name)
            scores = np.where(allocatable[column] == 0, 0.0, scores) if column is not None else 0.0
        result: Scores = np.broadcast_to(scores, (count,))
        return result

    def _reserve_term(self, class_: TaskClass) -> Reserves:
        asks = any(class_.request.get(reserve.resource) > 0 for reserve in self._reserves)
        milli_cpu, memory = float(class_.request.milli_cpu), float(class_.request.memory)
        return Reserves(() if asks else self._reserves, milli_cpu, memory)


def _own(task: Task) -> tuple[str, str] | None:
    """The strategy that a pod has of its own; None: it has none."""
    kind = task.pod.annotations.get(SCORING_TYPE)
    return (kind, task.pod.annotations.get(SCORING_WEIGHT, "")) if kind else None


def _of_pod(own: Hashable) -> Mapping[str, tuple[float, str]]:
    """Weight and strategy by resource, as the pod says; nothing where it cannot be read."""
    assert isinstance(own, tuple)
    kind, text = own
    try:
        weights = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(weights, dict) or not all(type(w) is int for w in weights.values()):
        return {}
    return {name: (float(weight), kind) for name, weight in weights.items()}


def _strategies(listed: Mapping[str, Any]) -> Mapping[str, tuple[float, str]]:
    if not listed:
        return {CPU: (1.0, LEAST), MEMORY: (1.0, LEAST)}
    return {
        name: (float(fields.get("weight", 1)), fields.get("type", LEAST))
        for name, fields in ((name, _mapping(value)) for name, value in sorted(listed.items()))
    }


def _reserves(listed: Mapping[str, Any]) -> tuple[Reserve, ...]:
    if not listed.get("enable"):
        return ()
    rates = _mapping(listed.get("resourceProportion"))
    return tuple(
        Reserve(name, float(rates.get(f"{name}.cpu", 1)), float(rates.get(f"{name}.memory", 1)))
        for name in _names(listed.get("resources"))
    )


def _names(text: object) -> list[str]:
    """The names of a comma list, each once."""
    words = (word.strip() for word in text.split(",")) if isinstance(text, str) else ()
    return sorted({word for word in words if word})


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

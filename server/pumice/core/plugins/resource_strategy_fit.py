"""resource-strategy-fit: scores nodes with a strategy for each resource.

It can also prefer nodes without scarce resources for pods that do not request them, and keep cpu and
memory free for idle devices.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, Floats
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Arguments,
    Limit,
    PluginOptions,
    boolean,
    by_name,
    integer,
    mapping,
    names,
    number,
    text,
)
from pumice.core.model.fit import Refusal
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.feasibility.terms import Fullness, mean_use
from pumice.core.session.hooks import Scores
from pumice.core.session.policies import RowTerms
from pumice.core.session.session import Session

LEAST, MOST = "LeastAllocated", "MostAllocated"
# A rate of 1 is 10^9 bytes of memory per device, and devices are counted in thousandths.
_BYTES_PER_THOUSANDTH = 1e6
SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHT = "volcano.sh/resource-strategy-weight"
_MAX_NODE_SCORE = 100.0
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class StrategyArguments(Arguments):
    """The strategy of one resource."""

    type = text(
        "type", LEAST, "whether empty or full nodes score higher", Limit(choices=(LEAST, MOST))
    )
    weight = integer(
        "weight",
        1,
        "weight of the resource",
        Limit(above=0, otherwise="Volcano would use 1 instead"),
    )


class ResourcesArguments(Arguments):
    """Strategies by resource."""

    strategies = by_name(
        mapping("", StrategyArguments, "strategy and weight of one resource"),
        pattern=r"[^*]+\*?",
        form="a resource, or the beginning of its name and *",
    )


class ScarceWeights(Arguments):
    """Weights of scarce resources."""

    of = by_name(integer("", 1, "weight of this scarce resource", _NOT_NEGATIVE))


class ScarceArguments(Arguments):
    """Which resources are scarce."""

    enable = boolean("enable", "scores nodes by how few scarce resources they have", default=False)
    resources = names("resources", "the scarce resources, separated by commas")
    weight = integer(
        "weight", 0, "weight of the score", Limit(at_least=0, otherwise="it would have no effect")
    )
    weights = mapping("resourceWeight", ScarceWeights, "weight of each scarce resource")


class DeviceRates(Arguments):
    """What is kept free for each idle device."""

    of = by_name(number("", 1.0, "cores or 10^9 bytes of memory per idle device", _NOT_NEGATIVE))


class ProportionalArguments(Arguments):
    """The devices for which cpu and memory are kept free."""

    enable = boolean("enable", "leaves cpu and memory free for idle devices", default=False)
    resources = names("resources", "the devices, separated by commas")
    rates = mapping("resourceProportion", DeviceRates, "cores and 10^9 bytes of memory per device")


class ResourceStrategyFitArguments(Arguments):
    """Strategies, scarce resources, and resources that are kept free for devices."""

    weight = integer(
        "resourceStrategyFitWeight",
        10,
        "weight of the score; 0: no score",
        Limit(at_least=0, otherwise="Volcano would use 10 instead"),
    )
    resources = mapping(
        "resources",
        ResourcesArguments,
        "strategy and weight by resource; a name may end in *",
        default=f"cpu and memory, {LEAST}",
    )
    scarce = mapping(
        "sra", ScarceArguments, "prefers nodes without scarce resources for pods that need none"
    )
    proportional = mapping(
        "proportional", ProportionalArguments, "cpu and memory that stay free for idle devices"
    )


class ResourceStrategyFitPlugin:
    """Scores nodes by the used or free part of each requested resource."""

    name: ClassVar[str] = "resource-strategy-fit"
    arguments: ClassVar[type[Arguments]] = ResourceStrategyFitArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = ResourceStrategyFitArguments(options.arguments)
        self._weight = arguments.weight
        self._strategies = {
            name: (float(strategy.weight), strategy.type)
            for name, strategy in arguments.resources.strategies.items()
        } or {CPU: (1.0, LEAST), MEMORY: (1.0, LEAST)}
        scarce = arguments.scarce
        self._scarce_weight = scarce.weight if scarce.enable else 0
        self._scarce = {name: scarce.weights.of[name] for name in sorted(scarce.resources)}
        self._reserves = _reserves(arguments.proportional)

    def open(self, session: Session) -> None:
        self._table = session.table
        hooks = session.hooks
        if self._reserves:
            hooks.row_predicate[self.name] = RowTerms(self._reserve_term)
        if self._weight > 0:
            hooks.row_score[self.name] = RowTerms(
                lambda class_: self._fit_term(class_, None),
                facet=_pod_strategy,
                of_facet=self._fit_term,
            )
        if self._scarce_weight > 0:
            hooks.class_score[self.name] = self._scarcity

    def _fit_term(self, class_: TaskClass, own: Hashable) -> Fullness | StrategyFit:
        strategy_of = self._strategy if own is None else _strategies_of_pod(own).get
        found = [(name, strategy_of(name)) for name in class_.request.names()]
        parts = [
            (name, float(class_.request.get(name)), *strategy)
            for name, strategy in found
            if strategy is not None
        ]
        divisor = float(sum(weight for _, _, weight, _ in parts))
        factor = _MAX_NODE_SCORE * self._weight
        if all(strategy == MOST for _, _, _, strategy in parts):
            # The compiled kernel can evaluate this term.
            return Fullness(tuple(part[:3] for part in parts), divisor, factor)
        # A resource with an unknown strategy scores 0, but its weight counts.
        known = tuple((*p[:3], p[3] == LEAST) for p in parts if p[3] in (LEAST, MOST))
        return StrategyFit(known, divisor, factor)

    def _strategy(self, resource: str) -> tuple[float, str] | None:
        """Weight and strategy of a resource, by its name, or by its longest configured prefix."""
        if resource in self._strategies:
            return self._strategies[resource]
        prefixes = [name for name in self._strategies if name.endswith("*")]
        matching = [name for name in prefixes if resource.startswith(name[:-1])]
        return self._strategies[max(matching, key=len)] if matching else None

    def _scarcity(self, class_: TaskClass) -> Scores:
        """Higher scores for nodes with fewer scarce resources; 0 for nodes without a requested resource."""
        allocatable, count = self._table.allocatable, len(self._table)
        total = sum(self._scarce.values())
        scarce: Scores = np.zeros(count)
        for name, weight in self._scarce.items():
            column = self._table.column_of(name)
            if column is not None:
                scarce = scarce + np.where(allocatable[column] > 0, float(weight), 0.0)
        scores: Scores = 1.0 - scarce / total if total > 0 else scarce
        scores = scores * (_MAX_NODE_SCORE * self._scarce_weight)
        for name in class_.request.names():
            column = self._table.column_of(name)
            if column is None:
                return np.zeros(count)
            scores = np.where(allocatable[column] == 0, 0.0, scores)
        return scores

    def _reserve_term(self, class_: TaskClass) -> Reserves:
        uses_devices = any(class_.request.get(reserve.resource) > 0 for reserve in self._reserves)
        milli_cpu, memory = float(class_.request.milli_cpu), float(class_.request.memory)
        return Reserves(() if uses_devices else self._reserves, milli_cpu, memory)


def _pod_strategy(task: Task) -> tuple[str, str] | None:
    """The strategy in the annotations of a pod; None: it has none."""
    kind = task.pod.annotations.get(SCORING_TYPE)
    return (kind, task.pod.annotations.get(SCORING_WEIGHT, "")) if kind else None


def _strategies_of_pod(own: Hashable) -> Mapping[str, tuple[float, str]]:
    """Weight and strategy by resource, from a pod's annotations; empty if they are invalid."""
    assert isinstance(own, tuple)
    kind, text = own
    try:
        weights = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(weights, dict) or not all(type(w) is int for w in weights.values()):
        return {}
    return {name: (float(weight), kind) for name, weight in weights.items()}


def _reserves(arguments: ProportionalArguments) -> tuple[Reserve, ...]:
    if not arguments.enable:
        return ()
    rates = arguments.rates.of
    return tuple(
        Reserve(name, rates[f"{name}.cpu"], rates[f"{name}.memory"])
        for name in sorted(set(arguments.resources))
    )


# Terms over rows of nodes.


@dataclass(frozen=True, slots=True)
class StrategyFit:
    """A row score: the weighted mean over resources; 0 where a request exceeds the node."""

    # Resource, request, weight, and whether the free amount counts instead of the used one.
    parts: tuple[tuple[str, float, float, bool], ...]
    divisor: float
    factor: float

    def evaluate(self, rows: NodeRows) -> Floats:
        return mean_use(rows, self.parts, self.divisor, self.factor)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept free on a node for each idle device: cores, and units of 10^9 bytes."""

    resource: str
    cores: float
    memory: float


@dataclass(frozen=True, slots=True)
class Reserves:
    """A row predicate: pods without devices leave enough cpu and memory for idle devices."""

    reserves: tuple[Reserve, ...]
    milli_cpu: float
    memory: float

    def evaluate(self, rows: NodeRows) -> tuple[Refusal, ...]:
        refusals = []
        refused = np.zeros(len(rows), dtype=np.bool_)
        for reserve in self.reserves:
            column = rows.column(reserve.resource)
            if column is None:
                continue
            idle, offered = rows.idle[column], rows.allocatable[column]
            milli_cpu = rows.idle[CPU_COLUMN] - self.milli_cpu
            memory = rows.idle[MEMORY_COLUMN] - self.memory
            short = milli_cpu < idle * reserve.cores
            short |= memory < idle * reserve.memory * _BYTES_PER_THOUSANDTH
            rows_refused = short & (offered > 0) & ~refused
            refused |= rows_refused
            reason = f"proportional of resource {reserve.resource} check failed"
            refusals.append(Refusal(reason, rows_refused, unresolvable=True))
        return tuple(refusals)

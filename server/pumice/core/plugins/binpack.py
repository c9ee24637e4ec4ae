"""binpack: prefers the fullest node."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import TaskClass
from pumice.core.configuration import (
    Arguments,
    ArgumentSchema,
    ArgumentType,
    Limit,
    PluginOptions,
)
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.session.feasibility.terms import Fullness
from pumice.core.session.policies import RowTerms
from pumice.core.session.session import Session

_FULL = 100
_WEIGHT = "binpack.weight"
_CPU = "binpack.cpu"
_MEMORY = "binpack.memory"
_RESOURCES = "binpack.resources"
_RESOURCE_PREFIX = "binpack.resources."
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class BinpackPlugin:
    """Scores a node by the fraction of each requested resource in use with the task placed."""

    name: ClassVar[str] = "binpack"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _WEIGHT: ArgumentType.INT,
            _CPU: ArgumentType.INT,
            _MEMORY: ArgumentType.INT,
            _RESOURCES: ArgumentType.STRING,
        },
        {_RESOURCE_PREFIX: ArgumentType.INT},
        {
            _WEIGHT: Limit(
                at_least=0, lenient=True, otherwise="below zero it prefers the emptiest node"
            ),
            _CPU: _NOT_NEGATIVE,
            _MEMORY: _NOT_NEGATIVE,
            _RESOURCE_PREFIX: _NOT_NEGATIVE,
        },
        defaults=dict.fromkeys((_WEIGHT, _CPU, _MEMORY, _RESOURCE_PREFIX), 1),
    )

    def __init__(self, options: PluginOptions) -> None:
        # A weight below zero prefers the emptiest node: Volcano takes it, so do we.
        self._weight = options.arguments.integer(_WEIGHT, 1)
        self._weights = resource_weights(options.arguments)

    def open(self, session: Session) -> None:
        if self._weight:
            session.hooks.row_score[self.name] = RowTerms(self._fullness)

    def _fullness(self, class_: TaskClass) -> Fullness:
        asked = [(name, class_.request.get(name)) for name in class_.request.names()]
        parts = [(n, float(a), float(self._weights[n])) for n, a in asked if n in self._weights]
        divisor = sum(weight for _, _, weight in parts)
        return Fullness(tuple(parts), divisor, _FULL * self._weight)


def resource_weights(arguments: Arguments) -> dict[str, int]:
    """The weight of each resource that counts; below zero stands for one."""
    weights: dict[str, int] = {}
    for part in arguments.text(_RESOURCES, "").split(","):
        name = part.strip()
        if name:
            weights[name] = _weight_of(arguments, _RESOURCE_PREFIX + name)
    weights[CPU] = _weight_of(arguments, _CPU)
    weights[MEMORY] = _weight_of(arguments, _MEMORY)
    return weights


def _weight_of(arguments: Arguments, key: str) -> int:
    weight = arguments.integer(key, 1)
    return 1 if weight < 0 else weight

"""binpack: prefers nodes whose requested resources are used most."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import TaskClass
from pumice.core.configuration import Arguments, Limit, PluginOptions, by_name, integer, names
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.session.feasibility.terms import Fullness
from pumice.core.session.policies import RowTerms
from pumice.core.session.session import Session

_MAX_NODE_SCORE = 100
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use 1 instead")


class BinpackArguments(Arguments):
    """The weights of the score and of each resource in it."""

    # Volcano accepts a negative weight, so do we.
    weight = integer(
        "binpack.weight",
        1,
        "weight of the score",
        Limit(at_least=0, lenient=True, otherwise="below zero it prefers the emptiest node"),
    )
    cpu = integer("binpack.cpu", 1, "weight of cpu", _NOT_NEGATIVE)
    memory = integer("binpack.memory", 1, "weight of memory", _NOT_NEGATIVE)
    resources = names("binpack.resources", "further resources in the score, separated by commas")
    resource_weights = by_name(
        integer("binpack.resources.", 1, "weight of this resource", _NOT_NEGATIVE)
    )

    def weights(self) -> dict[str, int]:
        """The weight of each resource in the score."""
        weights = {name: self.resource_weights[name] for name in self.resources}
        return {**weights, CPU: self.cpu, MEMORY: self.memory}


class BinpackPlugin:
    """Scores a node by the fraction of each requested resource that is used with the task on it."""

    name: ClassVar[str] = "binpack"
    arguments: ClassVar[type[Arguments]] = BinpackArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = BinpackArguments(options.arguments)
        self._weight, self._weights = arguments.weight, arguments.weights()

    def open(self, session: Session) -> None:
        if self._weight:
            session.hooks.row_score[self.name] = RowTerms(self._fullness)

    def _fullness(self, class_: TaskClass) -> Fullness:
        request, weights = class_.request, self._weights
        names = [name for name in request.names() if name in weights]
        parts = tuple((name, float(request.get(name)), float(weights[name])) for name in names)
        divisor = sum(weight for _, _, weight in parts)
        return Fullness(parts, divisor, _MAX_NODE_SCORE * self._weight)

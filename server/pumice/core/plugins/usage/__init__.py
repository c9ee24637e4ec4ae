"""usage: filters and scores nodes by their measured load."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, Limit, PluginOptions, integer, mapping
from pumice.core.configuration.volcano_names import Metrics
from pumice.core.model.fit import Refusal
from pumice.core.plugins.usage.estimates import Estimator, EstimatorArguments, Loads
from pumice.core.session.feasibility.figures import NodeFigures
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import ClassRule
from pumice.core.session.session import Session

TOO_MUCH_CPU = "the CPU load of the node exceeds the upper limit."
TOO_MUCH_MEMORY = "the memory load of the node exceeds the upper limit."
_FULL = 100.0
_PERCENT = Limit(at_least=0, at_most=100, otherwise="Volcano would use 80 instead")
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use the default instead")


class ThresholdArguments(Arguments):
    """The highest load of a node that takes pods."""

    cpu = integer("cpu", 80, "percent of cpu", _PERCENT)
    memory = integer("mem", 80, "percent of memory", _PERCENT)


class UsageArguments(Arguments):
    """Weights, thresholds and estimates."""

    weight = integer("usage.weight", 5, "weight of the score", _NOT_NEGATIVE)
    cpu_weight = integer("cpu.weight", 1, "weight of the cpu load", _NOT_NEGATIVE)
    memory_weight = integer("memory.weight", 1, "weight of the memory load", _NOT_NEGATIVE)
    thresholds = mapping("thresholds", ThresholdArguments, "nodes above one of these take no pods")
    estimator = mapping(
        "estimator", EstimatorArguments, "load of pods that are too new to be measured"
    )


class UsagePlugin:
    """Refuses nodes above a load, and prefers nodes with a low one."""

    name: ClassVar[str] = "usage"
    arguments: ClassVar[type[Arguments]] = UsageArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = UsageArguments(options.arguments)
        self._weight = arguments.weight
        self._weights = (float(arguments.cpu_weight), float(arguments.memory_weight))
        self._limits = (float(arguments.thresholds.cpu), float(arguments.thresholds.memory))
        self._estimator = Estimator(arguments.estimator)
        self._loads: Loads | None = None
        # By row, once they were asked for.
        self._scores: Scores | None = None

    def open(self, session: Session) -> None:
        self._session = session
        self._figures = NodeFigures(session)
        given = {key: text for key, text in session.configuration.metrics if text}
        self._interval_ns = Metrics(given).interval
        hooks = session.hooks
        hooks.class_predicate[self.name] = ClassRule(self._refusals, self._figures.version)
        hooks.task_score[self.name] = self._score
        hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def next_wake(self, now_ns: int) -> int | None:
        """When the first figure becomes too old to be used."""
        return self._figures.first_expiry_ns()

    def _refusals(self, _: TaskClass, __: Hashable) -> list[Refusal]:
        fresh = self._figures.fresh
        too_much_cpu = fresh & (self._figures.cpu > self._limits[0])
        too_much_memory = fresh & (self._figures.memory > self._limits[1]) & ~too_much_cpu
        return [
            Refusal(TOO_MUCH_CPU, too_much_cpu, unresolvable=True),
            Refusal(TOO_MUCH_MEMORY, too_much_memory, unresolvable=True),
        ]

    def _score(self, _: Task, rows: Rows) -> Scores | None:
        """The same for every task; a placement changes the score of one node."""
        if not sum(self._weights):
            return None
        changed = self._loaded().take_changed()
        if self._scores is None:
            self._scores = self._scores_of(np.arange(len(self._session.table), dtype=np.intp))
        elif changed:
            some = np.array(changed, dtype=np.intp)
            self._scores[some] = self._scores_of(some)
        return self._scores[rows]

    def _scores_of(self, rows: Rows) -> Scores:
        total = sum(self._weights)
        cpu, memory = self._loaded().composite(rows)
        free = (1.0 - cpu) * self._weights[0] + (1.0 - memory) * self._weights[1]
        scores = free / total * _FULL * self._weight
        # Nodes without figures get the worst score, as in Volcano.
        return np.where(self._figures.fresh[rows], scores, 0.0)

    # Estimates of pods that are too new to be measured.

    def _loaded(self, without: str = "") -> Loads:
        if self._loads is None:
            self._loads = Loads(self._session, self._figures, self._estimator, self._weights)
            self._loads.add_new_pods(self.name, self._interval_ns, without)
        return self._loads

    def _allocated(self, task: Task) -> None:
        self._loaded(without=task.uid).add(task)

    def _deallocated(self, task: Task) -> None:
        self._loaded(without=task.uid).remove(task)

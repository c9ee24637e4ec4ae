"""usage: filters and scores nodes by their measured load."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.model.durations import parse_duration_ns
from pumice.core.model.fit import Refusal
from pumice.core.plugins.usage.estimates import Estimator, Loads
from pumice.core.session.feasibility.figures import NodeFigures
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import ClassRule
from pumice.core.session.session import Session

TOO_MUCH_CPU = "the CPU load of the node exceeds the upper limit."
TOO_MUCH_MEMORY = "the memory load of the node exceeds the upper limit."
_WEIGHT, _CPU_WEIGHT, _MEMORY_WEIGHT = "usage.weight", "cpu.weight", "memory.weight"
_THRESHOLDS, _ESTIMATOR = "thresholds", "estimator"
_DEFAULT_INTERVAL_NS = 30 * 10**9
_DEFAULT_THRESHOLD = 80
_FULL = 100.0
_PART = Limit(at_least=0, at_most=1, otherwise="Volcano would use the default instead")
_PERCENT = Limit(at_least=0, at_most=100, otherwise="Volcano would use 80 instead")
_DEFAULT_WEIGHTS = {_WEIGHT: 5, _CPU_WEIGHT: 1, _MEMORY_WEIGHT: 1}


class UsagePlugin:
    """Refuses nodes above a load, and prefers nodes with a low one."""

    name: ClassVar[str] = "usage"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            **dict.fromkeys(_DEFAULT_WEIGHTS, ArgumentType.INT),
            _THRESHOLDS: ArgumentType.MAP,
            _ESTIMATOR: ArgumentType.MAP,
        },
        limits=dict.fromkeys(
            _DEFAULT_WEIGHTS, Limit(at_least=0, otherwise="Volcano would use the default instead")
        ),
        defaults=_DEFAULT_WEIGHTS,
        members={
            _THRESHOLDS: ArgumentSchema(
                {"cpu": ArgumentType.INT, "mem": ArgumentType.INT},
                limits={"cpu": _PERCENT, "mem": _PERCENT},
                defaults={"cpu": _DEFAULT_THRESHOLD, "mem": _DEFAULT_THRESHOLD},
            ),
            _ESTIMATOR: ArgumentSchema(
                {
                    **dict.fromkeys(
                        ("request_ratio", "burst_ratio", "risk_threshold", "risk_factor"),
                        ArgumentType.FLOAT,
                    ),
                    "be_cpu": ArgumentType.QUANTITY,
                    "be_mem": ArgumentType.QUANTITY,
                },
                limits={
                    **dict.fromkeys(("request_ratio", "burst_ratio", "risk_threshold"), _PART),
                    "risk_factor": Limit(at_least=1, otherwise="Volcano would use 1.2 instead"),
                },
                defaults={
                    "request_ratio": 0.7,
                    "burst_ratio": 0.0,
                    "risk_threshold": 0.6,
                    "risk_factor": 1.2,
                    "be_cpu": "250m",
                    "be_mem": "200Mi",
                },
            ),
        },
    )

    def __init__(self, options: PluginOptions) -> None:
        weights = {k: options.arguments.integer(k, v) for k, v in _DEFAULT_WEIGHTS.items()}
        self._weight = weights[_WEIGHT]
        self._weights = (float(weights[_CPU_WEIGHT]), float(weights[_MEMORY_WEIGHT]))
        limits = _mapping(options.arguments.get(_THRESHOLDS))
        self._limits = tuple(float(limits.get(k, _DEFAULT_THRESHOLD)) for k in ("cpu", "mem"))
        self._estimator = Estimator.of(_mapping(options.arguments.get(_ESTIMATOR)))
        self._loads: Loads | None = None
        # By row, once they were asked for.
        self._scores: Scores | None = None

    def open(self, session: Session) -> None:
        self._session = session
        self._figures = NodeFigures(session)
        interval = dict(session.configuration.metrics).get("interval", "")
        interval_ns = parse_duration_ns(interval)
        self._interval_ns = interval_ns if interval_ns and interval_ns > 0 else _DEFAULT_INTERVAL_NS
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


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

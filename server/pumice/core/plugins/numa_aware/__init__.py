"""numa-aware: refuses nodes whose kubelet could not align the cpus of a pod.

It prefers nodes where the cpus of the pod are on fewer NUMA nodes. When a pod is placed, the plugin
plans the cpus that the kubelet would assign, so that they are not free for later pods.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, PluginOptions, integer
from pumice.core.model.fit import Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.numa_aware.alignment import SINGLE, write_cpus
from pumice.core.plugins.numa_aware.states import CPUS, CpuStates, Question, reader
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import EventHandler, Scores
from pumice.core.session.policies import PlainRule, StateRule
from pumice.core.session.session import Session

_GETS_CPUS = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
_CORE = 1000
_MAX_NODE_SCORE = 100


class NumaAwareArguments(Arguments):
    """The weight of the score."""

    weight = integer("weight", 1, "weight of the score")


class NumaAwarePlugin:
    """Plans the cpus of Guaranteed pods like the kubelet, and refuses nodes where there is no plan."""

    name: ClassVar[str] = "numa-aware"
    arguments: ClassVar[type[Arguments]] = NumaAwareArguments

    def __init__(self, options: PluginOptions) -> None:
        self._weight = NumaAwareArguments(options.arguments).weight
        # By class.
        self._questions = Memo(_question_of)

    def open(self, session: Session) -> None:
        self._session = session
        states = session.node_states(self.name, reader(session.cache.numa_topologies.get))
        self._cpus = CpuStates(states, session.table)
        hooks = session.hooks
        hooks.row_predicate[self.name] = StateRule(
            self._refusals, self._concerns, self._cpus.numbers_of, self._steps
        )
        hooks.task_batch_score[self.name] = self._scores
        hooks.is_plain[self.name] = PlainRule(
            lambda class_: not self._is_scored(class_), lambda _task: True
        )
        hooks.handlers.append(EventHandler(self._allocated, _undone, self._allocated_many))

    # Requests.

    def _concerns(self, class_: TaskClass) -> bool:
        return self._questions[class_] is not None

    def _is_scored(self, class_: TaskClass) -> bool:
        """Whether the number of NUMA nodes of a pod's cpus can differ between nodes."""
        question = self._questions[class_]
        if question is None or question.policy in ("", "none"):
            return False
        # One container with the policy single-numa-node has its cpus on one NUMA node of any node.
        pinned = sum(1 for count in question.counts if count)
        return pinned > 1 or (pinned == 1 and question.policy != SINGLE)

    # Predicates and scores.

    def _refusals(self, class_: TaskClass, _facet: object, rows: NodeRows) -> list[Refusal]:
        question = self._questions[class_]
        assert question is not None
        numbers = self._cpus.numbers_ahead(rows.index, rows.ahead, question)
        found: dict[str, NDArray[np.bool_]] = {}
        for number in np.unique(numbers).tolist():
            reason = self._cpus.answers[number, question].reason
            if reason:
                rows_refused = numbers == number
                found[reason] = found[reason] | rows_refused if reason in found else rows_refused
        return [Refusal(reason, mask, unresolvable=True) for reason, mask in found.items()]

    def _steps(self, class_: TaskClass, number: int, count: int) -> tuple[float, ...]:
        question = self._questions[class_]
        assert question is not None
        return (0.0,) * self._cpus.most(number, question, count)

    def _scores(self, task: Task, rows: NDArray[np.intp]) -> Scores | None:
        """Higher scores for fewer NUMA nodes, relative to the candidate with the most NUMA nodes."""
        question = self._questions[task.class_]
        if question is None or not self._is_scored(task.class_):
            return None
        counts = self._cpus.numa_counts(rows, question)
        most = int(counts.max()) if len(counts) else 0
        scores = _MAX_NODE_SCORE - _MAX_NODE_SCORE * counts // max(most, 1)
        return (scores * self._weight).astype(np.float64)

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        row = self._session.table.row_of(task.node_name)
        question = self._questions[task.class_]
        if row is None or question is None or task.status not in _GETS_CPUS:
            return None
        # The node has the task already, but the task has no cpus yet.
        number = self._cpus.number(row)
        cpus = self._cpus.answers[number, question].cpus
        if cpus:
            self._session.annotate(task, {CPUS: write_cpus(cpus)})
            self._cpus.place(row, number, cpus)
        return None

    def _allocated_many(self, tasks: list[Task]) -> None:
        if self._concerns(tasks[0].class_):
            for task in tasks:
                self._allocated(task)


def _undone(_task: Task) -> None:
    """Nothing to do: the annotation with the cpus is undone with the placement."""


def _question_of(class_: TaskClass) -> Question | None:
    """The question of a class; None: its pods are not Guaranteed and get no exclusive cpus."""
    spec = class_.spec
    if not spec.guaranteed:
        return None
    containers = [c for c in spec.containers if not c.init]
    counts = (0 if c.milli_cpu % _CORE else c.milli_cpu // _CORE for c in containers)
    return Question(spec.numa_policy, tuple(counts), tuple(c.name for c in containers))

"""Strong forms of policies.

A plugin registers a function at a hook, or one of these. Each of these can be called like the
function of its hook, so that a policy is implemented once: the session uses the strong form where it
saves work, and calls the policy like a function elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.rows import NodeRows

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class SortKey(Generic[T]):
    """An order (``job_order``, ``queue_order`` …) as a key: the smaller key comes first.

    The key of a queue or job may change only when its own tasks move; the key of a task never
    changes. Items are sorted once if every plugin gives a key; otherwise they are compared again for
    every operation.
    """

    key: Callable[[T], Any]

    def __call__(self, left: T, right: T) -> int:
        one, other = self.key(left), self.key(right)
        return int(one > other) - int(one < other)


@dataclass(frozen=True, slots=True)
class AllocatableCount:
    """``allocatable`` as a count: how many of a number of tasks like this one the queue may take."""

    count: Callable[[Queue, Task, int], int]

    def __call__(self, queue: Queue, task: Task) -> bool:
        return self.count(queue, task, 1) > 0


@dataclass(frozen=True, slots=True)
class MissingTasks(Generic[T]):
    """``job_ready`` or ``sub_job_ready`` as the least number of further tasks that it needs.

    The job is ready if the number is 0 or less.
    """

    missing: Callable[[T], int]

    def __call__(self, subject: T) -> bool:
        return self.missing(subject) <= 0


@dataclass(frozen=True, slots=True)
class MissingVote(Generic[T]):
    """``job_pipelined`` or ``sub_job_pipelined`` as the least number of further tasks that it needs.

    The tasks may be placed or pipelined. The vote is a rejection if the number is above 0.
    """

    missing: Callable[[T], int]

    def __call__(self, subject: T) -> int:
        return 1 if self.missing(subject) <= 0 else -1


# Sub-jobs, each with the request of the tasks that are placed before it.
Parts = Sequence[tuple[SubJob, Resources]]


@dataclass(frozen=True, slots=True)
class DomainScore:
    """``hyper_node_order`` as a score of each HyperNode alone, and a bonus among equals.

    ``score`` returns the scores of several HyperNodes for a sub-job; the score of one does not depend
    on the others. If several of the given HyperNodes have the best score, ``bonus`` is added to each
    of them. The sum is multiplied by ``factor``. The search tries HyperNodes in the order of their
    scores, and stops at the first that can take the job.
    """

    score: Callable[[SubJob, Sequence[str]], NDArray[np.float64]]
    bonus: Callable[[SubJob, str], float]
    factor: float
    # The scores for several sub-jobs, by sub-job and HyperNode, if other tasks were placed there
    # before; None: scores are only known after a placement.
    later: Callable[[Parts, Sequence[str]], NDArray[np.float64]] | None = None

    def alone(self, sub_job: SubJob, names: Sequence[str]) -> NDArray[np.float64]:
        return self.factor * self.score(sub_job, names)

    def __call__(self, sub_job: SubJob, rows: Mapping[str, object]) -> dict[str, float]:
        names = list(rows)
        scores = dict(zip(names, self.score(sub_job, names).tolist(), strict=True))
        best = max(scores.values(), default=0.0)
        shared = [name for name in names if scores[name] == best]
        if len(shared) > 1:
            for name in shared:
                scores[name] += self.bonus(sub_job, name)
        return {name: self.factor * score for name, score in scores.items()}


@dataclass(frozen=True, slots=True)
class VictimRule:
    """``preemptable`` or ``reclaimable`` with a bound that is known without looking at a node.

    A task of a job can be a victim for a preemptor (or reclaimer) of another job only if
    ``mark(job) > limit(preemptor)``. The search skips nodes where too few tasks can be victims; a
    plugin without a rule is called for every node. A plugin with a rule never abstains. Its result
    depends only on the job, spec, task priority, preemptability and zone of the preemptor, and for a
    job that holds nothing only on the job's queue and priority.
    """

    victims: Callable[[Task, list[Task]], tuple[list[Task], int]]
    # Called again when a task of the job was moved. ``by_queue``: the mark is the same for all jobs
    # of a queue, and computed again when any task of the queue was moved.
    mark: Callable[[Job], float] = lambda _job: 1
    limit: Callable[[Task], float] = lambda _preemptor: 0
    by_queue: bool = False
    # The first candidate of every job within the bound is always among the victims.
    keeps_first: bool = False
    # At most ``mark(job) - limit(preemptor)`` tasks of a job are among the victims.
    counts: bool = False

    def __call__(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        return self.victims(preemptor, candidates)


# What can be registered at these hooks.
Order = Callable[[T, T], int] | SortKey[T]
Readiness = Callable[[T], bool] | MissingTasks[T]
PipelineVote = Callable[[T], int] | MissingVote[T]
DomainOrder = Callable[[SubJob, dict[str, NDArray[np.intp]]], dict[str, float]] | DomainScore


@dataclass(frozen=True, slots=True)
class ClassRule(Generic[R_co]):
    """``class_predicate`` or ``class_score`` with a version.

    The result covers all nodes. It stays valid over sessions as long as ``version`` and ``version_of``
    return equal values at the beginning of a session, and no node is added or removed; the result of
    a plain function stays valid until any node object changes. ``facet`` returns what the result
    depends on beside the class, for example the queue of the task's job: tasks of a class whose
    facets differ have separate views.
    """

    answer: Callable[[TaskClass, Hashable], R_co]
    # By default, the result does not change.
    version: Callable[[], Hashable] = lambda: None
    facet: Callable[[Task], Hashable] | None = None
    version_of: Callable[[TaskClass], Hashable] | None = None

    def __call__(self, class_: TaskClass) -> R_co:
        return self.answer(class_, None)


@dataclass(frozen=True, slots=True)
class StateRule(Generic[R_co]):
    """``row_predicate`` or ``row_score`` that also depends on a state that a plugin keeps.

    Rows with equal amounts and an equal state have equal results for a class. ``rows.ahead`` is the
    number of further tasks of the class that count as placed on each row. A class that the rule does
    not concern is handled as if there were no rule. ``facet`` is as in ``ClassRule``; if it is None,
    the kernel can compute the rows.
    """

    # The class, the facet and the rows.
    answer: Callable[[TaskClass, Hashable, NodeRows], R_co]
    concerns: Callable[[TaskClass], bool]
    # The states of rows as numbers, from 0.
    numbers: Callable[[NDArray[np.intp]], NDArray[np.intp]]
    # The scores of a class in a state with 0, 1, 2 … further tasks, as many as fit and up to a
    # number. At ``row_predicate`` only the number of scores is used.
    steps: Callable[[TaskClass, int, int], tuple[float, ...]]
    facet: Callable[[Task], Hashable] | None = None

    def __call__(self, class_: TaskClass, rows: NodeRows) -> R_co:
        return self.answer(class_, None, rows)


def concerns(rule: object, class_: TaskClass) -> bool:
    """Whether a rule at a row point applies to a class."""
    return not isinstance(rule, StateRule) or rule.concerns(class_)


class RowTerm(Protocol[R_co]):
    """The computation of a row hook for one class, as a value that contains its numbers."""

    def evaluate(self, rows: NodeRows) -> R_co: ...


@dataclass(frozen=True, slots=True)
class RowTerms(Generic[R_co]):
    """A row hook as a term of each class.

    The term evaluates itself with NumPy. The kernel evaluates the terms that it supports
    (``KERNEL_TERMS``) from the same numbers, with the same results. At ``row_score`` a term may also
    depend on a ``facet`` of the task, as in ``ClassRule``: then ``of_facet`` returns the term.
    """

    term: Callable[[TaskClass], RowTerm[R_co]]
    facet: Callable[[Task], Hashable] | None = None
    of_facet: Callable[[TaskClass, Hashable], RowTerm[R_co]] | None = None

    def term_of(self, class_: TaskClass, facet: Hashable) -> RowTerm[R_co]:
        """The term of those tasks of a class that have this facet."""
        return self.term(class_) if self.of_facet is None else self.of_facet(class_, facet)

    def __call__(self, class_: TaskClass, rows: NodeRows) -> R_co:
        return self.term(class_).evaluate(rows)


@dataclass(frozen=True, slots=True)
class PlainRule:
    """``is_plain`` for whole classes.

    The result of ``of_class`` is valid for the whole session. True: the plugin's task hooks have no
    effect on any task of the class, and each passes its pre-predicate. False: they have an effect on
    each. None: ``of_task`` is called for every task. ``prepare`` does the same as ``of_task`` and the
    pre-predicate for tasks of one class in their order, up to the first that fails, and returns the
    number of tasks before that one.
    """

    of_class: Callable[[TaskClass], bool | None]
    of_task: Callable[[Task], bool]
    prepare: Callable[[Sequence[Task]], int] | None = None

    def __call__(self, task: Task) -> bool:
        answer = self.of_class(task.class_)
        return self.of_task(task) if answer is None else answer


@dataclass(frozen=True, slots=True)
class CandidateTerms:
    """``task_batch_score`` as terms: tasks with the same term objects have the same scores.

    Tasks of one class and job with equal labels and one controller must get the same terms. Several
    of them are placed at once if the kernel supports all their terms. A plugin with terms needs no
    ``is_plain``: a task without terms is plain.
    """

    terms: Callable[[Task], tuple[CandidateTerm, ...]]
    # Whether no task of a class has terms; None: that depends on the task.
    of_class: Callable[[TaskClass], bool | None]

    def of_task(self, task: Task) -> bool:
        return not self.terms(task)

    def __call__(self, task: Task, rows: NDArray[np.intp]) -> Floats | None:
        total: Floats | None = None
        for term in self.terms(task):
            scores = term.evaluate(rows)
            if scores is not None:
                total = scores if total is None else total + scores
        return total

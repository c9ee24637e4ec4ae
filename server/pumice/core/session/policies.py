"""Strong forms of policies.

A hook takes a function, or one of these. Each of these can be called like the function of its hook,
so that a policy is stated once: the session uses the strong form where it saves work, and calls the
policy like any other function elsewhere.
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

    The key of a queue or job may change only when its own tasks move, that of a task never. Items
    are sorted once where every plugin gives a key, and compared again and again where one does not.
    """

    key: Callable[[T], Any]

    def __call__(self, left: T, right: T) -> int:
        mine, other = self.key(left), self.key(right)
        return int(mine > other) - int(mine < other)


@dataclass(frozen=True, slots=True)
class AllocatableCount:
    """``allocatable`` as a count: how many of so many tasks like this one the queue may take."""

    count: Callable[[Queue, Task, int], int]

    def __call__(self, queue: Queue, task: Task) -> bool:
        return self.count(queue, task, 1) > 0


@dataclass(frozen=True, slots=True)
class MissingTasks(Generic[T]):
    """``job_ready`` or ``sub_job_ready`` as a number: 0 or less where the job is ready.

    Above 0, at least so many more tasks have to be placed before it can be ready.
    """

    missing: Callable[[T], int]

    def __call__(self, subject: T) -> bool:
        return self.missing(subject) <= 0


@dataclass(frozen=True, slots=True)
class MissingVote(Generic[T]):
    """``job_pipelined`` or ``sub_job_pipelined`` as a number: a rejection where it is above 0.

    Above 0, at least so many more tasks have to be placed or pipelined.
    """

    missing: Callable[[T], int]

    def __call__(self, subject: T) -> int:
        return 1 if self.missing(subject) <= 0 else -1


# Sub-jobs, each with what is placed before it.
Parts = Sequence[tuple[SubJob, Resources]]


@dataclass(frozen=True, slots=True)
class DomainScore:
    """``hyper_node_order`` as a score that each HyperNode has alone, and a bonus among equals.

    ``score`` gives the score of each of several HyperNodes for a sub-job, whatever the others. Where
    several of the given HyperNodes share the best score, each of those gets its ``bonus`` on top.
    The sum times ``factor`` counts. The search tries HyperNodes in the order of their scores, and
    stops at the first that takes a job.
    """

    score: Callable[[SubJob, Sequence[str]], NDArray[np.float64]]
    bonus: Callable[[SubJob, str], float]
    factor: float
    # The scores for several sub-jobs, by sub-job and HyperNode, if so much more were placed in each
    # before; None: they are known after a placement only.
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

    A task of a job can be among the victims for a preemptor (or reclaimer) of another job only
    where ``mark(job) > limit(preemptor)``. The search skips nodes where that rules out too much; a
    plugin with a function is called for every node. A plugin with a rule never abstains. It depends
    on nothing of the preemptor but its job, spec, task priority, preemptability and zone, and on
    nothing of a job that holds nothing but its queue and priority.
    """

    victims: Callable[[Task, list[Task]], tuple[list[Task], int]]
    # Asked again when a task of the job was moved. ``by_queue``: it is the same for all jobs of a
    # queue, and asked again when any task of the queue was moved.
    mark: Callable[[Job], float] = lambda _job: 1
    limit: Callable[[Task], float] = lambda _preemptor: 0
    by_queue: bool = False
    # The first candidate of every job within the bound is always among the victims.
    keeps_first: bool = False
    # Of one job, no more than ``mark(job) - limit(preemptor)`` are ever among them.
    counts: bool = False

    def __call__(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        return self.victims(preemptor, candidates)


# What the hooks of these points take.
Order = Callable[[T, T], int] | SortKey[T]
Readiness = Callable[[T], bool] | MissingTasks[T]
PipelineVote = Callable[[T], int] | MissingVote[T]
DomainOrder = Callable[[SubJob, dict[str, NDArray[np.intp]]], dict[str, float]] | DomainScore


@dataclass(frozen=True, slots=True)
class ClassRule(Generic[R_co]):
    """``class_predicate`` or ``class_score`` with a validity of its own.

    The answer covers all nodes. It is kept, over sessions too, as long as ``version`` and
    ``version_of``, which is asked for the class, return equal values at the beginning of a session
    and no node comes or goes; that of a plain function is kept until any node object changes.
    ``facet`` says what the answer depends on beside the class, for example the queue of the task's
    job: tasks of a class whose facets differ have views of their own.
    """

    answer: Callable[[TaskClass, Hashable], R_co]
    # By default, the answer does not change.
    version: Callable[[], Hashable] = lambda: None
    facet: Callable[[Task], Hashable] | None = None
    version_of: Callable[[TaskClass], Hashable] | None = None

    def __call__(self, class_: TaskClass) -> R_co:
        return self.answer(class_, None)


@dataclass(frozen=True, slots=True)
class StateRule(Generic[R_co]):
    """``row_predicate`` or ``row_score`` that also depends on a state that a plugin keeps.

    Rows with equal amounts and an equal state have equal results for a class. ``rows.ahead`` says
    how many more tasks of the class count as placed on each row. A class that the rule does not
    concern is handled as if there were no rule. ``facet`` is as in ``ClassRule``; where it is None,
    the kernel computes the rows.
    """

    # The class, the facet and the rows.
    answer: Callable[[TaskClass, Hashable, NodeRows], R_co]
    concerns: Callable[[TaskClass], bool]
    # The states of rows as numbers, from 0.
    numbers: Callable[[NDArray[np.intp]], NDArray[np.intp]]
    # The scores of a class with no, one, two … more tasks in a state, as far as the state takes
    # them and up to a number. At ``row_predicate`` only their number counts.
    steps: Callable[[TaskClass, int, int], tuple[float, ...]]
    facet: Callable[[Task], Hashable] | None = None

    def __call__(self, class_: TaskClass, rows: NodeRows) -> R_co:
        return self.answer(class_, None, rows)


def concerns(rule: object, class_: TaskClass) -> bool:
    """Whether a rule at a row point applies to a class."""
    return not isinstance(rule, StateRule) or rule.concerns(class_)


class RowTerm(Protocol[R_co]):
    """What a row hook computes for one class, as a value with numbers in it."""

    def evaluate(self, rows: NodeRows) -> R_co: ...


@dataclass(frozen=True, slots=True)
class RowTerms(Generic[R_co]):
    """A row hook as a term of each class.

    NumPy evaluates the term itself, and the kernel runs those that it knows (``KERNEL_TERMS``) from
    the same numbers, so that both compute the same. At ``row_score`` a term may also depend on a
    ``facet`` of the task, as in ``ClassRule``: then ``of_facet`` gives the term.
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

    ``of_class`` is valid for the whole session. True: the plugin's task hooks have no effect on any
    task of the class, and each passes its pre-predicate. False: they have an effect on each. None:
    ``of_task`` is called for every task. ``prepare`` does what ``of_task`` and the pre-predicate do,
    for tasks of one class in their order, up to the first that fails. It returns how many tasks come
    before that one.
    """

    of_class: Callable[[TaskClass], bool | None]
    of_task: Callable[[Task], bool]
    prepare: Callable[[Sequence[Task]], int] | None = None

    def __call__(self, task: Task) -> bool:
        answer = self.of_class(task.class_)
        return self.of_task(task) if answer is None else answer


@dataclass(frozen=True, slots=True)
class CandidateTerms:
    """``task_batch_score`` as terms: tasks that get the same term objects are scored alike.

    Tasks of one class and job with equal labels and one controller get the same. Several of them
    are placed at once where the kernel supports all terms of the task. A plugin with terms needs no
    ``is_plain``: a task without terms is plain.
    """

    terms: Callable[[Task], tuple[CandidateTerm, ...]]
    # Whether all tasks of a class have no terms; None: that depends on the task.
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

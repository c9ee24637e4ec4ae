"""Which tasks are plain: their feasible nodes and scores depend only on their class and the rows.

A task is *filtered by class* if no task predicate concerns it, and *scored by class* if no task score
does. A plain task is both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.memo import Memo
from pumice.core.model.pod import Pod, PodSpec
from pumice.core.session.feasibility.candidate_terms import MOST_TERMS, CandidateTerm
from pumice.core.session.policies import CandidateTerms, PlainRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session

CLAIMS_NOT_ALLOCATED = "pod has resource claims, which this scheduler does not allocate"
_Test = Callable[[Task], bool]
_Rule = PlainRule | CandidateTerms | _Test
_SCORES = ("task_score", "task_batch_score")
_NO_TERMS: tuple[CandidateTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class _ClassTests:
    """The tests for the tasks of one class in this session.

    A field is None if every task of the class fails.
    """

    # Each test returns the number of first tasks that are filtered by class.
    filters: list[Callable[[Sequence[Task]], int]] | None
    # Whether tasks that pass these tests also pass the pre-predicates.
    covers_pre_predicates: bool
    # The tests that a task passes if it is scored by class.
    scores: list[_Test] | None
    # Whether all tasks are filtered by class and pass the pre-predicates, and whether all are plain.
    is_filtered: bool
    is_plain: bool
    # The rules with terms, and the tests that a task that is filtered by class passes if it has no
    # other scores.
    term_rules: list[CandidateTerms]
    terms: list[_Test] | None


class PlainTasks:
    """Tests tasks in one session; plugins are called once for each class."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._classes = Memo(self._find_tests)

    def is_class_plain(self, class_: TaskClass) -> bool:
        """Whether all tasks of the class are plain and pass the pre-predicates."""
        return self._classes[class_].is_plain

    def is_class_filtered(self, class_: TaskClass) -> bool:
        """Whether all tasks of the class are filtered by class and pass the pre-predicates."""
        return self._classes[class_].is_filtered

    def is_filtered_by_class(self, task: Task) -> bool:
        """Whether the task is filtered by class and passes the pre-predicates."""
        if self._classes[task.class_].is_filtered:
            return True
        return not task.pod.nominated_node_name and len(self.filtered_first([task])) == 1

    def filtered_first(self, tasks: list[Task]) -> list[Task]:
        """The first tasks, all of one class, that are filtered by it and pass the pre-predicates."""
        tests = self._classes[tasks[0].class_]
        if tests.is_filtered:
            return tasks
        if tests.filters is None:
            return []
        for count_first in tests.filters:
            tasks = tasks[: count_first(tasks)]
        if tests.covers_pre_predicates:
            return tasks
        why_not = self._session.feasibility.why_not_anywhere
        return [*takewhile(lambda task: why_not(task) is None, tasks)]

    def is_scored_by_class(self, task: Task) -> bool:
        """Whether no score depends on the task or on the other candidates."""
        tests = self._classes[task.class_].scores
        return tests is not None and all(test(task) for test in tests)

    def counts_undone(self, tasks: Iterable[Task]) -> bool:
        """Whether placements of these tasks still affect scores after they were undone.

        This is so if a plugin handles placements and not removals.
        """
        handlers = self._session.hooks.handlers
        if all(handler.deallocated is not None for handler in handlers):
            return False
        return not all(self.is_scored_by_class(task) for task in tasks)

    def terms_of(self, task: Task) -> tuple[CandidateTerm, ...] | None:
        """The terms that are added to the class scores of a task that is filtered by class.

        None: it has other scores, or terms that the kernel does not support.
        """
        tests = self._classes[task.class_]
        if tests.scores == []:
            return _NO_TERMS
        if tests.terms is None:
            return None
        for test in tests.terms:
            if not test(task):
                return None
        terms = _NO_TERMS
        for rule in tests.term_rules:
            terms += rule.terms(task)
        if terms and (len(terms) > MOST_TERMS or any(t.kernel_parts is None for t in terms)):
            return None
        return terms

    def terms_of_all(self, tasks: list[Task]) -> tuple[CandidateTerm, ...] | None:
        """The same for several tasks of one class and job; None also if the class does not filter one."""
        first = tasks[0]
        if self._classes[first.class_].is_plain:
            return _NO_TERMS
        if len(self.filtered_first(tasks)) < len(tasks):
            return None
        for task in tasks:
            if task is not first and not are_scored_alike(task.pod, first.pod):
                return None
        return self.terms_of(first)

    def why_not_bindable(self, spec: PodSpec) -> str | None:
        """Why no plugin can prepare the bind of such a pod; None: nothing is missing."""
        if self._session.allocates_claims:
            return None
        claims = spec.resource_claims or self._session.cache.devices.extended.of(spec.requests)
        return CLAIMS_NOT_ALLOCATED if claims else None

    def _find_tests(self, class_: TaskClass) -> _ClassTests:
        chains = self._session.chains
        term_rules = {
            name: rule
            for name, rule in chains.named("task_batch_score")
            if isinstance(rule, CandidateTerms)
        }
        rules: dict[str, _Rule] = {**term_rules, **self._session.hooks.is_plain}
        # By plugin: whether all tasks of the class are plain; None: each task is tested.
        plain: dict[str, bool | None] = {
            name: rule.of_class(class_) if isinstance(rule, PlainRule | CandidateTerms) else None
            for name, rule in rules.items()
        }
        filters = self._undecided(plain, ("node_predicate",), ("task_predicate",))
        by_node = ("node_score", "best_node")
        scores = self._undecided(plain, by_node, _SCORES)
        others = self._undecided(plain, by_node, _SCORES, without=term_rules)
        tests = {
            name: _task_test(rules[name]) for name, is_plain in plain.items() if is_plain is None
        }
        prepares = {
            name: rule.prepare
            for name, rule in rules.items()
            if name in (filters or ()) and isinstance(rule, PlainRule) and rule.prepare is not None
        }
        names = [name for name, _ in chains.named("pre_predicate")]
        is_bindable = self.why_not_bindable(class_.spec) is None
        is_filtered = filters == [] and is_bindable and all(plain.get(name) for name in names)
        return _ClassTests(
            None
            if filters is None
            else [prepares.get(name, partial(_count_first, tests[name])) for name in filters],
            is_bindable and all(plain.get(name) or name in prepares for name in names),
            None if scores is None else [tests[name] for name in scores],
            is_filtered,
            is_filtered and scores == [],
            [*term_rules.values()],
            None
            if others is None
            else [tests[name] for name in others if name not in (filters or ())],
        )

    def _undecided(
        self,
        plain: dict[str, bool | None],
        by_node: tuple[str, ...],
        points: tuple[str, ...],
        without: Collection[str] = (),
    ) -> list[str] | None:
        """The plugins at these points that test each task; None: a plugin concerns all tasks."""
        chains = self._session.chains
        if any(chains.flat(point) for point in by_node):
            return None
        found = (name for point in points for name, _ in chains.named(point))
        names = dict.fromkeys(name for name in found if name not in without)
        if any(name not in plain or plain[name] is False for name in names):
            return None
        return [name for name in names if plain[name] is None]


def are_scored_alike(pod: Pod, other: Pod) -> bool:
    """Whether pods of one class and job are known to have the same terms."""
    same_labels = pod.labels is other.labels or pod.labels == other.labels
    return same_labels and pod.controller_name == other.controller_name


def _task_test(rule: _Rule) -> _Test:
    return rule.of_task if isinstance(rule, PlainRule | CandidateTerms) else rule


def _count_first(test: _Test, tasks: Sequence[Task]) -> int:
    return sum(1 for _ in takewhile(test, tasks))

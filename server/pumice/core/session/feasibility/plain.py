"""Which tasks are plain, so that their class and the rows of nodes alone decide where they go.

A task is *filtered by class* where no task predicate concerns it, and *scored by class* where no
task score does; a plain task is both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
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
_Tests = tuple[Callable[[Task], bool], ...]
_SCORES = ("task_score", "task_batch_score")
_NO_TERMS: tuple[CandidateTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class _OfClass:
    """What has to be asked about the tasks of one class in this session."""

    # What every task must pass to be filtered by class; None: no task of the class is.
    filter_tests: _Tests | None
    # The same for scores.
    score_tests: _Tests | None
    # All tasks are filtered by class and pass the pre-predicates; and all of them are also plain.
    is_filtered: bool
    is_plain: bool
    # What a task must pass to be filtered by class, prepared by the pre-predicates where possible;
    # and whether that says that it passes all of them.
    prepared_tests: _Tests
    is_prepared: bool
    # Tests that take several tasks and return how many of the first ones pass; None: a plugin has no
    # such test.
    first_tests: tuple[Callable[[Sequence[Task]], int], ...] | None
    # The scores of candidates that are terms, and what a task must pass so that there are no
    # others, also once it is known to be filtered by class; None: there are others.
    term_rules: tuple[CandidateTerms, ...]
    term_tests: _Tests | None
    filtered_term_tests: _Tests | None

    def terms(self, task: Task, tests: _Tests | None) -> tuple[CandidateTerm, ...] | None:
        """The terms of a task that passes the tests; None: it has other scores, or other terms."""
        if tests is None:
            return None
        for test in tests:
            if not test(task):
                return None
        terms = _NO_TERMS
        for rule in self.term_rules:
            terms += rule.terms(task)
        if terms and (len(terms) > MOST_TERMS or any(t.kernel_parts is None for t in terms)):
            return None
        return terms


class PlainTasks:
    """Answers for one session; a class is asked about once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._classes = Memo(self._ask)

    def is_class_plain(self, class_: TaskClass) -> bool:
        """Whether all tasks of the class are plain and pass the pre-predicates."""
        return self._classes[class_].is_plain

    def is_class_filtered(self, class_: TaskClass) -> bool:
        """Whether all tasks of the class are filtered by class and pass the pre-predicates."""
        return self._classes[class_].is_filtered

    def is_plain(self, task: Task) -> bool:
        if task.pod.nominated_node_name:
            return False
        known = self._classes[task.class_]
        if known.filter_tests is None or known.score_tests is None:
            return False
        return all(test(task) for test in (*known.filter_tests, *known.score_tests))

    def is_filtered_by_class(self, task: Task) -> bool:
        """Whether its class's view says where the task can go, and the pre-predicates pass."""
        known = self._classes[task.class_]
        if known.is_filtered:
            return True
        if task.pod.nominated_node_name or known.filter_tests is None:
            return False
        for test in known.prepared_tests:
            if not test(task):
                return False
        return known.is_prepared or self._session.feasibility.why_not_anywhere(task) is None

    def is_scored_by_class(self, task: Task) -> bool:
        """Whether no score depends on the task or on the other candidates."""
        tests = self._classes[task.class_].score_tests
        return tests is not None and all(test(task) for test in tests)

    def filtered_first(self, tasks: list[Task]) -> list[Task]:
        """The first tasks, all of one class, that are filtered by it."""
        known = self._classes[tasks[0].class_]
        if known.is_filtered:
            return tasks
        if known.filter_tests is None:
            return []
        if known.first_tests is None or not known.is_prepared:
            return [*takewhile(self.is_filtered_by_class, tasks)]
        for test in known.first_tests:
            tasks = tasks[: test(tasks)]
        return tasks

    def terms_of(self, task: Task) -> tuple[CandidateTerm, ...] | None:
        """What is added to the scores of the class: terms that the kernel knows; None: others."""
        known = self._classes[task.class_]
        return _NO_TERMS if known.score_tests == () else known.terms(task, known.term_tests)

    def terms_of_all(self, tasks: list[Task]) -> tuple[CandidateTerm, ...] | None:
        """The same for several tasks of one class and job; None also if the class does not filter one."""
        first = tasks[0]
        known = self._classes[first.class_]
        if known.is_plain:
            return _NO_TERMS
        if len(self.filtered_first(tasks)) < len(tasks):
            return None
        for task in tasks:
            if task is not first and not are_scored_alike(task.pod, first.pod):
                return None
        is_scored = known.score_tests == ()
        return _NO_TERMS if is_scored else known.terms(first, known.filtered_term_tests)

    def why_not_bindable(self, spec: PodSpec) -> str | None:
        """What a bind of such a pod needs and no plugin provides; None: nothing."""
        if self._session.allocates_claims:
            return None
        claims = spec.resource_claims or self._session.cache.devices.extended.of(spec.requests)
        return CLAIMS_NOT_ALLOCATED if claims else None

    def _ask(self, class_: TaskClass) -> _OfClass:
        chains, rules = self._session.chains, self._session.hooks.is_plain
        answers: dict[str, bool | None] = {
            name: rule.of_class(class_) if isinstance(rule, PlainRule) else None
            for name, rule in rules.items()
        }
        filters = self._tests(answers, ("task_predicate",))
        scores = self._tests(answers, _SCORES)
        names = [name for name, _ in chains.named("pre_predicate")]
        bindable = self.why_not_bindable(class_.spec) is None
        prepared = {
            name: rule.prepare
            for name, rule in rules.items()
            if isinstance(rule, PlainRule) and rule.prepare is not None and answers[name] is None
        }
        by_node = bool(chains.flat("node_score") or chains.flat("best_node"))
        term_rules = {
            name: rule
            for name, rule in chains.named("task_batch_score")
            if isinstance(rule, CandidateTerms)
        }
        first_tests = [
            rule.prepare_first if isinstance(rule := rules[name], PlainRule) else None
            for name in filters or ()
        ]
        others = self._tests(answers, _SCORES, without=term_rules)
        term_tests = {name: prepared.get(name, test) for name, test in (others or {}).items()}
        has_others = by_node or others is None
        filter_tests = None if chains.flat("node_predicate") else _plainly(filters)
        score_tests = None if by_node else _plainly(scores)
        is_filtered = filter_tests == () and bindable and all(answers.get(name) for name in names)
        return _OfClass(
            filter_tests,
            score_tests,
            is_filtered,
            is_filtered and score_tests == (),
            tuple(prepared.get(name, test) for name, test in (filters or {}).items()),
            bindable and all(answers.get(name) or name in prepared for name in names),
            None if None in first_tests else tuple(test for test in first_tests if test),
            tuple(term_rules.values()),
            None if has_others else tuple(term_tests.values()),
            None
            if has_others
            else tuple(test for name, test in term_tests.items() if name not in (filters or {})),
        )

    def _tests(
        self,
        answers: dict[str, bool | None],
        points: tuple[str, ...],
        without: Collection[str] = (),
    ) -> dict[str, Callable[[Task], bool]] | None:
        """By plugin of the points, what to ask about each task; None: one concerns all tasks."""
        chains, rules = self._session.chains, self._session.hooks.is_plain
        found = (name for point in points for name, _ in chains.named(point))
        names = dict.fromkeys(name for name in found if name not in without)
        if any(name not in answers or answers[name] is False for name in names):
            return None
        asked = {name: rules[name] for name in names if answers[name] is None}
        return {
            name: rule.of_task if isinstance(rule, PlainRule) else rule
            for name, rule in asked.items()
        }


def are_scored_alike(pod: Pod, other: Pod) -> bool:
    """Whether pods of one class and job are known to have the same terms."""
    same_labels = pod.labels is other.labels or pod.labels == other.labels
    return same_labels and pod.controller_name == other.controller_name


def _plainly(tests: dict[str, Callable[[Task], bool]] | None) -> _Tests | None:
    return None if tests is None else tuple(tests.values())

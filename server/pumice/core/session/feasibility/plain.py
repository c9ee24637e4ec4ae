"""Which tasks are plain: nothing but their class and the rows of nodes decides where they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.session.feasibility.filters import why_not_bindable
from pumice.core.session.policies import PlainRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session


@dataclass(frozen=True, slots=True)
class _OfClass:
    """What has to be asked about the tasks of one class in this session."""

    # What every task must pass to be plain; None: no task of the class is plain.
    tests: tuple[Callable[[Task], bool], ...] | None
    # All tasks pass the pre-predicates.
    passes: bool


class PlainTasks:
    """Answers for one session; a class is asked about once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._classes: dict[int, _OfClass] = {}
        self._plain: dict[int, bool] = {}

    def is_class_plain(self, class_: TaskClass) -> bool:
        """Whether all tasks of the class are plain and pass the pre-predicates."""
        plain = self._plain.get(class_.number)
        if plain is None:
            known = self._of(class_)
            plain = self._plain[class_.number] = known.passes and known.tests == ()
        return plain

    def is_plain(self, task: Task) -> bool:
        if task.pod.nominated_node_name:
            return False
        tests = self._of(task.class_).tests
        return tests is not None and all(test(task) for test in tests)

    def goes_by_class(self, task: Task) -> bool:
        """Whether the task is plain and passes the pre-predicates: its class's view says it all."""
        if self.is_class_plain(task.class_):
            return True
        return self.is_plain(task) and self._session.feasibility.why_not_anywhere(task) is None

    def _of(self, class_: TaskClass) -> _OfClass:
        known = self._classes.get(class_.number)
        if known is None:
            known = self._classes[class_.number] = self._ask(class_)
        return known

    def _ask(self, class_: TaskClass) -> _OfClass:
        chains, rules = self._session.chains, self._session.hooks.is_plain
        if any(chains.flat(point) for point in ("node_predicate", "node_score", "best_node")):
            return _OfClass(None, passes=False)
        answers: dict[str, bool | None] = {
            name: rule.of_class(class_) if isinstance(rule, PlainRule) else None
            for name, rule in rules.items()
        }
        passes = why_not_bindable(class_.spec) is None and all(
            answers.get(name) for name, _ in chains.named("pre_predicate")
        )
        points = ("task_predicate", "task_score", "task_batch_score")
        names = dict.fromkeys(name for point in points for name, _ in chains.named(point))
        if any(name not in answers or answers[name] is False for name in names):
            return _OfClass(None, passes)
        asked = [rules[name] for name in names if answers[name] is None]
        tests = [rule.of_task if isinstance(rule, PlainRule) else rule for rule in asked]
        return _OfClass(tuple(tests), passes)

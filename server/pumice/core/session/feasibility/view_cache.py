"""The class views that are kept over sessions, and the views that the tasks of a session have."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.memo import Memo
from pumice.core.session.feasibility.terms import is_about
from pumice.core.session.feasibility.views import ClassView, Facets
from pumice.core.session.policies import ClassRule, RowTerms, StateRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# The number of a class, with the facets where there are any.
ViewKey = int | tuple[int, Facets]
# The approximate size of a view per node, and the most that all views together may take.
_BYTES_PER_NODE = 40
_MOST_BYTES = 256 * 2**20
_FEWEST_VIEWS = 16
# Point and plugin, and the function that gives the facet of a task there.
_FacetRule = tuple[tuple[str, str], Callable[[Task], Hashable]]
_NO_RULES: list[_FacetRule] = []
_FACET_POINTS = ("class_predicate", "class_score", "row_predicate", "row_score", "row_batch_score")


class ClassViews:
    """The views of the classes in use; when they need too much memory, the oldest ones go."""

    def __init__(self) -> None:
        # The session that used a view last, and the view; in the order of use.
        self._views: dict[ViewKey, tuple[int, ClassView]] = {}
        # Views with arrays of their own.
        self._with_arrays: set[ViewKey] = set()

    def __len__(self) -> int:
        return len(self._views)

    def view(self, class_: TaskClass, facets: Facets, session: Session) -> ClassView:
        """The view of a class, up to date."""
        number: ViewKey = (class_.number, facets) if facets else class_.number
        known, age = self._views.get(number), session.number
        if known is not None and known[0] == age:
            # In one session, no resource comes or goes: only the rows may have changed.
            known[1].sync()
            return known[1]
        table, chains, work = session.table, session.chains, session.work
        if known is None:
            view = ClassView(class_, facets, table, chains, work)
        else:
            del self._views[number]
            view = known[1]
            view.reuse(chains, work)
        self._views[number] = (age, view)
        view.sync()
        if view.fits_nowhere:
            self._with_arrays.discard(number)
        elif number not in self._with_arrays:
            self._with_arrays.add(number)
            self._trim(max(_FEWEST_VIEWS, _MOST_BYTES // (_BYTES_PER_NODE * len(table) + 1)))
        return view

    def _trim(self, most: int) -> None:
        if len(self._with_arrays) > most:
            oldest = [number for number in self._views if number in self._with_arrays]
            for key in oldest[: len(oldest) - most]:
                self._drop(key)

    def forget(self, number: int) -> None:
        """The class with that number is gone."""
        self._drop(number)
        for key in [k for k in self._views if isinstance(k, tuple) and k[0] == number]:
            self._drop(key)

    def _drop(self, key: ViewKey) -> None:
        self._views.pop(key, None)
        self._with_arrays.discard(key)

    def clear(self) -> None:
        self._views.clear()
        self._with_arrays.clear()

    def release(self, age: int) -> None:
        """The session has ended: its plugins may be freed."""
        for used, view in reversed(self._views.values()):
            if used != age:
                break
            view.release()


class SessionViews:
    """Finds the view of a task: one for each class, and for each facet where rules have facets."""

    def __init__(self, session: Session, kept: ClassViews) -> None:
        self._session = session
        self._kept = kept
        self._rules = Memo(self._find_rules)

    def of(self, task: Task) -> ClassView:
        """The view of the task's class, up to date."""
        facets = self.facets(task) if self.has_facets else ()
        return self._kept.view(task.class_, facets, self._session)

    def facets(self, task: Task) -> Facets:
        """What rules depend on beside the task's class; empty where none has a facet."""
        rules = self.facet_rules(task.class_)
        return tuple([(where, facet(task)) for where, facet in rules]) if rules else ()

    @cached_property
    def has_facets(self) -> bool:
        """Whether any rule has a facet; plugins have registered their rules when this is asked."""
        return any(
            getattr(rule, "facet", None) is not None
            for point in _FACET_POINTS
            for _, rule in self._session.chains.named(point)
        )

    def facet_rules(self, class_: TaskClass) -> list[_FacetRule]:
        """The facets of rules about a class, by point and plugin."""
        return self._rules[class_] if self.has_facets else _NO_RULES

    def _find_rules(self, class_: TaskClass) -> list[_FacetRule]:
        return [
            ((point, name), rule.facet)
            for point in _FACET_POINTS
            for name, rule in self._session.chains.named(point)
            if isinstance(rule, ClassRule | RowTerms | StateRule) and rule.facet is not None
            if is_about(rule, class_)
        ]

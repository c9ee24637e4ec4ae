"""The class views that are kept over sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.tasks import TaskClass
from pumice.core.session.feasibility.class_answers import Facets
from pumice.core.session.feasibility.views import ClassView

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# The number of a class, with the facets where there are any.
ViewKey = int | tuple[int, Facets]
# The approximate size of a view per node, and the most that all views together may take.
_BYTES_PER_NODE = 40
_MOST_BYTES = 256 * 2**20
_FEWEST_VIEWS = 16


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

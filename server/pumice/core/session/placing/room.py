"""How many tasks of a class fit in each of several domains at most."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session

_Positions = tuple[NDArray[np.intp], NDArray[np.intp]]
_NO_POSITIONS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class DomainRoom:
    """Bounds from resources and from predicates that depend on class and node alone."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By domains: the rows of all of them one after the other, and where those of each begin.
        self._positions: dict[tuple[str, ...], _Positions] = {}

    def counted(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], domains: Sequence[str]
    ) -> tuple[list[int], int] | None:
        """By domain how many tasks of a sub-job fit at most, and how many must.

        None: that is not known, since the tasks are of several classes.
        """
        class_ = tasks[0].class_
        if any(task.class_ is not class_ for task in tasks):
            return None
        view = self._session.view(tasks[0])
        slots = _slots(view, self._session.table.future, len(tasks))
        need = self._session.votes.least_to_place(job, sub_job)
        return self._sums(slots, domains), need

    def _sums(self, slots: NDArray[np.int64], domains: Sequence[str]) -> list[int]:
        key = tuple(domains)
        known = self._positions.get(key)
        if known is None:
            rows_of = self._session.topology.tree.rows_of
            rows = [np.flatnonzero(rows_of(domain)) for domain in key]
            starts = np.cumsum([0, *(len(result) for result in rows)])
            positions = np.concatenate(rows) if rows else _NO_POSITIONS
            known = self._positions[key] = (positions, starts)
        positions, starts = known
        sums = np.concatenate(([0], np.cumsum(slots[positions])))
        result: list[int] = (sums[starts[1:]] - sums[starts[:-1]]).tolist()
        return result


def _slots(view: ClassView, future: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """How many tasks of the class fit on each row one after the other, and at most so many."""
    slots = np.where(view.open & view.fits_future, float(most), 0.0)
    for column, need in view.needs:
        if need > 0:
            slots = np.minimum(slots, np.floor(future[column] / need))
    return np.maximum(slots, 0.0).astype(np.int64)

"""The domains that are tried for a job, and their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.placing.pending_tasks import PendingTasks

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


_Positions = tuple[NDArray[np.intp], NDArray[np.intp]]
_ALL = 2**31
_NO_POSITIONS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class DomainCapacity:
    """Upper bounds of the number of tasks of a class that fit in each of several domains.

    The bounds are computed from resources, and from predicates that only depend on class and node.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        # By domains: the rows of all of them one after the other, and the start of each domain.
        self._positions: dict[tuple[str, ...], _Positions] = {}

    def counted(
        self, job: Job, sub_job: SubJob, tasks: deque[Task], domains: Sequence[str]
    ) -> tuple[list[int], int] | None:
        """The maximum number of tasks of a sub-job by domain, and the number that must fit.

        None: the tasks are of several classes, so that these are not known.
        """
        class_ = tasks[0].class_
        if any(task.class_ is not class_ for task in tasks):
            return None
        view = self._session.view(tasks[0])
        # Domains by label are compared by their whole capacity.
        most = _ALL if job.topology_key else len(tasks)
        slots = _slots(view, self._session.table.future, most, view.fits_future)
        need = self._session.votes.least_of(sub_job if job.has_policies else job)
        return self._sums(slots, domains), need

    def of_class(self, tasks: Sequence[Task], domains: Sequence[str], *, now: bool) -> list[int]:
        """The number of tasks of one class that fit by domain, now or with future resources."""
        view, table = self._session.view(tasks[0]), self._session.table
        free, fits = (table.idle, view.fits_idle) if now else (table.future, view.fits_future)
        return self._sums(_slots(view, free, len(tasks), fits), domains)

    def are_disjoint(self, domains: Sequence[str]) -> bool:
        """Whether no node is in two of the domains."""
        positions, _ = self._positions_of(tuple(domains))
        return len(np.unique(positions)) == len(positions)

    def _sums(self, slots: NDArray[np.int64], domains: Sequence[str]) -> list[int]:
        positions, starts = self._positions_of(tuple(domains))
        sums = np.concatenate(([0], np.cumsum(slots[positions])))
        result: list[int] = (sums[starts[1:]] - sums[starts[:-1]]).tolist()
        return result

    def _positions_of(self, domains: tuple[str, ...]) -> _Positions:
        known = self._positions.get(domains)
        if known is None:
            rows = [self._session.topology.positions_of(domain) for domain in domains]
            starts = np.cumsum([0, *(len(result) for result in rows)])
            positions = np.concatenate(rows) if rows else _NO_POSITIONS
            known = self._positions[domains] = (positions, starts)
        return known


def _slots(view: ClassView, free: NDArray[np.float64], most: int, fits: Mask) -> NDArray[np.int64]:
    """The number of tasks of the class that fit on each row, up to a maximum."""
    slots = np.where(view.open & fits, float(most), 0.0)
    for column, need in view.needs:
        if need > 0:
            slots = np.minimum(slots, np.floor(free[column] / need))
    return np.maximum(slots, 0.0).astype(np.int64)


class CandidateDomains:
    """Removes domains with too little room, and ranks domains whose scores are known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._capacity = DomainCapacity(session)
        self._lowest: dict[tuple[str, ...], bool] = {}
        self._apart: dict[tuple[str, ...], bool] = {}
        # For the last job that was not placed: the domain with room for most of its tasks, the number
        # of these tasks, and the number that had to be placed; None: not known.
        self.nearest: tuple[str, int, int] | None = None

    def possible(
        self,
        job: Job,
        sub_job: SubJob,
        tasks: deque[Task],
        domains: Sequence[str],
        *,
        is_last: bool,
    ) -> Sequence[str]:
        """The domains without those that certainly have too little room.

        In the last tier, one of those is tried nevertheless, so that there are reasons.
        """
        if is_last and len(domains) == 1 and job.has_policies:
            return domains
        counted = self._capacity.counted(job, sub_job, tasks, domains)
        if counted is None:
            return domains
        rooms, need = counted
        most = max(rooms, default=0)
        if most < need and rooms:
            nearest = domains[rooms.index(most)]
            if not job.has_policies and (self.nearest is None or most >= self.nearest[1]):
                self.nearest = (nearest, most, need)
            return [nearest] if is_last else []
        found = [(room, name) for name, room in zip(domains, rooms, strict=True) if room >= need]
        # Of domains by label, the one with the least sufficient room is the first.
        return [name for _, name in (sorted(found) if job.topology_key else found)]

    def possible_for_all(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str], *, is_last: bool
    ) -> Sequence[str]:
        """The same for a job of several sub-jobs; in the last tier, the last domain is tried."""
        tasks = [task for part in pending_tasks.tasks.values() for task in part]
        class_ = tasks[0].class_
        if len(domains) == 1 or any(task.class_ is not class_ for task in tasks):
            return domains
        least = self._session.votes.least_of(job)
        rooms = zip(domains, self._capacity.of_class(tasks, domains, now=False), strict=True)
        possible = [name for name, room in rooms if room >= least]
        return possible or (domains[-1:] if is_last else [])

    # Scores that are known before a placement.

    def ranked(self, job: Job, domains: Sequence[str]) -> list[str] | None:
        """The domains, the best first; None: their scores are only known after a trial.

        A job of one sub-job has the score of that sub-job, which a domain without child domains has
        independently of a trial.
        """
        if job.has_policies or not self._are_lowest(tuple(domains)):
            return None
        groups = self._session.topology.ranked(job.default_sub_job(), domains)
        return None if groups is None else [name for group in groups for name in group]

    def _are_lowest(self, domains: tuple[str, ...]) -> bool:
        """Whether no domain has child domains."""
        known = self._lowest.get(domains)
        if known is None:
            tree = self._session.topology.tree
            known = self._lowest[domains] = not any(tree.children_of(name) for name in domains)
        return known

    def _are_apart(self, domains: tuple[str, ...]) -> bool:
        """Whether no domain has child domains, and no node is in two of the domains."""
        known = self._apart.get(domains)
        if known is None:
            known = self._are_lowest(domains) and self._capacity.are_disjoint(domains)
            self._apart[domains] = known
        return known

    def alike(
        self, job: Job, pending_tasks: PendingTasks, domains: Sequence[str]
    ) -> tuple[list[str], list[str]] | None:
        """The domains in which the same sub-jobs would be placed, one after the other; and the others.

        The former have no child domains, and room for all tasks now. None: that is not known.
        """
        session = self._session
        occupied = session.topology.occupied_by(job)
        if occupied.job or any(occupied.parts.values()) or not self._are_apart(tuple(domains)):
            return None
        tasks = [task for part in pending_tasks.tasks.values() for task in part]
        class_ = tasks[0].class_
        if any(task.class_ is not class_ or task.pod.nominated_node_name for task in tasks):
            return None
        if len(session.plain.filtered_first(tasks)) < len(tasks):
            return None
        room = dict(zip(domains, self._capacity.of_class(tasks, domains, now=True), strict=True))
        alike = [name for name in domains if room[name] >= len(tasks)]
        return alike, [name for name in domains if room[name] < len(tasks)]

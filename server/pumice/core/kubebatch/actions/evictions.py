"""Evictions in kube-batch's mode: the victims on a node alone must free enough, whatever is idle there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.fit import allowed_nodes
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.kubebatch.tolerance import is_at_most
from pumice.core.model.fit import Mask
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.evicting.bounds import sums_of
from pumice.core.session.evicting.candidates import EvictionReasons
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.hooks import Rows
from pumice.core.session.placing.statement import Statement


class Evictions:
    """Makes room for tasks in one run of an action."""

    def __init__(
        self,
        session: KubeBatchSession,
        author: str,
        choose: Callable[[Task, list[Task]], list[Task]],
    ) -> None:
        self._session = session
        self._author = author
        # Chooses victims for a task among candidates, in the order of eviction.
        self._choose = choose
        self._reasons = EvictionReasons(session, author)

    def make_room(
        self, job: Job, task: Task, may_evict: Callable[[Job, Job], bool], *, by_score: bool = False
    ) -> Statement | None:
        """Evicts running tasks of other jobs from one node, and pipelines the task there.

        Nodes are tried by name, or the best first. None: nothing was changed.
        """
        session = self._session
        view, wanted = session.view(task), partial(may_evict, job)
        allowed = allowed_nodes(session, task, view)
        rows = allowed & self._rows_with_enough(view, wanted)
        ordered = self._by_score(task, view, allowed, rows) if by_score else np.flatnonzero(rows)
        for row in ordered.tolist():
            session.count("nodes_tried_for_victims")
            candidates = self._candidates_on(row, wanted)
            victims = _enough_of(self._choose(task, candidates), task.request)
            statement = self._replace(victims, task, row) if victims else None
            if statement is not None:
                return statement
        self._reasons.add(job, task.name)
        return None

    def _rows_with_enough(self, view: ClassView, wanted: Callable[[Job], bool]) -> Mask:
        """Rows where the running tasks of wanted jobs hold enough for the task."""
        session, evictable = self._session, self._session.cache.evictable
        evictable.sync()
        chosen = [job is not None and wanted(job) for job in session.victim_jobs().jobs]
        jobs = np.array(chosen, dtype=np.bool_)
        sums = sums_of(session.table, evictable, jobs, running_only=True, best_effort_only=False)
        return (sums.count > 0) & view.fits(sums.held)

    def _by_score(self, task: Task, view: ClassView, allowed: Mask, wanted: Mask) -> Rows:
        """The wanted rows, best first; of equals the last one, as kube-batch sorted them.

        Scores are normalised over all nodes that are allowed.
        """
        if not wanted.any():
            return np.flatnonzero(wanted)
        rows = np.flatnonzero(allowed)
        scores = self._session.choice.scores(task, view, rows)
        ordered = rows[np.lexsort((-rows, -scores))]
        return ordered[wanted[ordered]]

    def _candidates_on(self, row: int, wanted: Callable[[Job], bool]) -> list[Task]:
        """Running tasks of wanted jobs, also those that are not preemptable."""
        jobs = self._session.jobs
        return [
            task
            for task in self._session.table.rows[row].tasks_in_order()
            if task.status is TaskStatus.RUNNING
            and (job := jobs.get(task.job_id)) is not None
            and wanted(job)
        ]

    def _replace(self, victims: list[Task], task: Task, row: int) -> Statement | None:
        """None where a plugin objects."""
        statement = self._session.statement()
        for victim in victims:
            statement.evict(victim, self._author)
        if statement.pipeline(task, self._session.table.names[row], eviction_occurred=True):
            return statement
        statement.discard()
        return None


def _enough_of(victims: Iterable[Task], request: Resources) -> list[Task]:
    """The first victims that together free enough; none where all of them do not."""
    freed, enough = Resources(), []
    for victim in victims:
        enough.append(victim)
        if is_at_most(request, freed.add(victim.request)):
            return enough
    return []

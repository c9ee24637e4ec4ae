"""Scores candidate nodes and chooses the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.hooks import Rows, Scores

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


class NodeChoice:
    """Scores candidates; among equals the first row is the best, and rows are in the order of names."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def best(self, task: Task, view: ClassView, candidates: Mask) -> int | None:
        """The row of the best candidate; None: there is no candidate."""
        rows = np.flatnonzero(self._session.shard.first(candidates))
        if not len(rows):
            return None
        if len(rows) == 1:
            return int(rows[0])
        totals = self.scores(task, view, rows)
        row = self._best_by_plugin(task, rows, totals)
        return int(rows[int(np.argmax(totals))]) if row is None else row

    def scores(self, task: Task, view: ClassView, rows: Rows) -> Scores:
        """The total scores of the candidates; as in Volcano, node order and batch order are summed apart."""
        order = self._add_scores("task_score", view.order[rows], task, rows)
        for function in self._session.chains.flat("node_score"):
            names = self._session.table.names
            order = order + np.array([function(task, names[row]) for row in rows])
        batch = self._add_scores("task_batch_score", view.batch[rows], task, rows)
        self._session.count("candidates_scored", len(rows))
        return order + batch

    def _add_scores(self, point: str, scores: Scores, task: Task, rows: Rows) -> Scores:
        """The sum of the scores and those of all plugins at a point."""
        for function in self._session.chains.flat(point):
            extra: Scores | None = function(task, rows)
            if extra is not None:
                scores = scores + extra
        return scores

    def _best_by_plugin(self, task: Task, rows: Rows, totals: Scores) -> int | None:
        functions = self._session.chains.flat("best_node")
        if not functions:
            return None
        names = self._session.table.names
        scores = {names[row]: float(total) for row, total in zip(rows, totals, strict=True)}
        for function in functions:
            name = function(task, scores)
            if name is not None:
                return self._session.table.row_of(name)
        return None

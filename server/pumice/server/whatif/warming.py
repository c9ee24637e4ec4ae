"""Computes, once before trials are forked, what all trials of an unchanged cluster need."""

from __future__ import annotations

from contextlib import suppress

from pumice.core.engine import Engine
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session

# Maximum number of nodes times classes; more would delay other requests.
_CELLS = 20_000


class Warming:
    """Fills the engine's caches for the task classes of pending pods."""

    def __init__(self) -> None:
        self._version = -1

    def prepare(self, engine: Engine, now_ns: int) -> None:
        """Changes no decision, because a trial computes missing values itself."""
        version = engine.cache.version
        if version == self._version or not len(engine.cache.table):
            return
        self._version = version
        # A plugin that fails here also fails in the trial, which reports it.
        with suppress(Exception):
            engine.inspect(_view_classes, now_ns)


def _view_classes(session: Session) -> None:
    left = _CELLS // len(session.table)
    seen: set[int] = set()
    for job in session.jobs.values():
        if len(seen) >= left:
            return
        for task in job.index.in_order(TaskStatus.PENDING)[:1]:
            if task.class_.number not in seen:
                seen.add(task.class_.number)
                session.feasibility.allows(task, session.view(task))

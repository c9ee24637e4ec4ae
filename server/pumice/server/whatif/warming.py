"""Work that all trials of an unchanged cluster share, done once before they fork."""

from __future__ import annotations

from contextlib import suppress

from pumice.core.engine import Engine
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session

# Beyond so many nodes times classes the work would delay other questions.
_CELLS = 20_000


class Warming:
    """Computes what sessions remember about classes of waiting pods."""

    def __init__(self) -> None:
        self._version = -1

    def prepare(self, engine: Engine, now_ns: int) -> None:
        """Changes no decision: a trial computes the same where this was not done."""
        version = engine.cache.version
        if version == self._version or not len(engine.cache.table):
            return
        self._version = version
        # A plugin that fails here fails in the trial, too, which tells the caller.
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

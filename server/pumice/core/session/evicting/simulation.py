"""Simulates evictions on one node without changing the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import Queue
from pumice.core.session.hooks import Simulation

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.session import Session


class SimulatedNode:
    """A node and the plugins' copies, as they would be with some tasks gone.

    Plugins fill their copies when predicates are prepared, so one whose enablePredicate is off
    has nothing to simulate with: taking tasks away fails, and its queue takes nothing.
    """

    def __init__(self, session: Session, task: Task, view: ClassView, row: int) -> None:
        self._table = session.table
        self._task = task
        self._needs = view.needs
        self._future = session.table.future[:, row].copy()
        self._plugins: list[tuple[PluginOptions, Simulation | None]] = []
        for tier in session.tiers:
            for options in tier:
                make = session.hooks.simulation.get(options.name)
                if make is not None:
                    filled = options.enabled("enablePredicate")
                    self._plugins.append((options, make(task, row) if filled else None))

    def remove(self, victim: Task) -> str | None:
        return self._change(victim, -1)

    def add(self, victim: Task) -> str | None:
        return self._change(victim, 1)

    def _change(self, victim: Task, sign: int) -> str | None:
        for options, copy in self._plugins:
            if options.enabled("enablePreemptable") or options.enabled("enabledAllocatable"):
                if copy is None:
                    return f"plugin {options.name} has nothing to simulate with"
                problem = copy.add(victim) if sign > 0 else copy.remove(victim)
                if problem is not None:
                    return problem
        self._future -= sign * self._table.vector(victim.class_)
        return None

    def fits(self, queue: Queue) -> bool:
        """Whether the task would go here now: its queue, the room and the predicates allow it."""
        return (
            self._is_allocatable(queue)
            and all(self._future[column] >= need for column, need in self._needs)
            and self.why_not() is None
        )

    def _is_allocatable(self, queue: Queue) -> bool:
        return all(
            copy is not None and copy.is_allocatable(queue, self._task)
            for options, copy in self._plugins
            if options.enabled("enabledAllocatable")
        )

    def why_not(self) -> str | None:
        for _, copy in self._plugins:
            problem = None if copy is None else copy.why_not(self._task)
            if problem is not None:
                return problem
        return None

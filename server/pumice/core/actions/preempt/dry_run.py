"""Topology-aware preemption: finds the fewest victims on several nodes, then chooses a node."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import Queue
from pumice.core.session.evicting import Preemptor, frees_enough
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.hooks import Simulation
from pumice.core.session.session import Session

# Added to every priority, so that all are positive and a sum of fewer victims is smaller.
_PRIORITY_OFFSET = 2**31


class DryRuns:
    """Dry runs of preemption for one task, node by node."""

    def __init__(self, session: Session, preemptor: Preemptor) -> None:
        self._session = session
        self._queue = session.queue_of(preemptor.job)
        self._task = preemptor.task
        self._view = preemptor.view
        # By row: the victims that would be evicted there.
        self._victims: dict[int, list[Task]] = {}

    def __len__(self) -> int:
        """The number of nodes where a dry run succeeded."""
        return len(self._victims)

    def try_node(self, row: int, candidates: list[Task]) -> None:
        session, task = self._session, self._task
        victims = session.votes.preemptable(task, candidates)
        if not frees_enough(session, self._view, row, victims):
            return
        node = SimulatedNode(session, task, self._view, row)
        removed = self._remove(node, victims)
        # As in Volcano, the queue is not checked here.
        if not removed or node.why_not() is not None:
            return
        remaining = self._reprieve(node, removed)
        if remaining:
            self._victims[row] = remaining

    def _remove(self, node: SimulatedNode, victims: list[Task]) -> list[Task]:
        """Removes victims in the order of eviction until the task fits; empty: a plugin failed."""
        waiting = self._session.orders.victims(victims, self._task)
        removed = []
        while waiting:
            victim = waiting.pop()
            if node.remove(victim) is not None:
                return []
            removed.append(victim)
            if node.fits(self._queue):
                break
        return removed

    def _reprieve(self, node: SimulatedNode, removed: list[Task]) -> list[Task]:
        """Adds victims back while the task still fits, the last first; returns the remaining victims."""
        remaining = []
        for victim in reversed(removed):
            if node.add(victim) is not None:
                return []
            if not node.fits(self._queue):
                if node.remove(victim) is not None:
                    return []
                remaining.append(victim)
        return remaining

    def best(self) -> tuple[int, list[Task]] | None:
        """The best row and its victims; None: no dry run succeeded.

        Rows are compared by first priority, sum of priorities, count, start time and row.
        """
        return min(self._victims.items(), key=self._cost, default=None)

    def _cost(self, choice: tuple[int, list[Task]]) -> tuple[int, ...]:
        row, victims = choice
        priorities = [victim.pod.priority for victim in victims]
        highest, now_ns = max(priorities), self._session.now_ns
        started = min(v.pod.start_time_ns or now_ns for v in victims if v.pod.priority == highest)
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return (priorities[0], total, len(priorities), -started, row)


class SimulatedNode:
    """A node and the simulations of plugins, without some tasks.

    As in Volcano, a plugin whose enablePredicate is off has no simulation: the removal of tasks fails,
    and no queue takes the task.
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
                    is_simulated = options.enabled("enablePredicate")
                    self._plugins.append((options, make(task, row) if is_simulated else None))

    def remove(self, victim: Task) -> str | None:
        return self._change(victim, -1)

    def add(self, victim: Task) -> str | None:
        return self._change(victim, 1)

    def _change(self, victim: Task, sign: int) -> str | None:
        for options, simulation in self._plugins:
            if options.enabled("enablePreemptable") or options.enabled("enabledAllocatable"):
                if simulation is None:
                    return f"plugin {options.name} has no simulation"
                problem = simulation.add(victim) if sign > 0 else simulation.remove(victim)
                if problem is not None:
                    return problem
        self._future -= sign * self._table.vector(victim.class_)
        return None

    def fits(self, queue: Queue) -> bool:
        """Whether the queue, the resources and the predicates allow the task on this node now."""
        return (
            self._is_allocatable(queue)
            and all(self._future[column] >= need for column, need in self._needs)
            and self.why_not() is None
        )

    def _is_allocatable(self, queue: Queue) -> bool:
        return all(
            simulation is not None and simulation.is_allocatable(queue, self._task)
            for options, simulation in self._plugins
            if options.enabled("enabledAllocatable")
        )

    def why_not(self) -> str | None:
        for _, simulation in self._plugins:
            problem = None if simulation is None else simulation.why_not(self._task)
            if problem is not None:
                return problem
        return None

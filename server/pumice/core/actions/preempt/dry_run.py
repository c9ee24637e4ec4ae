"""Topology-aware preemption: finds the fewest victims on several nodes, then picks a node."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import Queue
from pumice.core.session.evicting import Preemptor, frees_enough
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.hooks import Simulation
from pumice.core.session.session import Session

# Added to every priority, so that fewer victims of a negative one still weigh less than more.
_LIFT = 2**31


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
        # Volcano does not ask the queue again after all of them are removed.
        if not removed or node.why_not() is not None:
            return
        gone = self._reprieve(node, removed)
        if gone:
            self._victims[row] = gone

    def _remove(self, node: SimulatedNode, victims: list[Task]) -> list[Task]:
        """Victims in the order of eviction until the task fits; none when a plugin fails."""
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
        """Adds victims back while the task still fits, the last first; returns those that stay evicted."""
        gone = []
        for victim in reversed(removed):
            if node.add(victim) is not None:
                return []
            if not node.fits(self._queue):
                if node.remove(victim) is not None:
                    return []
                gone.append(victim)
        return gone

    def best(self) -> tuple[int, list[Task]] | None:
        """The row where evictions do the least harm, and the victims there.

        The least harm is decided by highest priority, sum of priorities, count, start time and row.
        """
        return min(self._victims.items(), key=self._harm, default=None)

    def _harm(self, choice: tuple[int, list[Task]]) -> tuple[int, ...]:
        row, victims = choice
        priorities = [victim.pod.priority for victim in victims]
        highest, now_ns = max(priorities), self._session.now_ns
        started = min(v.pod.start_time_ns or now_ns for v in victims if v.pod.priority == highest)
        total = sum(priority + _LIFT for priority in priorities)
        return (priorities[0], total, len(priorities), -started, row)


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

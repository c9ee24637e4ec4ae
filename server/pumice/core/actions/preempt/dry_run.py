"""Topology-aware preemption: finds the fewest victims on several nodes, then picks a node."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.session.evicting.candidates import frees_enough
from pumice.core.session.evicting.simulation import SimulatedNode
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.session import Session

# Added to every priority, so that fewer victims of a negative one still weigh less than more.
_LIFT = 2**31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and the victims that would be evicted there."""

    row: int
    victims: tuple[Task, ...]


class DryRuns:
    """Dry runs of preemption for one task, node by node."""

    def __init__(self, session: Session, job: Job, task: Task, view: ClassView) -> None:
        self._session = session
        self._queue = session.queue_of(job)
        self._task = task
        self._view = view
        self._candidates: list[Candidate] = []

    def __len__(self) -> int:
        """The number of nodes where a dry run succeeded."""
        return len(self._candidates)

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
            self._candidates.append(Candidate(row, tuple(gone)))

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

    def best(self) -> Candidate | None:
        """The candidate with the least harm: by highest priority, sum of priorities, count, start time, node."""
        return min(self._candidates, key=self._harm, default=None)

    def _harm(self, candidate: Candidate) -> tuple[int, int, int, int, int]:
        priorities = [victim.pod.priority for victim in candidate.victims]
        highest = max(priorities)
        started = min(
            victim.pod.start_time_ns or self._session.now_ns
            for victim in candidate.victims
            if victim.pod.priority == highest
        )
        return (
            priorities[0],
            sum(priority + _LIFT for priority in priorities),
            len(priorities),
            -started,
            candidate.row,
        )

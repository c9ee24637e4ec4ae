"""Sums over the jobs of each queue, updated job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.integers import add_amount
from pumice.core.model.resources import CPU, MEMORY, Resources

# What jobs without placed tasks hold; read-only.
NOTHING = Resources()
_INQUEUE, _RUNNING = PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING


@dataclass(slots=True, eq=False)
class Contribution:
    """What one job, or all jobs of a queue together, hold and request."""

    # Held by tasks with a node.
    allocated: Resources
    # Held or requested.
    request: Resources
    # Held above the jobs' minima.
    elastic: Resources
    # Promised to admitted jobs and not held yet.
    inqueue: Resources
    # Promised as overcommit counts it: the whole minimum of an Inqueue job, held or not.
    admitted: Resources
    jobs: int = 1

    @classmethod
    def of_queue(cls) -> Contribution:
        """Zero amounts, to add jobs to."""
        return cls(Resources(), Resources(), Resources(), Resources(), Resources(), jobs=0)

    def add(self, other: Contribution, sign: int = 1) -> None:
        self.jobs += sign * other.jobs
        _accumulate(self.request, other.request, sign)
        if other.allocated is not NOTHING:
            _accumulate(self.allocated, other.allocated, sign)
            _accumulate(self.elastic, other.elastic, sign)
        if other.inqueue is not NOTHING:
            _accumulate(self.inqueue, other.inqueue, sign)
            _accumulate(self.admitted, other.admitted, sign)


def _accumulate(total: Resources, part: Resources, sign: int) -> None:
    """Adds or subtracts exactly; a scalar that becomes zero is removed."""
    total.milli_cpu += sign * part.milli_cpu
    total.memory += sign * part.memory
    for name, amount in part.scalars.items():
        add_amount(total.scalars, name, sign * amount)


class QueueTotals:
    """The contributions of all jobs, by queue; only jobs that changed are counted again."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str, Contribution]] = {}
        self._queues: dict[str, Contribution] = {}
        # The number of contributions that were computed so far; tests check what a session costs.
        self.recomputed = 0

    def refresh(self, changed: Iterable[Job]) -> None:
        """Computes the contributions of changed jobs again."""
        for job in changed:
            seen = self._seen.get(job.id)
            if seen is None or seen[0] != job.version or seen[1] != job.queue:
                if seen is not None:
                    self.forget(job.id)
                self._count(job)

    def _count(self, job: Job) -> None:
        part = contribution_of(job)
        self.recomputed += 1
        self._seen[job.id] = (job.version, job.queue, part)
        total = self._queues.get(job.queue)
        if total is None:
            total = self._queues[job.queue] = Contribution.of_queue()
        total.add(part)

    def forget(self, job_id: str) -> None:
        seen = self._seen.pop(job_id, None)
        if seen is None:
            return
        _, queue, part = seen
        total = self._queues[queue]
        total.add(part, -1)
        if total.jobs == 0:
            del self._queues[queue]

    def of(self, queue: str) -> Contribution | None:
        """None for a queue without jobs."""
        return self._queues.get(queue)

    def allocated_of(self, job_id: str) -> Resources:
        """What a job held when the totals were last refreshed; read-only."""
        seen = self._seen.get(job_id)
        return NOTHING if seen is None else seen[2].allocated

    def queues(self) -> list[str]:
        return sorted(self._queues)


def contribution_of(job: Job) -> Contribution:
    index = job.index
    pending = index.pending
    if len(pending) == len(index.tasks):
        # A new job holds nothing, and so nothing above its minimum.
        allocated, elastic = NOTHING, NOTHING
    else:
        held = index.allocated
        scalars = {name: amount for name, amount in held.scalars.items() if amount}
        allocated, elastic = Resources(held.milli_cpu, held.memory, scalars), job.elastic()
    request = _sum_of(pending.values(), allocated) if pending else allocated
    part = Contribution(allocated, request, elastic, inqueue=NOTHING, admitted=NOTHING)
    if job.min_resources is None or job.group is None:
        return part
    if job.phase is _INQUEUE:
        part.inqueue = job.without_gated(reserved_by(job))
        part.admitted = job.without_gated(job.min_resources)
    elif job.phase is _RUNNING and job.index.allocated_count >= job.group.min_member:
        part.inqueue = part.admitted = job.without_gated(reserved_by(job))
    return part


def _sum_of(tasks: Collection[Task], held: Resources) -> Resources:
    """What is held and what the tasks request; read-only."""
    if held is NOTHING and len(tasks) == 1:
        return next(iter(tasks)).request
    total = held.clone()
    for class_, count in Counter([task.class_ for task in tasks]).items():
        total.add_times(class_.request, count)
    return total


def reserved_by(job: Job) -> Resources:
    """The part of the job's minimum that it does not hold yet."""
    minimum, allocated = job.minimum(), job.index.allocated
    reserved = Resources()
    for name, amount in minimum.items():
        missing = amount - allocated.get(name)
        if name == CPU:
            reserved.milli_cpu = max(missing, 0)
        elif name == MEMORY:
            reserved.memory = max(missing, 0)
        elif missing > 0 or name not in allocated.scalars:
            reserved.scalars[name] = missing
    return reserved

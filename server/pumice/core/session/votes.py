"""Asks the plugins at each point and combines their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason
from pumice.core.session.hooks import victims, vote
from pumice.core.session.policies import AllocatableCount, MissingTasks, MissingVote

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class Votes:
    """One method per question; answers are combined as in Volcano.

    Questions about every job are plain loops, which are faster than generators.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._chains = session.chains

    def why_not_valid(self, job: Job) -> Reason | None:
        code = self._session.cache.assumptions.why_cooling(job.id, self._session.now_ns)
        if code is not None:
            return Reason("core", code)
        for function in self._chains.flat("why_not_valid"):
            reason: Reason | None = function(job)
            if reason is not None:
                return reason
        return None

    def _all(self, point: str, *question: Any) -> bool:
        """Whether every plugin of a point says yes."""
        for function in self._chains.flat(point):  # noqa: SIM110
            if not function(*question):
                return False
        return True

    def is_ready(self, job: Job) -> bool:
        for function in self._chains.flat("job_ready"):  # noqa: SIM110
            if not function(job):
                return False
        return True

    def is_pipelined(self, job: Job) -> bool:
        return vote(self._chains.tiers("job_pipelined"), job)

    def is_sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        if not job.has_policies:
            return self.is_ready(job)
        return self._all("sub_job_ready", sub_job)

    def tasks_missing(self, part: Job | SubJob) -> int:
        """The least number of tasks to place before it can be ready: one, if no plugin knows."""
        point = "job_ready" if isinstance(part, Job) else "sub_job_ready"
        return _most_missing(self._chains.flat(point), part)

    def least_to_place(self, job: Job, sub_job: SubJob) -> int:
        """The least number of tasks to place or pipeline before it can be ready or pipelined."""
        return self.least_of(sub_job if job.has_policies else job)

    def least_of(self, part: Job | SubJob) -> int:
        """The same for a whole job, or for a sub-job."""
        point = "job_pipelined" if isinstance(part, Job) else "sub_job_pipelined"
        # A permission ends the vote after its tier: only the first one is sure to be asked.
        first = next((tier for tier in self._chains.tiers(point) if tier), ())
        return min(_most_missing(first, part), self.tasks_missing(part))

    def is_sub_job_pipelined(self, job: Job, sub_job: SubJob) -> bool:
        if not job.has_policies:
            return self.is_pipelined(job)
        return vote(self._chains.tiers("sub_job_pipelined"), sub_job)

    def is_starving(self, job: Job) -> bool:
        """The first tier with an opinion decides: all of it must agree."""
        for tier in self._chains.tiers("job_starving"):
            if tier:
                for function in tier:  # noqa: SIM110
                    if not function(job):
                        return False
                return True
        return False

    def is_enqueueable(self, job: Job) -> bool:
        return vote(self._chains.tiers("job_enqueueable"), job)

    def enqueued(self, job: Job) -> None:
        for function in self._chains.flat("job_enqueued"):
            function(job)

    def is_overused(self, queue: Queue) -> bool:
        for function in self._chains.flat("overused"):  # noqa: SIM110
            if function(queue):
                return True
        return False

    def may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return self._all("preemptive", queue, tasks)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        return self._all("allocatable", queue, task)

    def allocatable_count(self, queue: Queue, task: Task, count: int) -> int:
        """How many tasks like this one are allowed one after the other, as far as can be told.

        No more than one where a plugin can only be asked about one task at a time.
        """
        rules = self._chains.all_of("allocatable", AllocatableCount)
        if rules is None:
            return int(self.is_allocatable(queue, task))
        for rule in rules:
            allowed = rule.count(queue, task, count)
            count = allowed if allowed < count else count
        return count

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("preemptable"), preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("reclaimable"), reclaimer, candidates)

    def unified_evictable(self, action: str, job: Job, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("unified_evictable"), action, job, candidates)

    def victim_tasks(self, tasks: list[Task]) -> list[Task]:
        """The union of what a tier names; the first tier that names anyone decides."""
        for tier in self._chains.tiers("victim_tasks"):
            named: dict[str, Task] = {}
            for function in tier:
                named.update((task.uid, task) for task in function(tasks))
            if named:
                return list(named.values())
        return []


def _most_missing(rules: Iterable[Any], part: Job | SubJob) -> int:
    """The most tasks that a rule says are missing: one at least."""
    most = 1
    for rule in rules:
        if isinstance(rule, MissingTasks | MissingVote) and (missing := rule.missing(part)) > most:
            most = missing
    return most

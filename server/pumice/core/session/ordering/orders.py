"""The orders of queues, jobs, sub-jobs, tasks and victims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.session.ordering.heap import Heap, KeyHeap, LiveHeap
from pumice.core.session.policies import SortKey

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class Orders:
    """Combines the orders of plugins; creation time and name decide between equals."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._chains = session.chains

    def job_first(self, left: Job, right: Job) -> bool:
        broken = self._session.broken
        if broken and (left.id in broken) != (right.id in broken):
            return left.id in broken
        for function in self._chains.flat("job_order"):
            answer = function(left, right)
            if answer:
                return bool(answer < 0)
        if left.creation_time_ns != right.creation_time_ns:
            return left.creation_time_ns < right.creation_time_ns
        return left.id < right.id

    @property
    def has_job_keys(self) -> bool:
        """Whether the order of jobs follows from a key of each."""
        return self._chains.all_of("job_order", SortKey) is not None

    def job_key(self) -> Callable[[Job], tuple[Any, ...]]:
        """The key of a job, where all have one."""
        keys = [order.key for order in self._chains.all_of("job_order", SortKey) or []]
        broken = self._session.broken

        def key(job: Job) -> tuple[Any, ...]:
            own = [function(job) for function in keys]
            return (job.id not in broken, *own, job.creation_time_ns, job.id)

        return key

    def waiting_jobs(self) -> Heap[Job]:
        """A heap of jobs, for an action that moves only tasks of the job that it popped last."""
        return KeyHeap(self.job_key()) if self.has_job_keys else LiveHeap(self.job_first)

    def waiting_queues(self) -> Heap[Queue]:
        """A heap of queues, for an action that moves no task of a queue in the heap."""
        orders = self._chains.all_of("queue_order", SortKey)
        if orders is None:
            return LiveHeap(self.queue_first)
        keys = [order.key for order in orders]
        broken = self._session.broken

        def key(queue: Queue) -> tuple[Any, ...]:
            own = [function(queue) for function in keys]
            whole = not broken or queue.name not in broken.values()
            return (whole, *own, queue.creation_time_ns, queue.name)

        return KeyHeap(key)

    def sub_job_first(self, left: SubJob, right: SubJob) -> bool:
        for function in self._chains.flat("sub_job_order"):
            answer = function(left, right)
            if answer:
                return bool(answer < 0)
        return (left.match_index, left.id) < (right.match_index, right.id)

    def queue_first(self, left: Queue, right: Queue) -> bool:
        if self._session.broken:
            waiting = self._session.broken.values()
            if (left.name in waiting) != (right.name in waiting):
                return left.name in waiting
        for function in self._chains.flat("queue_order"):
            answer = function(left, right)
            if answer:
                return bool(answer < 0)
        return (left.creation_time_ns, left.name) < (right.creation_time_ns, right.name)

    def victim_queue_first(self, left: Queue, right: Queue, preemptor: Queue) -> bool:
        for function in self._chains.flat("victim_queue_order"):
            answer = function(left, right, preemptor)
            if answer:
                return bool(answer < 0)
        return not self.queue_first(left, right)

    def task_first(self, left: Task, right: Task) -> bool:
        for function in self._chains.flat("task_order"):
            answer = function(left, right)
            if answer:
                return bool(answer < 0)
        return self._by_index_and_age(left, right)

    @staticmethod
    def _by_index_and_age(left: Task, right: Task) -> bool:
        mine, other = left.pod_index, right.pod_index
        if mine is not None and other is not None and mine != other:
            return mine < other
        if left.pod.creation_time_ns != right.pod.creation_time_ns:
            return left.pod.creation_time_ns < right.pod.creation_time_ns
        return left.uid < right.uid

    @property
    def has_task_keys(self) -> bool:
        """Whether the order of tasks follows from each of them alone."""
        return self._chains.all_of("task_order", SortKey) is not None

    def tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in task order. It does not shift within a session, so a sort will do."""
        tasks = list(tasks)
        if len(tasks) == 1:
            return tasks
        orders = self._chains.all_of("task_order", SortKey)
        indexed = sum(task.pod_index is not None for task in tasks)
        # Numbers in names count between tasks that both have one: mixed tasks have no key.
        if orders is not None and indexed in (0, len(tasks)):
            keys = [order.key for order in orders]
            return sorted(tasks, key=_task_key(keys, indexed=indexed > 0))

        def compare(left: Task, right: Task) -> int:
            return -1 if self.task_first(left, right) else 1

        return sorted(sorted(tasks, key=lambda t: t.order_key), key=cmp_to_key(compare))

    def victims(self, tasks: Iterable[Task], preemptor: Task) -> LiveHeap[Task]:
        """Victims, the one to evict first on top."""
        jobs, queues = self._session.jobs, self._session.queues
        preemptor_job = jobs.get(preemptor.job_id)

        def first(left: Task, right: Task) -> bool:
            if left.job_id == right.job_id:
                return not self.task_first(left, right)
            left_job, right_job = jobs.get(left.job_id), jobs.get(right.job_id)
            if left_job is None or right_job is None:
                # A task whose job is gone goes first.
                if left_job is None and right_job is None:
                    return not self.task_first(left, right)
                return left_job is None
            if preemptor_job is not None and left_job.queue != right_job.queue:
                return self.victim_queue_first(
                    queues[left_job.queue], queues[right_job.queue], queues[preemptor_job.queue]
                )
            return self._later_job_first(left_job, right_job, left, right)

        return LiveHeap(first, tasks)

    def _later_job_first(self, left_job: Job, right_job: Job, left: Task, right: Task) -> bool:
        for function in self._chains.flat("job_order"):
            answer = function(left_job, right_job)
            if answer:
                return bool(answer > 0)
        return not self.task_first(left, right)


def _task_key(
    keys: list[Callable[[Task], Any]], *, indexed: bool
) -> Callable[[Task], tuple[Any, ...]]:
    def key(task: Task) -> tuple[Any, ...]:
        own = [function(task) for function in keys]
        index = task.pod_index if indexed else 0
        return (*own, index, task.pod.creation_time_ns, task.uid)

    return key

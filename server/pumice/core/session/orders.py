"""The orders of queues, jobs, sub-jobs, tasks and victims, and the priority queues that use them.

Shares change as tasks are placed. So a priority queue whose items have no fixed key compares its items
on every operation. The order of equal and of changing items depends on how the heap moves its items,
which is the same as in Volcano.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from functools import cached_property, cmp_to_key
from heapq import heappop, heappush
from itertools import repeat
from operator import call
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.session.policies import SortKey

if TYPE_CHECKING:
    from pumice.core.session.session import Session

T = TypeVar("T")
Key = tuple[Any, ...]
KeyOf = Callable[[Any], Any]


class Orders:
    """Combines the orders of plugins; creation time and name decide between equals."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._chains = session.chains

    def job_first(self, left: Job, right: Job) -> bool:
        broken = self._session.broken
        if broken and (left.id in broken) != (right.id in broken):
            return left.id in broken
        result = first_result(self._chains.flat("job_order"), left, right)
        if result:
            return result < 0
        return (left.creation_time_ns, left.id) < (right.creation_time_ns, right.id)

    @property
    def has_job_keys(self) -> bool:
        """Whether jobs are ordered by keys."""
        return self._keys("job_order") is not None

    def _keys(self, point: str) -> list[KeyOf] | None:
        """The functions that return the keys of an order; None: a plugin only compares."""
        orders = self._chains.all_of(point, SortKey)
        return None if orders is None else [order.key for order in orders]

    def waiting_jobs(self) -> Heap[Job]:
        """A heap of jobs, for an action that moves only tasks of the job that it popped last."""
        keys, broken = self._keys("job_order"), self._session.broken
        if keys is None:
            return LiveHeap(self.job_first)

        def key(job: Job) -> Key:
            own = map(call, keys, repeat(job))
            return (job.id not in broken, *own, job.creation_time_ns, job.id)

        return KeyHeap(key)

    def waiting_queues(self) -> Heap[Queue]:
        """A heap of queues, for an action that moves no task of a queue in the heap."""
        key = self.queue_key()
        return LiveHeap(self.queue_first) if key is None else KeyHeap(key)

    def queue_key(self) -> Callable[[Queue], Key] | None:
        """The key of a queue; None: a plugin only compares queues."""
        keys, broken = self._keys("queue_order"), self._session.broken
        if keys is None:
            return None

        def key(queue: Queue) -> Key:
            own = map(call, keys, repeat(queue))
            whole = not broken or queue.name not in broken.values()
            return (whole, *own, queue.creation_time_ns, queue.name)

        return key

    def sub_job_first(self, left: SubJob, right: SubJob) -> bool:
        result = first_result(self._chains.flat("sub_job_order"), left, right)
        if result:
            return result < 0
        return (left.match_index, left.id) < (right.match_index, right.id)

    def queue_first(self, left: Queue, right: Queue) -> bool:
        if self._session.broken:
            waiting = self._session.broken.values()
            if (left.name in waiting) != (right.name in waiting):
                return left.name in waiting
        result = first_result(self._chains.flat("queue_order"), left, right)
        if result:
            return result < 0
        return (left.creation_time_ns, left.name) < (right.creation_time_ns, right.name)

    def victim_queue_first(self, left: Queue, right: Queue, preemptor: Queue) -> bool:
        result = first_result(self._chains.flat("victim_queue_order"), left, right, preemptor)
        return result < 0 if result else not self.queue_first(left, right)

    def task_first(self, left: Task, right: Task) -> bool:
        result = first_result(self._chains.flat("task_order"), left, right)
        if result:
            return result < 0
        index, other = left.pod_index, right.pod_index
        if index is not None and other is not None and index != other:
            return index < other
        return (left.pod.creation_time_ns, left.uid) < (right.pod.creation_time_ns, right.uid)

    @cached_property
    def has_task_keys(self) -> bool:
        """Whether tasks are ordered by keys."""
        return self._keys("task_order") is not None

    def task_key(self, *, indexed: bool) -> Callable[[Task], Key] | None:
        """The key of a task, among tasks that all have a number in their names or all have none.

        None: a plugin only compares tasks.
        """
        keys = self._keys("task_order")
        if keys is None:
            return None

        def key(task: Task) -> Key:
            own = [function(task) for function in keys]
            index = task.pod_index if indexed else 0
            return (*own, index, task.pod.creation_time_ns, task.uid)

        return key

    def _by_key(self, tasks: list[Task]) -> list[Task] | None:
        """Tasks sorted by keys; None: a plugin only compares tasks, or only some names have a number."""
        keys, indexes = self._keys("task_order"), [task.pod_index for task in tasks]
        # Numbers in names are compared if both tasks have one, so that mixed tasks have no key.
        if keys is None or indexes.count(None) not in (0, len(tasks)):
            return None
        columns = [[key(task) for task in tasks] for key in keys]
        names = [(task.pod.creation_time_ns, task.uid, task) for task in tasks]
        return [entry[-1][-1] for entry in sorted(zip(*columns, indexes, names, strict=True))]

    def tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in their current order."""
        tasks = list(tasks)
        if len(tasks) == 1:
            return tasks
        ordered = self._by_key(tasks)
        if ordered is not None:
            return ordered

        def compare(left: Task, right: Task) -> int:
            return -1 if self.task_first(left, right) else 1

        return sorted(sorted(tasks, key=lambda t: t.order_key), key=cmp_to_key(compare))

    def waiting_tasks(self, ordered: Iterable[Task]) -> deque[Task]:
        """Tasks that are in order, as a queue; an order without keys may change with every placement."""
        return deque(ordered) if self.has_task_keys else LiveDeque(ordered, self.task_first)

    def victims(self, tasks: Iterable[Task], preemptor: Task) -> LiveHeap[Task]:
        """Victims, the one to evict first on top."""
        jobs, queues = self._session.jobs, self._session.queues
        preemptor_job = jobs.get(preemptor.job_id)

        def first(left: Task, right: Task) -> bool:
            left_job, right_job = jobs.get(left.job_id), jobs.get(right.job_id)
            if left.job_id == right.job_id or (left_job is None and right_job is None):
                return not self.task_first(left, right)
            if left_job is None or right_job is None:
                # A task whose job does not exist comes first.
                return left_job is None
            if preemptor_job is not None and left_job.queue != right_job.queue:
                return self.victim_queue_first(
                    queues[left_job.queue], queues[right_job.queue], queues[preemptor_job.queue]
                )
            result = first_result(self._chains.flat("job_order"), left_job, right_job)
            return result > 0 if result else not self.task_first(left, right)

        return LiveHeap(first, tasks)


def first_result(functions: list[Any], *items: object) -> int:
    """The first result that is not zero; 0: the items are equal for all plugins."""
    for function in functions:
        result: int = function(*items)
        if result:
            return result
    return 0


class Heap(Protocol[T]):
    """A priority queue."""

    def __len__(self) -> int: ...

    def push(self, item: T) -> None: ...

    def pop(self) -> T: ...


class KeyHeap(Generic[T]):
    """A heap of items with fixed keys; no two keys may be equal."""

    __slots__ = ("_entries", "_key")

    def __init__(self, key: Callable[[T], Key]) -> None:
        self._key = key
        self._entries: list[tuple[Key, T]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: T) -> None:
        heappush(self._entries, (self._key(item), item))

    def pop(self) -> T:
        return heappop(self._entries)[1]

    def pop_entry(self) -> tuple[Key, T]:
        """Pops the first item with its key; an empty heap raises IndexError."""
        return heappop(self._entries)

    @property
    def first_key(self) -> Key | None:
        """The key of the first item; None: the heap is empty."""
        return self._entries[0][0] if self._entries else None


class LiveHeap(Generic[T]):
    """A binary heap that compares its items again on every operation."""

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._less = less
        self._items: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def clone(self) -> LiveHeap[T]:
        copy: LiveHeap[T] = LiveHeap(self._less)
        copy._items = list(self._items)
        return copy

    def push(self, item: T) -> None:
        items, less = self._items, self._less
        items.append(item)
        child = len(items) - 1
        while child > 0:
            parent = (child - 1) // 2
            if not less(items[child], items[parent]):
                break
            items[child], items[parent] = items[parent], items[child]
            child = parent

    def pop(self) -> T:
        _sift_first_to_end(self._items, self._less)
        return self._items.pop()


class LiveDeque(deque[T]):
    """A deque with the layout of a LiveHeap; ``popleft`` pops the first item as from a heap."""

    def __init__(self, items: Iterable[T], less: Callable[[T, T], bool]) -> None:
        # A sorted list has the layout of a heap.
        super().__init__(items)
        self._less = less

    def copy(self) -> LiveDeque[T]:
        return LiveDeque(self, self._less)

    def popleft(self) -> T:
        _sift_first_to_end(self, self._less)
        return self.pop()


def _sift_first_to_end(items: MutableSequence[T], less: Callable[[T, T], bool]) -> None:
    """Exchanges the first item with the last one, which is sifted down."""
    last = len(items) - 1
    items[0], items[last] = items[last], items[0]
    parent = 0
    while (child := 2 * parent + 1) < last:
        if child + 1 < last and less(items[child + 1], items[child]):
            child += 1
        if not less(items[child], items[parent]):
            break
        items[parent], items[child] = items[child], items[parent]
        parent = child

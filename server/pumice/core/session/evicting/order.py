"""The order in which victims are evicted, from sort keys where every plugin has one.

Nearly always one victim is enough, so only the first is computed. Where more are needed, shares have
changed by then, and the next victim depends on how the heap of all victims was built before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.memo import Memo
from pumice.core.session.orders import LiveHeap
from pumice.core.session.policies import SortKey

if TYPE_CHECKING:
    from pumice.core.session.session import Session

Key = tuple[Any, ...]


class VictimQueue(Protocol):
    """Victims, of which the first to be evicted is taken first."""

    def __len__(self) -> int: ...

    def pop(self) -> Task: ...


class VictimOrder:
    """The order of ``Orders.victims`` in one action's run; the larger of two keys comes first."""

    def __init__(self, session: Session) -> None:
        self._session = session
        orders, chains = session.orders, session.chains
        self._queue_key = orders.queue_key()
        self._job_orders = chains.all_of("job_order", SortKey)
        self._has_keys = (
            orders.has_task_keys
            and None not in (self._queue_key, self._job_orders)
            and not chains.flat("victim_queue_order")
        )
        # Keys of tasks whose names have no number, and of the others; they never change.
        self._task_keys = (orders.task_key(indexed=False), orders.task_key(indexed=True))
        self._known: tuple[dict[str, Key], dict[str, Key]] = ({}, {})

    def waiting(self, victims: list[Task], preemptor: Task) -> VictimQueue:
        """The victims as a queue, in the order of eviction."""
        keys = None
        if self._has_keys and victims and preemptor.job_id in self._session.jobs:
            keys = self._keys(victims)
        if keys is None:
            return self._session.orders.victims(victims, preemptor)
        return _FirstByKey(victims, keys, self._key)

    def _keys(self, victims: list[Task]) -> list[Key] | None:
        """None: mixed tasks, and tasks without a job, have no keys."""
        known = self._known[victims[0].pod_index is not None]
        keys = []
        for task in victims:
            key = known.get(task.uid) or self._look_up(task, known)
            if key is None:
                return None
            keys.append(key)
        job_ids = dict.fromkeys([task.job_id for task in victims])
        if len(job_ids) == 1:
            return keys
        of_queue = Memo(self._rank_of_queue)
        ranks = {id_: self._rank(self._session.jobs[id_], of_queue) for id_ in job_ids}
        return [(ranks[task.job_id], key) for task, key in zip(victims, keys, strict=True)]

    def _look_up(self, task: Task, known: dict[str, Key]) -> Key | None:
        indexed = task.pod_index is not None
        make = self._task_keys[indexed]
        if (
            make is None
            or task.job_id not in self._session.jobs
            or known is not self._known[indexed]
        ):
            return None
        key = known[task.uid] = make(task)
        return key

    def _key(self, task: Task) -> Key:
        """As it is now."""
        rank = self._rank(self._session.jobs[task.job_id], Memo(self._rank_of_queue))
        return (rank, self._known[task.pod_index is not None][task.uid])

    def _rank(self, job: Job, of_queue: Mapping[str, Key]) -> Key:
        return (*of_queue[job.queue], *[order.key(job) for order in self._job_orders or ()])

    def _rank_of_queue(self, name: str) -> Key:
        assert self._queue_key is not None
        return self._queue_key(self._session.queues[name])


class _FirstByKey:
    """A heap that is built only when a second victim is needed."""

    __slots__ = ("_before", "_heap", "_key", "_keys", "_left", "_victims")

    def __init__(self, victims: list[Task], keys: list[Key], key: Callable[[Task], Key]) -> None:
        self._victims = victims
        # As they were when the victims were put together.
        self._keys = keys
        self._key = key
        self._left = len(victims)
        self._before: dict[str, Key] = {}
        self._heap: LiveHeap[Task] | None = None

    def __len__(self) -> int:
        return self._left

    def pop(self) -> Task:
        self._left -= 1
        if self._left == len(self._victims) - 1:
            return self._victims[self._keys.index(max(self._keys))]
        if self._heap is None:
            self._heap = self._without_the_first()
        return self._heap.pop()

    def _without_the_first(self) -> LiveHeap[Task]:
        uids = [task.uid for task in self._victims]
        self._before = dict(zip(uids, self._keys, strict=True))
        heap = LiveHeap(self._goes_first, self._victims)
        heap.pop()
        self._before = {}
        return heap

    def _goes_first(self, left: Task, right: Task) -> bool:
        if self._before:
            return self._before[left.uid] > self._before[right.uid]
        return self._key(left) > self._key(right)

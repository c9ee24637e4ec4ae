"""The order in which victims are evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.memo import Memo
from pumice.core.session.orders import LiveHeap
from pumice.core.session.policies import SortKey

if TYPE_CHECKING:
    from pumice.core.session.session import Session

Key = tuple[Any, ...]
_NO_KEY: Key = ()


class VictimOrder:
    """The order of ``Orders.victims``, computed from sort keys where every plugin gives one.

    The first victim is the one with the largest key, and mostly one victim is enough. The next victim
    depends on the heap of all victims before shares changed; this heap is built only if it is needed.
    """

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
        self._task_keys = (self._keys_of_tasks(indexed=False), self._keys_of_tasks(indexed=True))

    def in_order(self, victims: list[Task], preemptor: Task) -> Iterator[Task]:
        """The victims in the order of eviction; each must be evicted before the next one is read."""
        keys = self._keys(victims) if self._has_keys and victims else None
        if keys is None:
            heap = self._session.orders.victims(victims, preemptor)
        else:
            yield victims[keys.index(max(keys))]
            heap = self._heap_without_first(victims, keys)
        while heap:
            yield heap.pop()

    def _heap_without_first(self, victims: list[Task], keys: list[Key]) -> LiveHeap[Task]:
        """The heap of the victims with these keys, after the first was popped."""
        before = {task.uid: key for task, key in zip(victims, keys, strict=True)}
        key_of: Callable[[Task], Key] = lambda task: before[task.uid]  # noqa: E731
        heap = LiveHeap(lambda left, right: key_of(left) > key_of(right), victims)
        heap.pop()
        key_of = self._key
        return heap

    def _keys(self, victims: list[Task]) -> list[Key] | None:
        """The current keys of the victims; None: only some names have a number, so there are none."""
        task_keys = self._task_keys[victims[0].pod_index is not None]
        keys = [task_keys[task] for task in victims]
        if _NO_KEY in keys:
            return None
        job_ids = dict.fromkeys([task.job_id for task in victims])
        if len(job_ids) == 1:
            return keys
        of_queue = Memo(self._rank_of_queue)
        ranks = {id_: self._rank(self._session.jobs[id_], of_queue) for id_ in job_ids}
        return [(ranks[task.job_id], key) for task, key in zip(victims, keys, strict=True)]

    def _keys_of_tasks(self, *, indexed: bool) -> Memo[Task, Key]:
        make = self._session.orders.task_key(indexed=indexed)

        def key(task: Task) -> Key:
            is_mixed = (task.pod_index is not None) is not indexed
            return _NO_KEY if make is None or is_mixed else make(task)

        return Memo(key)

    def _key(self, task: Task) -> Key:
        """The current key of a victim."""
        rank = self._rank(self._session.jobs[task.job_id], Memo(self._rank_of_queue))
        return (rank, self._task_keys[task.pod_index is not None][task])

    def _rank(self, job: Job, of_queue: Mapping[str, Key]) -> Key:
        return (*of_queue[job.queue], *[order.key(job) for order in self._job_orders or ()])

    def _rank_of_queue(self, name: str) -> Key:
        assert self._queue_key is not None
        return self._queue_key(self._session.queues[name])

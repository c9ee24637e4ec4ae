"""Views of a cluster between two sessions, for readers that must not wait for a session.

The owner makes a view when a reader asks, and before every session. Only jobs that changed are
read again, so a view of a quiet cluster costs little. While a session runs, readers get
the view that was made before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.jobs import Job
from pumice.core.decisions import Wait
from pumice.core.model.group import PodGroup, Queue
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.queues import QueueAccount
from pumice.server.pod_lookup import PodLookup
from pumice.server.state import ClusterState

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job with a PodGroup."""

    group: PodGroup
    queue: str
    priority: int
    min_available: int
    counts: Mapping[TaskStatus, int]
    allocated: Resources


@dataclass(frozen=True, slots=True)
class NodeRows:
    """All nodes: arrays of shape (resources, nodes), in the order of names."""

    columns: list[str]
    names: list[str]
    unschedulable: list[bool]
    allocatable: Floats
    used: Floats
    idle: Floats
    releasing: Floats
    pods: Floats
    # Pods on nodes that are not there, by the node's name.
    missing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster after one session and at one op. It is never changed."""

    session: int
    based_on_seq: int
    jobs: Mapping[str, JobRow]
    waits: tuple[Wait, ...]
    # In the order of names.
    queues: tuple[Queue, ...]
    accounts: Mapping[str, QueueAccount]
    # What jobs of each queue hold and want.
    requests: Mapping[str, Resources]
    nodes: NodeRows
    # Valid while this view is the current one.
    pods: PodLookup
    # Resources on nodes that the last session pipelined, by node.
    pipelined: Mapping[str, Resources]
    actions: tuple[str, ...]
    plugins: frozenset[str]


_Reader = tuple[asyncio.AbstractEventLoop, "asyncio.Future[ClusterView | None]"]


@dataclass(slots=True)
class _Kept:
    """What the last view was made from, and the versions of it."""

    cache: ClusterCache
    jobs: dict[str, JobRow] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    queues_version: tuple[int, int] = (-1, -1)
    unschedulable: list[bool] = field(default_factory=list)
    allocatable: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    objects_version: tuple[int, int] = (-1, -1)
    nodes: NodeRows | None = None
    nodes_version: tuple[int, ...] = ()


class ViewPublisher:
    """Makes views on the owner's thread and gives them to readers on the loop."""

    def __init__(self) -> None:
        # Guards the three below; held for moments only.
        self._lock = threading.Lock()
        self._in_session = False
        self._waiting: list[_Reader] = []
        # Whether a reader may still have the jobs of the last view.
        self._taken = False
        self._view: ClusterView | None = None
        self._kept: _Kept | None = None
        # Jobs that were read: what the views cost.
        self.jobs_seen = 0

    # On the loop.

    def during_session(self) -> ClusterView | None:
        """The view, if a session is running."""
        with self._lock:
            if not self._in_session:
                return None
            self._taken = True
            return self._view

    def is_current(self, view: ClusterView) -> bool:
        """Whether the session that the view was made for still runs; on any thread."""
        with self._lock:
            return self._in_session and self._view is view

    def wait(self) -> asyncio.Future[ClusterView | None]:
        """The next view; the owner has to be asked for it. None: the cluster is not complete."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ClusterView | None] = loop.create_future()
        with self._lock:
            if not self._in_session:
                self._waiting.append((loop, future))
                return future
            self._taken = True
        future.set_result(self._view)
        return future

    # On the owner's thread.

    def session_begins(self, state: ClusterState) -> None:
        """A session is about to begin."""
        self._renew(state)
        self._answer(in_session=True)

    def session_ended(self) -> None:
        with self._lock:
            self._in_session = False

    @contextmanager
    def while_busy(self, state: ClusterState) -> Iterator[None]:
        """Serves the view while the owner is busy with something else than a session."""
        self.session_begins(state)
        try:
            yield
        finally:
            self.session_ended()

    def renew(self, state: ClusterState | None) -> None:
        """Answers waiting readers; without a state there is no view yet."""
        with self._lock:
            if not self._waiting:
                return
        if state is None:
            self._view = self._kept = None
        else:
            self._renew(state)
        self._answer(in_session=False)

    def clear(self) -> None:
        """The state is gone, in the middle of a session perhaps."""
        self._view = self._kept = None
        self._answer(in_session=False)

    def _answer(self, *, in_session: bool) -> None:
        with self._lock:
            self._in_session = in_session
            waiting, self._waiting = self._waiting, []
            self._taken = self._taken or bool(waiting)
        for loop, future in waiting:
            # The loop may be closed already when the process ends.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_give, future, self._view)

    # Bringing it up to date.

    def _renew(self, state: ClusterState) -> None:
        engine = state.engine
        cache, configuration = engine.cache, engine.configuration
        kept = self._kept
        if kept is None or kept.cache is not cache or cache.job_index.unread is None:
            kept = self._kept = _Kept(cache)
            cache.job_index.unread = set(cache.jobs)
        self._see_jobs(kept)
        version = (cache.queues.version, cache.namespaces.version)
        if version != kept.queues_version:
            kept.queues_version = version
            kept.queues = tuple(cache.session_queues().values())
        accounts = engine.accounts
        self._view = ClusterView(
            session=engine.session,
            based_on_seq=state.applied_seq,
            jobs=kept.jobs,
            waits=engine.waits,
            queues=kept.queues,
            accounts=accounts,
            # The only sums in accounts that go on changing after their session.
            requests={name: account.request.clone() for name, account in accounts.items()},
            nodes=_nodes(kept, cache),
            pods=PodLookup.of(cache),
            pipelined=engine.pipelined,
            actions=tuple(configuration.actions),
            plugins=frozenset(o.name for tier in configuration.tiers for o in tier),
        )

    def _see_jobs(self, lists: _Kept) -> None:
        cache = lists.cache
        changed = cache.job_index.take_unread()
        if not changed:
            return
        if self._taken:
            # Readers keep the mapping they have.
            lists.jobs = dict(lists.jobs)
            self._taken = False
        for id_ in changed:
            job = cache.jobs.get(id_)
            row = None if job is None else _row(job)
            if row is None:
                lists.jobs.pop(id_, None)
            else:
                lists.jobs[id_] = row
        self.jobs_seen += len(changed)


def _row(job: Job) -> JobRow | None:
    group, index = job.group, job.index
    if group is None:
        return None
    counts = {status: len(tasks) for status, tasks in index.by_status.items() if tasks}
    return JobRow(
        group, job.queue, job.priority, job.min_available, counts, index.allocated.clone()
    )


def _nodes(lists: _Kept, cache: ClusterCache) -> NodeRows:
    table = cache.table
    table.settle()
    objects = (table.layout, table.objects_version)
    # Pods on nodes that are not there change no row.
    version = (*objects, table.changes, cache.version)
    if lists.nodes is not None and version == lists.nodes_version:
        return lists.nodes
    if objects != lists.objects_version:
        lists.objects_version = objects
        nodes = [entry.node for entry in table.rows]
        lists.unschedulable = [node is not None and node.unschedulable for node in nodes]
        lists.allocatable = table.allocatable.copy()
    width, amounts = len(table.columns), table.amounts.copy()
    idle, used, releasing = (amounts[part * width : (part + 1) * width] for part in range(3))
    # Seldom are there any.
    entries = table.entries.values() if len(table.entries) != len(table.rows) else ()
    lists.nodes_version = version
    lists.nodes = NodeRows(
        table.columns,
        table.names,
        lists.unschedulable,
        lists.allocatable,
        used,
        idle,
        releasing,
        amounts[-1],
        {entry.name: len(entry.tasks) for entry in entries if entry.row < 0},
    )
    return lists.nodes


def _give(future: asyncio.Future[ClusterView | None], view: ClusterView | None) -> None:
    if not future.done():
        future.set_result(view)

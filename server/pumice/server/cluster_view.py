"""Read-only views of a cluster, for readers that must not wait for a session.

The owner makes a view when a reader requests one, and before every session. Only changed jobs are
read again, so a view of a quiet cluster costs little. While a session runs, readers get the view
that was made before the session.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Wait
from pumice.core.model.group import PodGroup, Queue
from pumice.core.model.pod import Pod
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus, status_of
from pumice.core.session.queues import QueueAccount
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
    """All nodes, as arrays of shape (resources, nodes), sorted by name."""

    columns: list[str]
    names: list[str]
    unschedulable: list[bool]
    allocatable: Floats
    used: Floats
    idle: Floats
    releasing: Floats
    pods: Floats
    # Numbers of pods on nodes that do not exist, by node name.
    missing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of one pod; a pending pod of another scheduler has no status."""

    uid: str
    name: str
    # Empty: no job.
    job: str = ""
    status: TaskStatus | None = None
    node_name: str = ""
    # Scheduling gates, except Volcano's own gate.
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodLookup:
    """Finds pods on any thread while a session runs, without copying them.

    A session changes tasks, but not pods: the status of a pod before the session follows from the
    pod, or from the assumption about it. The caller must check afterwards that the session still
    runs.
    """

    _tasks: Mapping[str, Task]
    _foreign: Mapping[str, Pod]
    _assumptions: Sequence[Assumption]

    @classmethod
    def of(cls, cache: ClusterCache) -> PodLookup:
        return cls(cache.tasks, cache.foreign, cache.assumptions.all_open())

    def find(self, namespace: str, name: str) -> PodState | None:
        # Copied in one step, because the owner may change it at the same time.
        tasks = list(self._tasks.values())
        found = [task for task in tasks if task.name == name and task.pod.namespace == namespace]
        if found:
            # Of two pods with the same name, the newer one.
            return self._state_of(max(found, key=lambda each: each.order_key))
        for pod in list(self._foreign.values()):
            if pod.name == name and pod.namespace == namespace:
                return PodState(pod.uid, pod.name)
        return None

    def _state_of(self, task: Task) -> PodState:
        pod = task.pod
        status, node_name = status_of(pod), pod.node_name
        for assumption in self._assumptions:
            if assumption.pod_uid == pod.uid:
                status, node_name = assumption.status, assumption.node_name
        gates = () if task.only_volcano_gate else pod.spec.scheduling_gates
        return PodState(pod.uid, pod.name, task.job_id, status, node_name, gates)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster after one session and one op. A view never changes."""

    session: int
    based_on_seq: int
    jobs: Mapping[str, JobRow]
    waits: tuple[Wait, ...]
    # Sorted by name.
    queues: tuple[Queue, ...]
    accounts: Mapping[str, QueueAccount]
    # Resources that the jobs of each queue hold or request.
    requests: Mapping[str, Resources]
    nodes: NodeRows
    # Valid while this view is current.
    pods: PodLookup
    # Resources that the last session pipelined, by node.
    pipelined: Mapping[str, Resources]
    actions: tuple[str, ...]
    plugins: frozenset[str]


_Reader = tuple[asyncio.AbstractEventLoop, "asyncio.Future[ClusterView | None]"]


@dataclass(slots=True)
class _ViewParts:
    """Parts of the last view, with the versions that they were made from."""

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
    """Makes views on the owner's thread and publishes them to readers on the loop."""

    def __init__(self) -> None:
        # Guards the next three fields. Held for a short time only.
        self._lock = threading.Lock()
        self._in_session = False
        self._waiting: list[_Reader] = []
        # Whether a reader may still use the job mapping of the last view.
        self._is_shared = False
        self._view: ClusterView | None = None
        self._parts: _ViewParts | None = None
        # Number of jobs that were read for all views.
        self.jobs_read = 0

    # On the loop.

    def during_session(self) -> ClusterView | None:
        """The view, if a session is running."""
        with self._lock:
            if not self._in_session:
                return None
            self._is_shared = True
            return self._view

    def is_current(self, view: ClusterView) -> bool:
        """Whether the session that the view was made for still runs. Any thread may call it."""
        with self._lock:
            return self._in_session and self._view is view

    def wait(self) -> asyncio.Future[ClusterView | None]:
        """The next view, which the caller requests from the owner. None: no complete snapshot."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ClusterView | None] = loop.create_future()
        with self._lock:
            if not self._in_session:
                self._waiting.append((loop, future))
                return future
            self._is_shared = True
        future.set_result(self._view)
        return future

    # On the owner's thread.

    def session_begins(self, state: ClusterState) -> None:
        """Makes the view that readers get while a session runs."""
        self._update(state)
        self._answer(in_session=True)

    def session_ended(self) -> None:
        with self._lock:
            self._in_session = False

    @contextmanager
    def while_busy(self, state: ClusterState) -> Iterator[None]:
        """Serves the view while the owner is busy with something other than a session."""
        self.session_begins(state)
        try:
            yield
        finally:
            self.session_ended()

    def publish(self, state: ClusterState | None) -> None:
        """Makes a view for waiting readers. Without a state they get None."""
        with self._lock:
            if not self._waiting:
                return
        if state is None:
            self._view = self._parts = None
        else:
            self._update(state)
        self._answer(in_session=False)

    def clear(self) -> None:
        """Drops the view, because the state was dropped, perhaps during a session."""
        self._view = self._parts = None
        self._answer(in_session=False)

    def _answer(self, *, in_session: bool) -> None:
        with self._lock:
            self._in_session = in_session
            waiting, self._waiting = self._waiting, []
            self._is_shared = self._is_shared or bool(waiting)
        for loop, future in waiting:
            # The loop may be closed already when the process ends.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, future, self._view)

    # Updates.

    def _update(self, state: ClusterState) -> None:
        engine = state.engine
        cache, configuration = engine.cache, engine.configuration
        parts = self._parts
        if parts is None or parts.cache is not cache or cache.jobs.unread is None:
            parts = self._parts = _ViewParts(cache)
            cache.jobs.unread = set(cache.jobs)
        self._update_jobs(parts)
        version = (cache.queues.version, cache.namespaces.version)
        if version != parts.queues_version:
            parts.queues_version = version
            parts.queues = tuple(cache.session_queues().values())
        accounts = engine.accounts
        self._view = ClusterView(
            session=engine.session,
            based_on_seq=state.applied_seq,
            jobs=parts.jobs,
            waits=engine.waits,
            queues=parts.queues,
            accounts=accounts,
            # The only part of an account that changes after its session.
            requests={name: account.request.clone() for name, account in accounts.items()},
            nodes=_nodes(parts, cache),
            pods=PodLookup.of(cache),
            pipelined=engine.pipelined,
            actions=tuple(configuration.actions),
            plugins=frozenset(o.name for tier in configuration.tiers for o in tier),
        )

    def _update_jobs(self, parts: _ViewParts) -> None:
        cache = parts.cache
        changed = cache.jobs.take_unread()
        if not changed:
            return
        if self._is_shared:
            # Readers keep the old mapping.
            parts.jobs = dict(parts.jobs)
            self._is_shared = False
        for id_ in changed:
            job = cache.jobs.get(id_)
            row = None if job is None else _row(job)
            if row is None:
                parts.jobs.pop(id_, None)
            else:
                parts.jobs[id_] = row
        self.jobs_read += len(changed)


def _row(job: Job) -> JobRow | None:
    group, index = job.group, job.index
    if group is None:
        return None
    counts = {status: len(tasks) for status, tasks in index.by_status.items() if tasks}
    return JobRow(
        group, job.queue, job.priority, job.min_available, counts, index.allocated.clone()
    )


def _nodes(parts: _ViewParts, cache: ClusterCache) -> NodeRows:
    table = cache.table
    table.settle()
    objects = (table.layout, table.objects_version)
    # Pods on nodes that do not exist change no row, but the version of the cache.
    version = (*objects, table.changes, cache.version)
    if parts.nodes is not None and version == parts.nodes_version:
        return parts.nodes
    if objects != parts.objects_version:
        parts.objects_version = objects
        nodes = [entry.node for entry in table.rows]
        parts.unschedulable = [node is not None and node.unschedulable for node in nodes]
        parts.allocatable = table.allocatable.copy()
    width, amounts = len(table.columns), table.amounts.copy()
    idle, used, releasing = (amounts[part * width : (part + 1) * width] for part in range(3))
    # Entries without a row, which are nodes that do not exist, are rare.
    entries = table.entries.values() if len(table.entries) != len(table.rows) else ()
    parts.nodes_version = version
    parts.nodes = NodeRows(
        table.columns,
        table.names,
        parts.unschedulable,
        parts.allocatable,
        used,
        idle,
        releasing,
        amounts[-1],
        {entry.name: len(entry.tasks) for entry in entries if entry.row < 0},
    )
    return parts.nodes


def _resolve(future: asyncio.Future[ClusterView | None], view: ClusterView | None) -> None:
    if not future.done():
        future.set_result(view)

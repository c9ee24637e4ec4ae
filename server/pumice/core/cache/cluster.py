"""The cluster as the deltas describe it; nothing but deltas and committed decisions changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, TypeVar

from pumice.core.cache.assumptions import Assumptions
from pumice.core.cache.broken import BrokenGangs
from pumice.core.cache.classes import ClassRegistry
from pumice.core.cache.devices import DeviceCache
from pumice.core.cache.entries import offered_names
from pumice.core.cache.evictable import EvictableTasks
from pumice.core.cache.hyper_nodes import HyperNodeTree, HyperNodeTrees
from pumice.core.cache.job_index import JobIndex
from pumice.core.cache.jobs import Job
from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.node_states import PluginNodeStates
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.plugin_data import PluginDataStore
from pumice.core.cache.pod_updates import PodUpdates
from pumice.core.cache.pods import PodIndex
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.shards import ShardClaims
from pumice.core.cache.storage import StorageCache
from pumice.core.cache.store import ObjectStore, ObjectStores
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.cache.totals import QueueTotals
from pumice.core.cache.validation import (
    check_csi_node,
    check_hyper_node,
    check_node,
    check_pod_group,
    check_queue,
    check_resource_names,
)
from pumice.core.cache.workloads import WorkloadSelectors
from pumice.core.decisions import (
    NodeShardStatusChanged,
    PodGroupStatusChanged,
    QueueStatusChanged,
    StatusChange,
)
from pumice.core.deltas import ClusterObject
from pumice.core.model.devices import ResourceClaim
from pumice.core.model.group import (
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PodGroupStatus,
    PriorityClass,
    Queue,
    ResourceQuota,
    Workload,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.model.resources import Resources
from pumice.core.model.storage import (
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from pumice.core.model.topology import HyperNode, NodeShard, NumaTopology

T = TypeVar("T", bound=ClusterObject)


class ClusterCache:
    """Nodes, tasks, jobs, queues and everything that plugins look up."""

    job_type: ClassVar[type[Job]] = Job
    task_type: ClassVar[type[Task]] = Task
    class_type: ClassVar[type[TaskClass]] = TaskClass
    pod_updates_type: ClassVar[type[PodUpdates]] = PodUpdates

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self.settings = settings or CacheSettings()
        self.table = NodeTable()
        self.labels, self.evictable = NodeLabels(self.table), EvictableTasks(self.table)
        self.pods = PodIndex(self.table)
        self.table.watcher, self.table.watcher_of_many = self.pods.change, self.pods.enter_many
        self.table.is_watched = self.pods.is_concerned_by
        self.stores = ObjectStores()
        self.storage, self.devices = StorageCache(self.stores), DeviceCache(self.stores)
        self.classes = ClassRegistry(self)
        self.assumptions = Assumptions()
        self.totals = QueueTotals()
        self.job_index = JobIndex(self.totals)
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        # Pods of other schedulers that are not on a node yet, by uid; we do not schedule them.
        self.foreign: dict[str, Pod] = {}
        self.broken = BrokenGangs()
        # Grows with every delta that changed something.
        self.version = 0
        # Grows with every change after which something could be placed that could not be before.
        # An update that only confirms our own bind is not such a change.
        self.placement_changes = 0
        self.pod_updates = self.pod_updates_type(self)
        self._make_stores()

    def _make_stores(self) -> None:
        make = self.stores.make
        self.nodes, self.groups = make(Node, "name"), make(PodGroup, "namespace", "name")
        self.queues, self.priority_classes = make(Queue, "name"), make(PriorityClass, "name")
        self.quotas = make(ResourceQuota, "namespace", "name")
        self.namespaces = make(Namespace, "name")
        self.budgets = make(PodDisruptionBudget, "namespace", "name")
        self.workloads = make(Workload, "kind", "namespace", "name")
        self.hyper_nodes, self.shards = make(HyperNode, "name"), make(NodeShard, "name")
        self.numa_topologies = make(NumaTopology, "name")
        self.workload_selectors = WorkloadSelectors(self.workloads)
        self._trees = HyperNodeTrees(self.hyper_nodes, self.table, self.labels)
        self.plugin_data, self.node_states = PluginDataStore(), PluginNodeStates()
        # By plugin: a time that it keeps over sessions, such as that of its last evictions.
        self.plugin_times: dict[str, int] = {}
        # The version of the priority classes, and the priority of jobs that name none.
        self._default_priority = (-1, 0)
        self.shard_claims = ShardClaims(self.shards, self.settings.shard_name)

    @property
    def hyper_node_tree(self) -> HyperNodeTree:
        """The HyperNodes as they are now."""
        return self._trees.tree()

    # Upserts.

    def upsert(self, item: ClusterObject) -> None:
        """Adds or replaces an object. An invalid object raises, and nothing changes."""
        match item:
            case Pod():
                self.pod_updates.upsert(item)
            case Node():
                self._upsert_node(item)
            case PodGroup():
                self._upsert_group(item)
            case Queue():
                self._upsert_queue(item)
            case PriorityClass():
                self._put(self.priority_classes, item)
                self._reprioritise()
            case CsiNode():
                self._upsert_csi_node(item)
            case PersistentVolume() | PersistentVolumeClaim() | StorageClass():
                if self._put(self._store_of(type(item)), item):
                    self.storage.updated(item)
            case HyperNode():
                check_hyper_node(item)
                self._put(self.hyper_nodes, item)
            case NodeShard():
                self._put(self.shards, item)
                self.shard_claims.observe(item)
            case _:
                if self._put(self._store_of(type(item)), item):
                    self._was_changed(item)

    def _put(self, store: ObjectStore[T], item: T) -> bool:
        before = store.version
        store.put(item)
        changed = store.version != before
        if changed:
            self.version += 1
            self.placement_changes += 1
        return changed

    def _was_changed(self, item: ClusterObject) -> None:
        if isinstance(item, NumaTopology):
            self._touch_node(item.name)
        elif isinstance(item, ResourceClaim):
            self.devices.ledger.updated(item)

    def _touch_node(self, name: str) -> None:
        """Something beside a node has changed that plugins' states of it follow from."""
        row = self.table.row_of(name)
        if row is not None:
            self.table.touch(row)

    def _upsert_queue(self, queue: Queue) -> None:
        check_queue(queue)
        old, placement_changes = self.queues.get(queue.name), self.placement_changes
        self._put(self.queues, queue)
        if old is not None and replace(old, allocated=queue.allocated) == queue:
            self.placement_changes = placement_changes

    def _store_of(self, kind: type[T]) -> ObjectStore[T]:
        store = self.stores.of(kind)
        assert store is not None
        return store

    def _upsert_node(self, node: Node) -> None:
        check_node(node)
        if self.nodes.get(node.name) == node:
            return
        entry = self.table.entries.get(node.name)
        self._check_offer("Node", node.name, node, entry.csi_limits if entry else ())
        self._put(self.nodes, node)
        self.table.set_node(node)
        self.assumptions.node_changed(node.name)

    def _upsert_csi_node(self, item: CsiNode) -> None:
        check_csi_node(item)
        self._check_offer("CsiNode", item.name, self.nodes.get(item.name), item.driver_limits)
        self._put(self.storage.csi_nodes, item)
        self.table.set_csi_limits(item.name, item.driver_limits)

    def _check_offer(
        self, kind: str, name: str, node: Node | None, limits: tuple[tuple[str, int], ...]
    ) -> None:
        entry = self.table.entries.get(name)
        counted = entry.counted_names if entry else ()
        names = offered_names(node, limits)
        check_resource_names(kind, name, names, counted, self.table.offering_nodes)

    def _upsert_group(self, group: PodGroup) -> None:
        check_pod_group(group)
        key = group.key
        old = self.groups.get(key)
        if old == group:
            return
        placement_changes = self.placement_changes
        self._put(self.groups, group)
        job = self.job(key)
        self._give_group(job, group)
        if old is None or old.with_status(group.status) != group:
            self.assumptions.end_cool_down(job.id)
        else:
            self.placement_changes = placement_changes

    def _give_group(self, job: Job, group: PodGroup) -> None:
        before = (job.group is not None, job.queue)
        job.set_group(group, self.settings.default_queue)
        if before != (True, job.queue):
            self.job_index.moved.add(job.id)
        job.priority = self._priority_of(job)

    def put_data(self, plugin: str, name: str, values: Mapping[str, str | float]) -> None:
        """Stores data that an adapter reports for a plugin."""
        if self.plugin_data.put(plugin, name, values):
            self.version += 1
            self.placement_changes += 1

    def uid_named(self, kind: type[ClusterObject], key: str) -> str:
        """The uid of the object with that key; empty where there is none. Not for pods."""
        store = self.stores.of(kind)
        item = None if store is None else store.get(key)
        return "" if item is None else item.uid

    # Deletions.

    def delete(self, kind: type[ClusterObject], uid: str) -> None:
        """An unknown uid is a no-op: deletions may come twice and in any order."""
        if kind is Pod:
            self.pod_updates.delete(uid)
            return
        gone = self._store_of(kind).drop(uid)
        if gone is None:
            return
        self.version += 1
        self.placement_changes += 1
        match gone:
            case Node():
                self.table.remove_node(gone.name)
            case CsiNode():
                self.table.set_csi_limits(gone.name, ())
            case PodGroup():
                job = self.job(gone.key)
                job.clear_group()
                self.job_index.moved.add(job.id)
                self.drop_if_done(job)
            case PriorityClass():
                self._reprioritise()
            case NumaTopology():
                self._touch_node(gone.name)
            case ResourceClaim():
                self.devices.ledger.updated(gone, gone=True)
            case PersistentVolume() | PersistentVolumeClaim() | StorageClass():
                self.storage.gone(gone)

    # Before a session.

    def settle(self) -> None:
        """Completes what deltas left open, before a session reads the cache."""
        self.pod_updates.reclassify()
        self.table.settle()
        self.evictable.release()
        self._trees.forget_outdated()
        self.labels.forget_outdated()
        self.table.images.forget_outdated()
        self.workload_selectors.forget_outdated()

    def forget_classes(self) -> list[int]:
        """Forgets the classes that no task has any more; returns their numbers."""
        gone = self.classes.forget_unused()
        if gone:
            self.pods.forget_classes(gone)
        return [class_.number for class_ in gone]

    # Jobs.

    def job(self, id_: str) -> Job:
        job = self.jobs.get(id_)
        if job is None:
            job = self.jobs[id_] = self.job_type(id_, self.job_index.changed)
        return job

    def drop_if_done(self, job: Job) -> None:
        if job.group is None and not len(job.index):
            self.jobs.pop(job.id, None)
            self.totals.forget(job.id)
            self.assumptions.end_cool_down(job.id)

    def _priority_of(self, job: Job) -> int:
        name = job.group.priority_class_name if job.group else ""
        named = self.priority_classes.get(name) if name else None
        if named is not None:
            return named.value
        version, value = self._default_priority
        if version != self.priority_classes.version:
            defaults = [c for c in self.priority_classes if c.global_default]
            value = defaults[-1].value if defaults else 0
            self._default_priority = (self.priority_classes.version, value)
        return value

    def _reprioritise(self) -> None:
        for job in self.jobs.values():
            priority = self._priority_of(job)
            if priority != job.priority:
                job.priority = priority
                job.touch()

    # What a session leaves behind.

    def assume_statuses(self, statuses: Iterable[StatusChange]) -> None:
        """The statuses that a session writes count until updates of the objects arrive."""
        for change in statuses:
            if isinstance(change, PodGroupStatusChanged):
                job = self.jobs.get(f"{change.namespace}/{change.name}")
                if job is not None:
                    self.assume_status(job, change.status)
            elif isinstance(change, QueueStatusChanged):
                self.assume_queue(change.name, change.allocated)
            elif isinstance(change, NodeShardStatusChanged):
                self.shard_claims.sent(change.nodes_in_use)

    def assume_status(self, job: Job, status: PodGroupStatus) -> None:
        """The status that we write counts until an update of the PodGroup arrives."""
        if job.group is not None:
            job.group = job.group.with_status(status)
            job.phase = status.phase
            job.touch()
            self.groups.put(job.group)

    def assume_queue(self, name: str, allocated: tuple[tuple[str, int], ...]) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            self.queues.put(replace(queue, allocated=allocated))

    def session_jobs(self) -> dict[str, Job]:
        """Jobs that a session may look at, by id: with a PodGroup and a queue that exists."""
        return self.job_index.members(self.jobs, self.session_queues())

    def unsettled_jobs(self) -> list[Job]:
        """The session's jobs that wait for something, or changed."""
        return self.job_index.unsettled(self.session_jobs())

    def session_queues(self) -> dict[str, Queue]:
        """The queues of a session by name, in the order of names."""
        return {queue.name: queue for queue in self.queues}

    def session_total(self) -> Resources:
        """All that a session's nodes offer."""
        return self.table.sum_allocatable()

    def objects(self) -> Iterator[ClusterObject]:
        """All objects in the cache."""
        for store in self.stores:
            yield from store
        for uid in sorted(self.tasks):
            yield self.tasks[uid].pod
        for uid in sorted(self.foreign):
            yield self.foreign[uid]

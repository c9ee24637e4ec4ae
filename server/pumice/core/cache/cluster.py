"""The cluster as the deltas describe it; nothing but deltas and committed decisions changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pumice.core.cache.assumptions import Assumptions, BrokenGangs, CoolDowns
from pumice.core.cache.classes import ClassRegistry
from pumice.core.cache.devices import DeviceCache, DeviceOffers
from pumice.core.cache.entries import NodeEntry, NodeOffer
from pumice.core.cache.evictable import EvictableTasks
from pumice.core.cache.hyper_nodes import HyperNodeTree
from pumice.core.cache.job_index import JobIndex
from pumice.core.cache.jobs import Job
from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.node_states import PluginNodeStates
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.plugin_data import PluginDataStore
from pumice.core.cache.pod_updates import PodUpdates
from pumice.core.cache.pods import PodIndex
from pumice.core.cache.selector_index import WorkloadSelectors
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.shards import ShardClaims
from pumice.core.cache.storage import StorageCache
from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.cache.validation import check, check_resource_names
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
from pumice.core.model.memo import Versioned
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


class ClusterCache:
    """Nodes, tasks, jobs, queues and everything that plugins look up."""

    job_type: ClassVar[type[Job]] = Job
    task_type: ClassVar[type[Task]] = Task
    class_type: ClassVar[type[TaskClass]] = TaskClass
    pod_updates_type: ClassVar[type[PodUpdates]] = PodUpdates
    # Nodes offer extended resources that stand for devices.
    offers_devices: ClassVar[bool] = True
    # Pods that are marked as not preemptable are never evicted.
    honours_preemptable: ClassVar[bool] = True

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self.settings = settings or CacheSettings()
        self.table = NodeTable()
        self.labels = NodeLabels(self.table)
        self.evictable = EvictableTasks(self.table, preemptable_only=self.honours_preemptable)
        self.pods = self.table.pods = PodIndex(self.table)
        self.stores = ObjectStores()
        self.storage, self.devices = StorageCache(self.stores), DeviceCache(self.stores)
        self.reservations = (self.storage.reservations, self.devices.reservations)
        self.classes = ClassRegistry(self)
        self._offers = DeviceOffers(self.devices, self.table, self.labels, self.classes)
        self.cool_downs = CoolDowns()
        self.assumptions = Assumptions(self.cool_downs)
        self.jobs = JobIndex(self.job_type)
        self.tasks: dict[str, Task] = {}
        # Pods of other schedulers that are not on a node yet, by uid; we do not schedule them.
        self.foreign: dict[str, Pod] = {}
        self.broken = BrokenGangs()
        # Grows with every delta that changed something.
        self.version = 0
        # Grows with every change that may allow a placement. An update that only confirms our own bind
        # is not such a change.
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
        hyper_nodes, table = self.hyper_nodes, self.table
        self._tree = Versioned(
            lambda: (hyper_nodes.version, table.layout, table.labels_version),
            lambda: HyperNodeTree(hyper_nodes, table, self.labels),
        )
        self.plugin_data, self.node_states = PluginDataStore(), PluginNodeStates(self.table)
        # Times that plugins keep over sessions, such as the time of their last evictions, by plugin.
        self.plugin_times: dict[str, int] = {}
        # The priority of jobs that name no class.
        classes = self.priority_classes
        self._default_priority = Versioned(
            lambda: classes.version,
            lambda: next((c.value for c in reversed([*classes]) if c.global_default), 0),
        )
        self.shard_claims = ShardClaims(self.shards, self.settings.shard_name)

    @property
    def hyper_node_tree(self) -> HyperNodeTree:
        """The HyperNodes as they are now; valid as long as no delta is applied."""
        return self._tree.get()

    # Upserts and deletions.

    def upsert(self, item: ClusterObject) -> None:
        """Adds or replaces an object. An invalid object raises, and nothing changes."""
        if isinstance(item, Pod):
            self.pod_updates.upsert(item)
            return
        self._check(item)
        store = self.stores.of(type(item))
        version = store.version
        old = store.put(item)
        if store.version == version:
            return
        self.version += 1
        confirms = old is not None and _confirms(old, item)
        self.placement_changes += not confirms
        if isinstance(item, PodGroup):
            job = self.jobs.get_or_add(item.key)
            self._give_group(job, item)
            if not confirms:
                self.cool_downs.end(job.id)
        else:
            self._follow(item, gone=False)

    def delete(self, kind: type[ClusterObject], uid: str) -> None:
        """Deletes an object. An unknown uid is ignored: deletions may come twice and in any order."""
        if kind is Pod:
            self.pod_updates.delete(uid)
            return
        gone = self.stores.of(kind).drop(uid)
        if gone is None:
            return
        self.version += 1
        self.placement_changes += 1
        if isinstance(gone, PodGroup):
            job = self.jobs.get_or_add(gone.key)
            job.clear_group()
            self.jobs.moved.add(job.id)
            self.drop_if_done(job)
        else:
            self._follow(gone, gone=True)

    def _check(self, item: ClusterObject) -> None:
        check(item)
        if isinstance(item, Node | CsiNode):
            entry = self.table.entries.get(item.name) or NodeEntry(item.name)
            if isinstance(item, Node):
                offer = NodeOffer.of(item, entry.csi_limits, entry.device_offers)
            else:
                offer = NodeOffer.of(entry.node, item.driver_limits, entry.device_offers)
            if offer != entry.offer:
                check_resource_names(item, offer, entry.offer, self.table.offering_nodes)

    def _follow(self, item: ClusterObject, *, gone: bool) -> None:
        """Updates the state that is derived from an object that has changed or is gone."""
        match item:
            case Node():
                if gone:
                    self.table.remove_node(item.name)
                else:
                    self.table.set_node(item)
                    self.cool_downs.node_changed(item.name)
            case CsiNode():
                self.table.set_csi_limits(item.name, () if gone else item.driver_limits)
            case NumaTopology():
                # Plugins derive their state of the node from it.
                row = self.table.row_of(item.name)
                if row is not None:
                    self.table.touch(row)
            case PriorityClass():
                self._reprioritise()
            case PersistentVolume() | PersistentVolumeClaim() | StorageClass():
                self.storage.updated(item)
            case ResourceClaim():
                self.devices.updated(item, gone=gone)
            case NodeShard() if not gone:
                self.shard_claims.observe(item)

    def _give_group(self, job: Job, group: PodGroup) -> None:
        before = (job.group is not None, job.queue)
        settings = self.settings
        job.set_group(group, settings.default_queue, settings.ignored_resources)
        if before != (True, job.queue):
            self.jobs.moved.add(job.id)
        job.priority = self._priority_of(job)

    def put_data(self, plugin: str, name: str, values: Mapping[str, str | float]) -> None:
        """Stores data that an adapter reports for a plugin."""
        if self.plugin_data.put(plugin, name, values):
            self.version += 1
            self.placement_changes += 1

    # Before a session.

    def settle(self) -> None:
        """Brings derived state up to date, before a session reads the cache."""
        self.pod_updates.reclassify()
        self.table.settle()
        if self.offers_devices:
            self._offers.update()
            self.table.settle()
        self.evictable.release()
        self._tree.forget_outdated()
        self.labels.forget_outdated()
        self.table.images.forget_outdated()
        self.workload_selectors.forget_outdated()

    # Jobs.

    def drop_if_done(self, job: Job) -> None:
        if self.jobs.drop_if_done(job):
            self.cool_downs.end(job.id)

    def _priority_of(self, job: Job) -> int:
        name = job.group.priority_class_name if job.group else ""
        named = self.priority_classes.get(name) if name else None
        if named is not None:
            return named.value
        return self._default_priority.get()

    def _reprioritise(self) -> None:
        for job in self.jobs.values():
            priority = self._priority_of(job)
            if priority != job.priority:
                job.priority = priority
                job.touch()

    # What a session leaves behind.

    def assume_statuses(self, statuses: Iterable[StatusChange]) -> None:
        """Stores the statuses that a session writes, until updates of the objects arrive."""
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
        """Stores the status that we write, until an update of the PodGroup arrives."""
        if job.group is not None:
            job.group = job.group.with_status(status)
            job.phase = status.phase
            job.touch()
            self.groups.replace(job.id, job.group)

    def assume_queue(self, name: str, allocated: tuple[tuple[str, int], ...]) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            self.queues.put(replace(queue, allocated=allocated))

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


def _confirms(old: ClusterObject, new: ClusterObject) -> bool:
    """Whether an update changes only a status, which sessions write."""
    match old, new:
        case PodGroup(), PodGroup():
            return old.with_status(new.status) == new
        case Queue(), Queue():
            return replace(old, allocated=new.allocated) == new
        case _:
            return False

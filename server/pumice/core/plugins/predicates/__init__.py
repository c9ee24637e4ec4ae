"""predicates: Kubernetes' filters.

Filters of nodes alone are evaluated once for each task class. Filters about pods, volumes and devices
are evaluated for each task that they concern; a task that none of them concerns is plain. When a task
is placed, its volumes and devices are reserved, and it enters Kubernetes' view of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, ArgumentType, PluginOptions, boolean, ignored
from pumice.core.model.fit import Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.predicates.binding import VolumeBinding
from pumice.core.plugins.predicates.claims import DeviceClaims
from pumice.core.plugins.predicates.interpod import (
    AffinitySimulation,
    InterPodAffinity,
    has_required_terms,
)
from pumice.core.plugins.predicates.node_filters import EquivalenceCache, NodeFilters, port_refusal
from pumice.core.plugins.predicates.spread import TopologySpread
from pumice.core.plugins.predicates.volume_filters import VolumeLimits, VolumeZones
from pumice.core.session.feasibility.terms import PodLimit
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import ClassRule, PlainRule, RowTerms
from pumice.core.session.session import Session

POD_COUNT = "node(s) pod number exceeded"
_TO_DEVICESHARE = "Volcano moved it to the plugin deviceshare"
_NO_CAPACITY_SCORES = "free storage is no score, as without the gate StorageCapacityScoring"
_TO_STRATEGY_FIT = "Volcano moved it to the plugin resource-strategy-fit"


class PredicatesArguments(Arguments):
    """The filters that are switched on."""

    node_affinity = boolean(
        "predicate.NodeAffinityEnable", "checks node selectors and node affinity", default=True
    )
    ports = boolean("predicate.NodePortsEnable", "checks host ports", default=True)
    taints = boolean("predicate.TaintTolerationEnable", "checks taints", default=True)
    pod_affinity = boolean(
        "predicate.PodAffinityEnable", "checks affinity between pods", default=True
    )
    volume_limits = boolean(
        "predicate.NodeVolumeLimitsEnable", "checks how many volumes a node takes", default=True
    )
    volume_zones = boolean(
        "predicate.VolumeZoneEnable", "checks the zones of volumes", default=True
    )
    spread = boolean("predicate.PodTopologySpreadEnable", "checks spread constraints", default=True)
    volume_binding = boolean(
        "predicate.VolumeBindingEnable", "checks whether volumes can be bound", default=True
    )
    caches = boolean("predicate.CacheEnable", "caches results for equal pods", default=False)
    claims = ignored(
        "predicate.DynamicResourceAllocationEnable",
        "Volcano never reads it either",
        ArgumentType.BOOL,
    )
    bind_timeout = ignored(
        "volumebinding.bindTimeoutSeconds",
        "the adapter bounds how long a bind may take",
        ArgumentType.INT,
    )
    capacity_weight = ignored("volumebinding.weight", _NO_CAPACITY_SCORES, ArgumentType.INT)
    capacity_shape = ignored("volumebinding.shape", _NO_CAPACITY_SCORES, ArgumentType.LIST)
    claims_timeout = ignored(
        "dynamicresources.filterTimeoutSeconds",
        "the search for devices is bounded by steps, not by time",
        ArgumentType.INT,
    )
    gpu_sharing = ignored("predicate.GPUSharingEnable", _TO_DEVICESHARE)
    gpu_number = ignored("predicate.GPUNumberEnable", _TO_DEVICESHARE)
    proportional = ignored("predicate.ProportionalEnable", _TO_STRATEGY_FIT)
    proportions = ignored("predicate.resources*", _TO_STRATEGY_FIT)


class _Concerns(NamedTuple):
    """The filters, beside node filters, that concern a class."""

    ports: bool
    pod_affinity: bool
    spread: bool
    volumes: bool
    claims: bool


class PredicatesPlugin:
    """Kubernetes' filters in its order, and the handlers that keep its view of the nodes."""

    name: ClassVar[str] = "predicates"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = PredicatesArguments

    def __init__(self, options: PluginOptions) -> None:
        self._on = PredicatesArguments(options.arguments)
        # By class.
        self._concerns = Memo(self._find_concerns)
        # By uid: the refusals by affinity and by spread, from when the task was last prepared.
        self._frozen: dict[str, tuple[list[Refusal], list[Refusal]]] = {}
        # Tasks whose volumes or devices could not be reserved; they are not in Kubernetes' view.
        self._refused: set[str] = set()

    def open(self, session: Session) -> None:
        self._session = session
        self._moves = session.moves
        self._node_filters = NodeFilters(
            session, affinity=self._on.node_affinity, taints=self._on.taints
        )
        self._cache = EquivalenceCache(self._node_filters) if self._on.caches else None
        self._pods = InterPodAffinity(session)
        # Whether anti-affinity is checked, and some pods on nodes had it when the session opened.
        self._checks_existing = self._on.pod_affinity and session.pods.had_anti_affinity is not None
        self._spread = TopologySpread(session)
        self._limits = VolumeLimits(session)
        self._zones = VolumeZones(session)
        self._volumes = VolumeBinding(session)
        self._claims = DeviceClaims(session)
        session.allocates_claims = True
        hooks = session.hooks
        hooks.pre_predicate[self.name] = self._why_not_anywhere
        limit = PodLimit(POD_COUNT)
        hooks.row_predicate[self.name] = RowTerms(lambda _class: limit)
        hooks.class_predicate[self.name] = ClassRule(
            self._of_class, version_of=lambda class_: session.labels.version_of(class_.spec)
        )
        hooks.task_predicate[self.name] = self._of_task
        hooks.task_batch_score[self.name] = self._scores
        hooks.is_plain[self.name] = PlainRule(
            self._is_plain_class,
            lambda task: not self._meets_anti_affinity(task),
            lambda task: self._prepare_first((task,)) == 1,
            self._prepare_first,
        )
        hooks.simulation[self.name] = lambda _task, row: AffinitySimulation(
            session, self._pods if self._on.pod_affinity else None, row
        )
        hooks.handlers.append(
            EventHandler(self._allocated, self._deallocated, self._allocated_many)
        )
        self._moves.keeps_kube_view = True

    # The filters that concern a task.

    def _find_concerns(self, class_: TaskClass) -> _Concerns:
        spec, on = class_.spec, self._on
        return _Concerns(
            bool(spec.host_ports) and on.ports,
            has_required_terms(spec) and on.pod_affinity,
            bool(self._spread.constraints[class_]) and on.spread,
            bool(spec.volumes),
            bool(spec.resource_claims or self._session.cache.devices.extended.of(class_.amounts)),
        )

    def _is_plain_class(self, class_: TaskClass) -> bool | None:
        if self._cache is not None or any(self._concerns[class_]):
            return False
        if self._node_filters.why_not_anywhere(class_.spec) is not None:
            return False
        return None if self._checks_existing else True

    def _prepare_first(self, tasks: Sequence[Task]) -> int:
        """Prepares tasks that only anti-affinity of pods on nodes can concern.

        It stops at the first task that it does concern, and returns the number of tasks before.
        """
        if not self._checks_existing:
            return len(tasks)
        count = self._pods.skips_first(tasks)
        if self._frozen:
            for task in tasks[:count]:
                self._frozen.pop(task.uid, None)
        return count

    def _meets_anti_affinity(self, task: Task) -> bool:
        """Whether anti-affinity of pods on nodes may concern a task without terms of its own."""
        return self._checks_existing and self._pods.concerns(task)

    # The filters.

    def _why_not_anywhere(self, task: Task) -> str | None:
        for name, problem in self._pre_filter(task):
            if problem is not None:
                return f"plugin {name} pre-predicates failed {problem}"
        return None

    def _pre_filter(self, task: Task) -> Iterator[tuple[str, str | None]]:
        """Kubernetes' names of the filters that can refuse a task on all nodes, and why they do."""
        yield "NodeAffinity", self._node_filters.why_not_anywhere(task.class_.spec)
        if self._cache is not None:
            self._cache.consider(task)
        if self._checks_existing:
            self._pods.consider(task)
        self._freeze(task)
        concerns = self._concerns[task.class_]
        if concerns.volumes and self._on.volume_zones:
            yield "VolumeZone", self._zones.why_not_anywhere(task)
        if concerns.volumes and self._on.volume_binding:
            yield "VolumeBinding", self._volumes.why_not_anywhere(task)
        if concerns.claims:
            yield "DynamicResources", self._claims.why_not_anywhere(task)

    def _freeze(self, task: Task) -> None:
        """Evaluates affinity and spread for a task.

        Kubernetes counts pods once, before it filters nodes, so that evictions for the task do not
        change the result.
        """
        concerns = self._concerns[task.class_]
        objected = concerns.pod_affinity or self._meets_anti_affinity(task)
        if objected or concerns.spread:
            near = self._pods.refusals(task) if objected else []
            spread = self._spread.refusals(task) if concerns.spread else []
            self._frozen[task.uid] = (near, spread)
        else:
            self._frozen.pop(task.uid, None)

    def _of_class(self, class_: TaskClass, _facet: object) -> Iterable[Refusal]:
        # With the cache, pods of one class may get different results, so that each is evaluated.
        return () if self._cache is not None else self._node_filters.refusals(class_)

    def _of_task(self, task: Task) -> Iterable[Refusal] | None:
        concerns, frozen = self._concerns[task.class_], self._frozen.get(task.uid)
        is_plain = self._cache is None and not any(concerns)
        if frozen is None:
            if is_plain and not self._meets_anti_affinity(task):
                return None
            self._freeze(task)
            frozen = self._frozen.pop(task.uid, ([], []))
        near, spread = frozen
        if is_plain and not near:
            return None
        refusals: list[Refusal] = []
        if self._cache is not None:
            refusals += self._cache.refusals(task)
        if concerns.ports:
            refusals.append(port_refusal(self._session, task.class_.spec.host_ports))
        refusals += near
        if concerns.volumes and self._on.volume_limits:
            refusals += self._limits.refusals(task)
        if concerns.volumes and self._on.volume_zones:
            refusals += self._zones.refusals(task)
        refusals += spread
        if concerns.volumes and self._on.volume_binding:
            refusals += self._volumes.refusals(task)
        if concerns.claims:
            refusals += self._claims.refusals(task)
        return refusals

    def _scores(self, task: Task, rows: Rows) -> Scores | None:
        return self._claims.scores(task, rows) if self._concerns[task.class_].claims else None

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        concerns = self._concerns[task.class_]
        problem = self._reserve(task) if concerns.volumes or concerns.claims else None
        if problem is None:
            self._moves.kube_add(task)
        else:
            self._refused.add(task.uid)
        return problem

    def _allocated_many(self, tasks: list[Task]) -> None:
        """Does nothing: plain tasks reserve nothing, and the session adds them to Kubernetes' view."""

    def _reserve(self, task: Task) -> str | None:
        """Reserves volumes and devices; a text: they are not available.

        As in Volcano, nothing is reserved for a pipelined task, whose spec has no node yet.
        """
        concerns, is_allocated = self._concerns[task.class_], task.status is TaskStatus.ALLOCATED
        row = self._session.table.row_of(task.node_name) if is_allocated else None
        problem = None
        if concerns.volumes and self._on.volume_binding and row is not None:
            problem = self._volumes.reserve(task, row)
        if problem is not None or not concerns.claims:
            return problem
        if task.status is TaskStatus.PIPELINED:
            return self._claims.why_not_pipelined(task)
        return None if row is None else self._claims.reserve(task, row)

    def _deallocated(self, task: Task) -> None:
        if task.class_.spec.volumes:
            self._volumes.unreserve(task)
        if self._concerns[task.class_].claims:
            self._claims.unreserve(task)
        if task.uid in self._refused:
            self._refused.discard(task.uid)
        else:
            self._moves.kube_remove(task)

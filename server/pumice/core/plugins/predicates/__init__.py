"""predicates: Kubernetes' filters.

Filters that depend only on the node are evaluated once for each task class. Filters about pods,
volumes and devices are evaluated for each task that they concern; other tasks are plain. When a task
is placed, its volumes and devices are reserved, and Kubernetes' view of the node includes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, ArgumentType, PluginOptions, boolean, ignored
from pumice.core.model.fit import Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.predicates.binding import VolumeBinding
from pumice.core.plugins.predicates.claims import DeviceClaims
from pumice.core.plugins.predicates.filters import TaskFilter
from pumice.core.plugins.predicates.interpod import AffinitySimulation, InterPodAffinity
from pumice.core.plugins.predicates.node_filters import EquivalenceCache, HostPorts, NodeFilters
from pumice.core.plugins.predicates.spread import TopologySpread
from pumice.core.plugins.predicates.volume_filters import VolumeLimits, VolumeZones
from pumice.core.session.feasibility.terms import PodLimit
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import ClassRule, PlainRule, RowTerms
from pumice.core.session.session import Session

POD_COUNT = "node(s) pod number exceeded"
_TO_DEVICESHARE = "Volcano moved it to the plugin deviceshare"
_NO_CAPACITY_SCORES = "nodes get no score for free storage (StorageCapacityScoring is off)"
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
        "predicate.NodeVolumeLimitsEnable", "checks the volume limits of nodes", default=True
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
        "Volcano does not read it either",
        ArgumentType.BOOL,
    )
    bind_timeout = ignored(
        "volumebinding.bindTimeoutSeconds",
        "the adapter limits the time of a bind",
        ArgumentType.INT,
    )
    capacity_weight = ignored("volumebinding.weight", _NO_CAPACITY_SCORES, ArgumentType.INT)
    capacity_shape = ignored("volumebinding.shape", _NO_CAPACITY_SCORES, ArgumentType.LIST)
    claims_timeout = ignored(
        "dynamicresources.filterTimeoutSeconds",
        "the search for devices has a limit of steps, not of time",
        ArgumentType.INT,
    )
    gpu_sharing = ignored("predicate.GPUSharingEnable", _TO_DEVICESHARE)
    gpu_number = ignored("predicate.GPUNumberEnable", _TO_DEVICESHARE)
    proportional = ignored("predicate.ProportionalEnable", _TO_STRATEGY_FIT)
    proportions = ignored("predicate.resources*", _TO_STRATEGY_FIT)


class _ClassFilters(NamedTuple):
    """The filters that concern some or all tasks of a class."""

    filters: tuple[TaskFilter, ...]
    # Whether one of them concerns all tasks of the class.
    concerns_all: bool


class PredicatesPlugin:
    """Kubernetes' filters in their order, and the handlers that update Kubernetes' view of nodes."""

    name: ClassVar[str] = "predicates"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = PredicatesArguments

    def __init__(self, options: PluginOptions) -> None:
        self._on = PredicatesArguments(options.arguments)
        # By class.
        self._class_filters = Memo(self._find_filters)
        # Tasks whose volumes or devices could not be reserved; they are not in Kubernetes' view.
        self._refused: set[str] = set()

    def open(self, session: Session) -> None:
        self._session = session
        self._moves = session.moves
        on = self._on
        self._nodes = NodeFilters(session, affinity=on.node_affinity, taints=on.taints)
        self._pods = InterPodAffinity(session)
        self._claims, spread = DeviceClaims(session), TopologySpread(session)
        extended = session.cache.devices.extended
        # In Kubernetes' order: whether a filter is on, the filter, and whether it concerns a class;
        # None: it concerns some tasks of the class.
        filters: tuple[tuple[bool, TaskFilter, Callable[[TaskClass], object]], ...] = (
            (on.caches, EquivalenceCache(self._nodes), lambda _: True),
            (on.ports, HostPorts(session), lambda class_: bool(class_.spec.host_ports)),
            (on.pod_affinity, self._pods, self._pods.of_class),
            (on.volume_limits, VolumeLimits(session), _has_volumes),
            (on.volume_zones, VolumeZones(session), _has_volumes),
            (on.spread, spread, lambda class_: bool(spread.constraints[class_])),
            (on.volume_binding, VolumeBinding(session), _has_volumes),
            (
                True,
                self._claims,
                lambda class_: bool(class_.spec.resource_claims or extended.of(class_.amounts)),
            ),
        )
        self._filters = [(filter_, concerns) for is_on, filter_, concerns in filters if is_on]
        session.allocates_claims = True
        hooks = session.hooks
        hooks.pre_predicate[self.name] = self._why_not_anywhere
        limit = PodLimit(POD_COUNT)
        hooks.row_predicate[self.name] = RowTerms(lambda _class: limit)
        # With the cache, pods of one class can get different results.
        if not on.caches:
            hooks.class_predicate[self.name] = ClassRule(
                lambda class_, _facet: self._nodes.refusals(class_),
                version_of=lambda class_: session.labels.version_of(class_.spec),
            )
        hooks.task_predicate[self.name] = self._refusals
        hooks.task_batch_score[self.name] = self._scores
        hooks.is_plain[self.name] = PlainRule(
            self._is_plain_class,
            lambda task: not self._pods.concerns(task),
            self._pods.skips_first,
        )
        hooks.simulation[self.name] = lambda _task, row: AffinitySimulation(
            session, self._pods if on.pod_affinity else None, row
        )
        hooks.handlers.append(
            EventHandler(self._allocated, self._deallocated, self._allocated_many)
        )
        self._moves.keeps_kube_view = True

    # Filters.

    def _find_filters(self, class_: TaskClass) -> _ClassFilters:
        found = [(filter_, concerns(class_)) for filter_, concerns in self._filters]
        return _ClassFilters(
            tuple(filter_ for filter_, concerned in found if concerned is not False),
            any(concerned for _, concerned in found),
        )

    def _is_plain_class(self, class_: TaskClass) -> bool | None:
        """Whether no filter concerns a class; None: anti-affinity of other pods may concern a task."""
        filters, concerns_all = self._class_filters[class_]
        if concerns_all or self._nodes.why_not_anywhere(class_.spec) is not None:
            return False
        return None if filters else True

    def _why_not_anywhere(self, task: Task) -> str | None:
        problem, name = self._nodes.why_not_anywhere(task.class_.spec), "NodeAffinity"
        for filter_ in self._class_filters[task.class_].filters:
            if problem is not None:
                break
            problem, name = filter_.why_not_anywhere(task), filter_.name
        return None if problem is None else f"plugin {name} pre-predicates failed {problem}"

    def _refusals(self, task: Task) -> Iterable[Refusal] | None:
        filters, concerns_all = self._class_filters[task.class_]
        refusals = [refusal for filter_ in filters for refusal in filter_.refusals(task)]
        return refusals if refusals or concerns_all else None

    def _scores(self, task: Task, rows: Rows) -> Scores | None:
        has_claims = self._claims in self._class_filters[task.class_].filters
        return self._claims.scores(task, rows) if has_claims else None

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        problem = self._reserve(task)
        if problem is None:
            self._moves.kube_add(task)
        else:
            self._refused.add(task.uid)
        return problem

    def _allocated_many(self, tasks: list[Task]) -> None:
        """Does nothing: plain tasks reserve nothing, and the session adds them to Kubernetes' view."""

    def _reserve(self, task: Task) -> str | None:
        """Reserves volumes and devices; a text says which of them are not available.

        As in Volcano, nothing is reserved for a pipelined task, whose spec has no node yet.
        """
        row = self._session.table.row_of(task.node_name)
        for filter_ in self._class_filters[task.class_].filters:
            problem = None
            if task.status is TaskStatus.PIPELINED:
                problem = filter_.why_not_pipelined(task)
            elif task.status is TaskStatus.ALLOCATED and row is not None:
                problem = filter_.reserve(task, row)
            if problem is not None:
                return problem
        return None

    def _deallocated(self, task: Task) -> None:
        for filter_ in self._class_filters[task.class_].filters:
            filter_.unreserve(task)
        if task.uid in self._refused:
            self._refused.discard(task.uid)
        else:
            self._moves.kube_remove(task)


def _has_volumes(class_: TaskClass) -> bool:
    return bool(class_.spec.volumes)

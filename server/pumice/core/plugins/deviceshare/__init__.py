"""deviceshare: allocates shares of GPUs and NPUs to pods.

A row predicate refuses nodes whose cards cannot serve the pod, and a score prefers full or empty
cards. When a pod is placed, its cards are chosen; the bind writes the choice as annotations, which
the device plugin of the node reads. Each kind of device has a module.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.plugin_data import PluginData
from pumice.core.cache.settings import LATE_DEVICES
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Arguments,
    Configuration,
    Limit,
    PluginOptions,
    boolean,
    by_name,
    integer,
    mappings,
    text,
)
from pumice.core.configuration.volcano_names import INIT_PARAMETERS, InitParameters
from pumice.core.decisions import SharedDevice
from pumice.core.model.fit import Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.status import ALLOCATED, PIPELINED
from pumice.core.plugins.deviceshare.card_states import LOCKED, CardStates, NodeLocks
from pumice.core.plugins.deviceshare.cards import BINPACK, SPREAD, DeviceKind
from pumice.core.plugins.deviceshare.device_config import DeviceConfig, device_config
from pumice.core.plugins.deviceshare.gpu_share import GpuShare
from pumice.core.plugins.deviceshare.kinds import (
    IGNORED,
    CardsOfKinds,
    ChoiceOfKinds,
    DeviceKinds,
    QuestionOfKinds,
)
from pumice.core.plugins.deviceshare.mindcluster import CORES as CHIP_CORES
from pumice.core.plugins.deviceshare.mindcluster import MindClusterNpu
from pumice.core.plugins.deviceshare.npu import HamiNpu
from pumice.core.plugins.deviceshare.vgpu import VGpu
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import EventHandler, Hooks, Rows, Scores
from pumice.core.session.policies import PlainRule, StateRule
from pumice.core.session.session import Session

_GETS_CARDS = (ALLOCATED, PIPELINED)


class LabelArguments(Arguments):
    """Labels of pods."""

    values = by_name(text("", "", "value of this label"))

    def why_not(self) -> str | None:
        return None if self.values else "must be a mapping of labels to values"


class DeviceShareArguments(Arguments):
    """The kinds of devices that are shared, and the policies."""

    by_memory = boolean("deviceshare.GPUSharingEnable", "shares cards by memory", default=False)
    by_number = boolean("deviceshare.GPUNumberEnable", "allocates whole cards", default=False)
    vgpu = boolean("deviceshare.VGPUEnable", "shares cards by memory and cores", default=False)
    locks = boolean(
        "deviceshare.NodeLockEnable", "locks a node while a pod gets its devices", default=False
    )
    policy = text(
        "deviceshare.SchedulePolicy",
        "",
        "which cards of a node are used first",
        Limit(choices=("", BINPACK, SPREAD)),
    )
    weight = integer("deviceshare.ScheduleWeight", 0, "weight of the score; 0: no score")
    exclusive = mappings(
        "deviceshare.GPUExclusiveRules",
        LabelArguments,
        "mappings of labels; pods that match the same mapping share no card",
    )
    mindcluster = boolean(
        "deviceshare.AscendMindClusterVNPUEnable",
        "shares Ascend 310P NPUs as MindCluster does",
        default=False,
    )
    hami = boolean(
        "deviceshare.AscendHAMiVNPUEnable", "shares Ascend NPUs as HAMi does", default=False
    )
    # The adapter reads this ConfigMap.
    config_name = text(
        "deviceshare.KnownGeometriesCMName",
        "volcano-vgpu-device-config",
        "the ConfigMap with the device configuration",
    )
    config_namespace = text(
        "deviceshare.KnownGeometriesCMNamespace", "kube-system", "its namespace"
    )

    def why_not(self) -> str | None:
        modes = (type(self).by_memory, type(self).by_number, type(self).vgpu)
        on = [argument.name for argument in modes if argument.read(self)]
        return f"only one of {', '.join(on)} can be true" if len(on) > 1 else None

    def kinds(
        self, configuration: Configuration, config: DeviceConfig, data: PluginData
    ) -> list[DeviceKind]:
        """The kinds of devices that are switched on."""
        kinds: list[DeviceKind] = []
        if self.vgpu:
            kinds.append(VGpu(self.policy, [rule.values for rule in self.exclusive], config))
        if self.by_memory or self.by_number:
            kinds.append(GpuShare(by_memory=self.by_memory))
        if self.hami:
            shared = config.shares_npu_cores
            kinds += [HamiNpu(npu, self.policy, shares_cores=shared) for npu in config.npus]
        if self.mindcluster:
            init = InitParameters(configuration.arguments_of(INIT_PARAMETERS))
            kinds.append(MindClusterNpu(data, keeps_free_chips=init.keeps_free_chips))
        return kinds


class DeviceSharePlugin:
    """Chooses cards for pods that request shares of devices."""

    name: ClassVar[str] = "deviceshare"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = DeviceShareArguments

    def __init__(self, options: PluginOptions) -> None:
        self._arguments = DeviceShareArguments(options.arguments)
        self._weight = self._arguments.weight
        # Whether any kind of device is switched on.
        self._is_on = False
        self._locks: NodeLocks | None = None
        self._chips: MindClusterNpu | None = None

    @classmethod
    def ignored_resources(cls, options: PluginOptions, devices: str) -> tuple[str, ...]:
        """Resources that no node offers; they define the share of a device that a container gets."""
        if not DeviceShareArguments(options.arguments).hami:
            return ()
        npus = device_config(devices).npus
        return tuple(name for npu in npus for name in (npu.names.memory, npu.names.cores))

    def open(self, session: Session) -> None:
        data = session.data(self.name)
        config = device_config(session.configuration.device_config)
        kinds = self._arguments.kinds(session.configuration, config, data)
        if not kinds:
            return
        self._is_on = True
        self._kinds = DeviceKinds(kinds)
        # By class.
        self._requests = Memo(self._kinds.request_of)
        self._chips = next((kind for kind in kinds if isinstance(kind, MindClusterNpu)), None)
        self._session = session
        self._table = session.table
        is_late = LATE_DEVICES in session.cache.settings.compat
        read = _reader_of_late_devices(session, self._kinds) if is_late else self._kinds.read
        version = 0 if self._chips is None else data.version
        self._states = session.node_states(self.name, read, version)
        locks = tuple(sorted({kind.lock for kind in kinds if kind.lock}))
        if self._arguments.locks and locks:
            self._locks = NodeLocks(locks, session.table, session.now_ns, self._concerns)
        weight = float(self._weight)
        self._cards = CardStates(self._kinds, self._states, session.table, weight, self._locks)
        # The shares that this session has allocated, by uid of a task.
        self._choices: dict[str, ChoiceOfKinds] = {}
        # The cards of the rows on which tasks are placed together, from before the placement.
        self._accepted: dict[int, CardsOfKinds | None] = {}
        self._register(session.hooks)

    def _register(self, hooks: Hooks) -> None:
        facet = self._kinds.facet_of if self._kinds.has_facets else None
        rest = (self._concerns, self._cards.numbers_of, self._steps, facet)
        hooks.row_predicate[self.name] = StateRule(self._refusals, *rest)
        if self._weight > 0 and self._kinds.has_scores:
            hooks.row_score[self.name] = StateRule(self._scores, *rest)
        if self._weight > 0 and self._chips is not None:
            hooks.task_batch_score[self.name] = self._batch_scores
            hooks.is_plain[self.name] = PlainRule(
                lambda class_: self._chips is None or self._chips.request_of(class_) is None,
                lambda _task: True,
            )
        hooks.handlers.append(
            EventHandler(self._allocated, self._deallocated, self._allocated_many, self._accepts)
        )

    def close(self, session: Session) -> None:
        # The usage of undone placements ends with the session, so that results become invalid.
        for row in sorted(self._cards.undone) if self._is_on else ():
            session.table.touch(row)
        # Locks expire, so that results become invalid.
        for row in sorted(self._locks.ends) if self._locks is not None else ():
            session.table.touch(row)

    def next_wake(self, _now_ns: int) -> int | None:
        """The time at which the next lock of a node ends."""
        return None if self._locks is None else min(self._locks.ends.values(), default=None)

    # Requests.

    def _concerns(self, class_: TaskClass) -> bool:
        return self._requests[class_] is not None

    def _question(self, task: Task, row: int) -> QuestionOfKinds:
        facet = self._kinds.facet_of(task)
        return (self._request(task.class_), facet, self._cards.blocked(facet, row))

    def _request(self, class_: TaskClass) -> tuple[Any, ...]:
        request = self._requests[class_]
        assert request is not None
        return request

    # Predicates and scores.

    def _refusals(self, class_: TaskClass, facet: Hashable, rows: NodeRows) -> tuple[Refusal, ...]:
        request = self._request(class_)
        fits, _ = self._cards.evaluate(rows, request, facet)
        reason = self._kinds.first_requested(request).reason
        never = not self._kinds.is_possible(request, facet)
        if self._locks is None:
            return (Refusal(reason, ~fits, unresolvable=never),)
        where = range(len(self._table)) if rows.index is None else rows.index.tolist()
        locked = np.array([self._locks.is_locked(row) for row in where], dtype=np.bool_)
        return (
            Refusal(LOCKED, locked, unresolvable=True),
            Refusal(reason, ~fits & ~locked, unresolvable=never),
        )

    def _scores(self, class_: TaskClass, facet: Hashable, rows: NodeRows) -> Scores:
        _, scores = self._cards.evaluate(rows, self._request(class_), facet)
        return scores

    def _steps(self, class_: TaskClass, number: int, count: int) -> tuple[float, ...]:
        return self._cards.steps[number, self._request(class_), count]

    def _batch_scores(self, task: Task, rows: Rows) -> Scores | None:
        """MindCluster's scores; None: the pod requests no chip, or a candidate has no cards."""
        assert self._chips is not None
        column = self._table.column_of(CHIP_CORES)
        if column is None or any(self._states.of(row) is None for row in rows):
            return None
        entries = [self._table.rows[row] for row in rows.tolist()]
        points = self._chips.points(task, entries, self._table.idle[column, rows].tolist())
        return None if points is None else np.array(points) * self._weight

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        row = self._table.row_of(task.node_name)
        # A pod whose eviction was undone has another status, and still has its cards.
        if row is None or task.status not in _GETS_CARDS or not self._concerns(task.class_):
            return None
        cards = self._states.of(row)
        if cards == IGNORED:
            return None
        number = self._cards.number(row, now=task.status is ALLOCATED)
        choice = self._cards.answers[number, self._question(task, row)]
        if cards is None or choice is None:
            return self._kinds.first_requested(self._request(task.class_)).reason
        self._assign(task, row, cards, choice)
        return None

    def _assign(self, task: Task, row: int, cards: CardsOfKinds, choice: ChoiceOfKinds) -> None:
        self._choices[task.uid] = choice
        annotations = self._kinds.annotations(task, cards, choice, self._session.now_ns)
        self._session.annotate(task, annotations)
        if self._locks is not None and task.status is ALLOCATED:
            self._locks.reserve(row, task.uid)
            kind = self._kinds.first_requested(self._request(task.class_))
            if kind.lock:
                self._session.outbox.attach_device(task, SharedDevice(kind.name, kind.lock))
        # With MindCluster, the usage also depends on annotations that the device plugin writes.
        if self._chips is None:
            self._states.update(row, self._kinds.with_pod(cards, choice))

    def _accepts(self, tasks: list[Task], rows: list[int]) -> bool:
        """Whether ``_allocated`` will find the same cards as the predicate did for these rows."""
        if not self._concerns(tasks[0].class_):
            return True
        self._accepted = {row: self._states.of(row) for row in rows}
        return not any(self._cards.is_freed(row) for row in self._accepted)

    def _allocated_many(self, tasks: list[Task]) -> None:
        if not self._concerns(tasks[0].class_):
            return
        # The tasks have no cards yet, so that the usage is the same as before the placement.
        for row, cards in self._accepted.items():
            self._states.update(row, cards)
        for task in tasks:
            self._allocated(task)

    def _deallocated(self, task: Task) -> None:
        choice = self._choices.pop(task.uid, None)
        row = self._table.row_of(task.node_name)
        if choice is None or row is None:
            return
        if self._locks is not None:
            self._locks.unreserve(row, task.uid)
            self._session.outbox.attach_device(task, None)
        self._cards.keep_undone(row, choice)


def _reader_of_late_devices(
    session: Session, kinds: DeviceKinds
) -> Callable[[NodeEntry], CardsOfKinds | None]:
    """Reads the cards of nodes that were updated since the first session; others are ignored.

    Volcano reads the devices of a node only when the node is updated after the first session with
    this plugin.
    """
    states = session.cache.node_states
    if states.first_nodes is None:
        rows = session.table.rows
        states.first_nodes = {entry.name: entry.known_node for entry in rows}
    first = states.first_nodes

    def read(entry: NodeEntry) -> CardsOfKinds | None:
        if entry.node is first.get(entry.name):
            return IGNORED
        return kinds.read(entry)

    return read

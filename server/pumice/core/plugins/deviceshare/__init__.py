"""deviceshare: GPUs that pods share, by memory, by number, or as vGPUs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar

import numpy as np

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.settings import LATE_DEVICES
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.decisions import SharedDevice
from pumice.core.model.fit import Refusal
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.deviceshare.automaton import CardStates, add_usage
from pumice.core.plugins.deviceshare.cards import IGNORED, DeviceKind, NodeCards, Taken, Usage
from pumice.core.plugins.deviceshare.gpu_share import GpuShare
from pumice.core.plugins.deviceshare.locks import LOCKED, NodeLocks
from pumice.core.plugins.deviceshare.vgpu import BINPACK, SPREAD, VGpu
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import EventHandler, Scores
from pumice.core.session.policies import KernelStates, StateRule
from pumice.core.session.session import Session

_SHARING = "deviceshare.GPUSharingEnable"
_NUMBER = "deviceshare.GPUNumberEnable"
_VGPU = "deviceshare.VGPUEnable"
_LOCK = "deviceshare.NodeLockEnable"
_POLICY = "deviceshare.SchedulePolicy"
_WEIGHT = "deviceshare.ScheduleWeight"
_RULES = "deviceshare.GPUExclusiveRules"
_ASCEND = "deviceshare.AscendMindClusterVNPUEnable"
_ASCEND_HAMI = "deviceshare.AscendHAMiVNPUEnable"
_GEOMETRIES_NAME = "deviceshare.KnownGeometriesCMName"
_GEOMETRIES_NAMESPACE = "deviceshare.KnownGeometriesCMNamespace"
_NO_GEOMETRIES = "the names of vGPU resources are the built-in ones, and MIG cards are shared"
_ALLOCATED, _PIPELINED = TaskStatus.ALLOCATED, TaskStatus.PIPELINED


def _why_not(values: Mapping[str, object]) -> str | None:
    """What is wrong with the arguments taken together."""
    on = [key for key in (_SHARING, _NUMBER, _VGPU) if values.get(key) is True]
    if len(on) > 1:
        return f"only one of {', '.join(on)} can be true"
    ascend = [key for key in (_ASCEND, _ASCEND_HAMI) if values.get(key) is True]
    if ascend:
        return f"{ascend[0]} cannot be true: Ascend NPUs are not supported yet"
    rules = values.get(_RULES)
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        pairs = rule.items() if isinstance(rule, Mapping) else ()
        if not pairs or not all(isinstance(k, str) and isinstance(v, str) for k, v in pairs):
            return f"{_RULES}[{number}] must be a mapping of labels to values, all of them texts"
    return None


class DeviceSharePlugin:
    """Chooses cards for pods that share GPUs; the choice rides in the bind as annotations."""

    name: ClassVar[str] = "deviceshare"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _SHARING: ArgumentType.BOOL,
            _NUMBER: ArgumentType.BOOL,
            _VGPU: ArgumentType.BOOL,
            _LOCK: ArgumentType.BOOL,
            _POLICY: ArgumentType.STRING,
            _WEIGHT: ArgumentType.INT,
            _RULES: ArgumentType.LIST,
            _ASCEND: ArgumentType.BOOL,
            _ASCEND_HAMI: ArgumentType.BOOL,
            _GEOMETRIES_NAME: ArgumentType.STRING,
            _GEOMETRIES_NAMESPACE: ArgumentType.STRING,
        },
        limits={_POLICY: Limit(choices=("", BINPACK, SPREAD))},
        without_effect={
            _GEOMETRIES_NAME: _NO_GEOMETRIES,
            _GEOMETRIES_NAMESPACE: _NO_GEOMETRIES,
        },
        defaults={
            **dict.fromkeys((_SHARING, _NUMBER, _VGPU, _LOCK, _ASCEND, _ASCEND_HAMI), False),
            _POLICY: "",
            _WEIGHT: 0,
        },
        why_not=_why_not,
    )

    def __init__(self, options: PluginOptions) -> None:
        arguments = options.arguments
        self._kind = _kind_of(options)
        self._weight = arguments.integer(_WEIGHT, 0)
        self._uses_locks = arguments.boolean(_LOCK, default=False)
        self._locks: NodeLocks | None = None
        self._requests: dict[int, Hashable | None] = {}

    def open(self, session: Session) -> None:
        kind = self._kind
        if kind is None:
            return
        self._session = session
        self._table = session.table
        read = _reader_of_late_devices(session, kind) if _is_late(session) else kind.read
        states = session.node_states(self.name, read)
        if self._uses_locks:
            self._locks = NodeLocks(kind.lock, session.table, session.now_ns, self._concerns)
        weight = float(self._weight)
        self._cards = CardStates(kind, states, session.table, weight, self._locks)
        # By uid: what a task was given in this session.
        self._given: dict[str, Taken] = {}
        # The first of the tasks that are being placed, and the cards of their rows before.
        self._accepted: tuple[str, dict[int, NodeCards | None]] = ("", {})
        hooks = session.hooks
        facet = kind.facet_of if isinstance(kind, VGpu) else None
        kept = KernelStates(self._cards.numbers, self._most, self._steps)
        hooks.row_predicate[self.name] = StateRule(
            self._refusals, self._state, self._concerns, facet, kept
        )
        if self._weight > 0 and isinstance(kind, VGpu):
            hooks.row_score[self.name] = StateRule(
                self._scores, self._state, self._concerns, facet, kept
            )
        hooks.handlers.append(
            EventHandler(self._allocated, self._deallocated, self._allocated_many, self._accepts)
        )

    def close(self, session: Session) -> None:
        # What was computed with use that ends with the session must be computed again.
        for row in sorted(self._cards.kept) if self._kind is not None else ():
            session.table.touch(row)
        # Locks end with the time.
        for row in sorted(self._locks.ends) if self._locks is not None else ():
            session.table.touch(row)

    def next_wake(self, _now_ns: int) -> int | None:
        """When the next lock of a node ends."""
        return None if self._locks is None else min(self._locks.ends.values(), default=None)

    # What pods ask for.

    def _request(self, class_: TaskClass) -> Hashable | None:
        known = self._requests.get(class_.number, _NOT_ASKED)
        if known is _NOT_ASKED:
            assert self._kind is not None
            known = self._requests[class_.number] = self._kind.request_of(class_)
        return known

    def _concerns(self, class_: TaskClass) -> bool:
        return self._request(class_) is not None

    def _question(self, task: Task, row: int) -> tuple[Hashable, Hashable, frozenset[int]]:
        assert self._kind is not None
        facet = self._kind.facet_of(task)
        return (self._request(task.class_), facet, self._cards.blocked(facet, row))

    # Over nodes.

    def _state(self, row: int, facet: Hashable) -> Hashable:
        number = self._cards.number(row)
        return number if facet is None else (number, self._cards.blocked(facet, row))

    def _refusals(self, class_: TaskClass, facet: Hashable, rows: NodeRows) -> tuple[Refusal, ...]:
        assert self._kind is not None
        fits, _ = self._cards.evaluate(rows, self._request(class_), facet)
        if self._locks is None:
            return (Refusal(self._kind.reason, ~fits, unresolvable=False),)
        where = range(len(self._table)) if rows.index is None else rows.index.tolist()
        locked = np.array([self._locks.holds(row) for row in where], dtype=np.bool_)
        return (
            Refusal(LOCKED, locked, unresolvable=True),
            Refusal(self._kind.reason, ~fits & ~locked, unresolvable=False),
        )

    def _most(self, class_: TaskClass, number: int, count: int) -> int:
        return self._cards.most(number, self._request(class_), count)

    def _scores(self, class_: TaskClass, facet: Hashable, rows: NodeRows) -> Scores:
        _, scores = self._cards.evaluate(rows, self._request(class_), facet)
        return scores

    def _steps(self, class_: TaskClass, number: int, count: int) -> tuple[float, ...]:
        return self._cards.steps(number, self._request(class_), count)

    # Placements.

    def _allocated(self, task: Task) -> str | None:
        row = self._table.row_of(task.node_name)
        # A pod whose eviction was undone has its cards still.
        if row is None or task.status not in _TAKES or not self._concerns(task.class_):
            return None
        if self._cards.cards(row) is IGNORED:
            return None
        question = self._question(task, row)
        if task.status is _ALLOCATED:
            taken = self._cards.take_now(row, question)
        else:
            taken = self._cards.take(self._cards.number(row), question)
        if taken is None:
            assert self._kind is not None
            return self._kind.reason
        self._give(task, row, taken)
        return None

    def _give(self, task: Task, row: int, taken: Taken) -> None:
        cards = self._cards.cards(row)
        assert self._kind is not None
        assert cards is not None
        self._given[task.uid] = taken
        said = self._kind.annotations(task.node_name, cards, taken, self._session.now_ns)
        self._session.annotate(task, said)
        if self._locks is not None and task.status is _ALLOCATED:
            self._locks.take(row, task.uid)
            device = SharedDevice(self._kind.name, self._locks.name)
            self._session.outbox.attach_device(task, device)
        if isinstance(self._kind, VGpu):
            self._cards.place(row, self._kind.with_shares(cards, task, taken))

    def _accepts(self, tasks: list[Task], rows: list[int]) -> bool:
        """Whether nothing that was found over nodes differs from what ``_allocated`` finds."""
        if not self._concerns(tasks[0].class_):
            return True
        known = {row: self._cards.cards(row) for row in rows}
        self._accepted = (tasks[0].uid, known)
        return not any(self._cards.is_freed(row) for row in known)

    def _allocated_many(self, tasks: list[Task]) -> None:
        if not self._concerns(tasks[0].class_):
            return
        first, known = self._accepted
        if first == tasks[0].uid:
            # The tasks were given no cards yet, so those in use are the same as before.
            for row, cards in known.items():
                self._cards.place(row, cards)
        for task in tasks:
            self._allocated(task)

    def _deallocated(self, task: Task) -> None:
        taken = self._given.pop(task.uid, None)
        row = self._table.row_of(task.node_name)
        if self._locks is not None and taken is not None and row is not None:
            self._locks.give_back(row, task.uid)
            self._session.outbox.attach_device(task, None)
        if taken is None or row is None or not isinstance(self._kind, VGpu):
            return
        # Volcano finds what to give back in the pod's annotations, which a pod that is not bound
        # does not have: its share of a card counts until the session ends.
        kept = list(self._cards.kept.get(row, ()))
        for share in (share for container in taken.shares for share in container):
            kept += [Usage()] * (share.card + 1 - len(kept))
            kept[share.card] = add_usage(kept[share.card], Usage(1, share.memory, share.cores))
        cards = self._cards.cards(row)
        if cards is not None:
            kept += [Usage()] * (len(cards.names) - len(kept))
            self._cards.kept[row] = tuple(kept)
            self._table.touch(row)


_NOT_ASKED = object()
_TAKES = (_ALLOCATED, _PIPELINED)


def _is_late(session: Session) -> bool:
    return LATE_DEVICES in session.cache.settings.compat


def _reader_of_late_devices(
    session: Session, kind: DeviceKind
) -> Callable[[NodeEntry], NodeCards | None]:
    """Reads the cards of nodes that were updated since the first session; others have none.

    Volcano learns in its first session that the plugin is on, and reads a node's devices only when
    the node is updated after that. Until then it ignores them.
    """
    states = session.cache.node_states
    if states.first_nodes is None:
        rows = session.table.rows
        states.first_nodes = {entry.name: entry.node for entry in rows if entry.node is not None}
    first = states.first_nodes

    def read(entry: NodeEntry) -> NodeCards | None:
        if entry.node is first.get(entry.name):
            return IGNORED
        return kind.read(entry)

    return read


def _listed(rules: object) -> list[Mapping[object, object]]:
    return rules if isinstance(rules, list) else []


def _kind_of(options: PluginOptions) -> DeviceKind | None:
    arguments = options.arguments
    if arguments.boolean(_VGPU, default=False):
        rules = [
            {str(key): str(value) for key, value in rule.items()}
            for rule in _listed(arguments.get(_RULES))
        ]
        return VGpu(arguments.text(_POLICY, ""), rules)
    if arguments.boolean(_SHARING, default=False):
        return GpuShare(by_memory=True)
    if arguments.boolean(_NUMBER, default=False):
        return GpuShare(by_memory=False)
    return None

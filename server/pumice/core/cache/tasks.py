"""Tasks, one for each pod, and task classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.configuration import Configuration
from pumice.core.model.fit import FitErrors
from pumice.core.model.pod import Pod, PodSpec
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Number, Resources
from pumice.core.model.status import (
    PIPELINED,
    RELEASING,
    TaskStatus,
    status_of,
)
from pumice.patterns.golang import parse_int

Floats = NDArray[np.float64]

QUEUE_ALLOCATION_GATE = "scheduling.volcano.sh/queue-allocation-gate"
# The feature gate with which queues decide when Volcano's scheduling gate is lifted.
QUEUE_ADMISSION = "SchedulingGatesQueueAdmission"


class ClassWeights:
    """What one task of a class adds to the amounts of its node, by its status and the view."""

    __slots__ = ("held", "kube", "pipelined", "placed", "releasing", "request")

    def __init__(self, request: Floats, class_: TaskClass) -> None:
        spec = class_.spec
        nothing = np.zeros(len(request))
        none = np.zeros(3)
        # The parts are idle, used, releasing, future, what Kubernetes counts as requested, and what
        # it counts for scores (cpu, memory, pods).
        self.request = request
        self.held = np.concatenate((-request, request, nothing, -request, nothing, none))
        self.releasing = np.concatenate((-request, request, request, nothing, nothing, none))
        self.pipelined = np.concatenate((nothing, nothing, nothing, -request, nothing, none))
        counted = np.array([spec.non_zero_milli_cpu, spec.non_zero_memory_bytes, 1.0])
        self.kube = np.concatenate((nothing, nothing, nothing, nothing, request, counted))
        # In both views at once.
        self.placed = self.held + self.kube

    def of(self, status: TaskStatus) -> Floats:
        if status is RELEASING:
            return self.releasing
        return self.pipelined if status is PIPELINED else self.held


@dataclass(slots=True, eq=False)
class TaskClass:
    """The tasks with one spec: they request the same, and the same nodes are feasible for them."""

    number: int
    spec: PodSpec
    amounts: tuple[tuple[str, int], ...]
    # What the volumes of its tasks request beside the spec.
    extra: tuple[tuple[str, int], ...] = ()
    request: Resources = field(init=False)
    best_effort: bool = field(init=False)
    # Whether the indexes for rules about other pods have its tasks.
    is_indexed: bool = field(init=False)
    # Tasks in the cache that are of this class.
    task_count: int = 0
    # Made by the node table, once per layout.
    weights: ClassWeights | None = None
    layout: int = -1

    def __post_init__(self) -> None:
        self.request = Resources.of(self.amounts)
        self.best_effort = self.request.is_empty()
        spec = self.spec
        self.is_indexed = bool(spec.has_pod_affinity or spec.host_ports or spec.volumes)

    def least(self, resource: str) -> Number | None:
        """How much of a resource a node must have; None: any amount is enough."""
        return self.request.get(resource)


_NOT_ASKED = -1


@dataclass(slots=True)
class Transaction:
    """The placement of a task in a statement that was discarded."""

    status: TaskStatus
    node_name: str
    eviction_occurred: bool


class Task:
    """A pod in the cache. A session changes it, and undoes what it does not commit."""

    __slots__ = (
        "_pod_index",
        "best_effort",
        "bind_annotations",
        "class_",
        "counted_status",
        "entered_view",
        "eviction_occurred",
        "gated",
        "job_id",
        "last_transaction",
        "name",
        "node_name",
        "pod",
        "priority",
        "reported_condition",
        "request",
        "role",
        "status",
        "uid",
    )

    def __init__(self, pod: Pod, class_: TaskClass, job_id: str) -> None:
        self.uid = pod.uid
        self.name = pod.name
        self.pod = pod
        self.class_ = class_
        self.request = class_.request
        self.best_effort = class_.best_effort
        self.job_id = job_id
        self.role = pod.role
        self.priority = pod.task_priority
        self.gated = bool(class_.spec.scheduling_gates)
        self.status = status_of(pod)
        self.node_name = pod.node_name
        # The status by which the node table counts this task; None: the table does not count it.
        self.counted_status: TaskStatus | None = None
        # Annotations that plugins add with the bind; they count while the task is on its node.
        self.bind_annotations: tuple[tuple[str, str], ...] = ()
        self.eviction_occurred = False
        # Whether it entered Kubernetes' view of its node in the running session.
        self.entered_view = False
        self.last_transaction: Transaction | None = None
        # The last condition that was reported about the unplaced pod; it is not reported twice.
        self.reported_condition: tuple[str, str, str] | None = None
        self._pod_index: int | None = _NOT_ASKED

    def __repr__(self) -> str:
        return f"Task({self.key}, {self.status.word}, {self.node_name or '-'})"

    # Rarely used, so not stored for every task.

    @property
    def key(self) -> str:
        return self.pod.key

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations, with those that our bind adds."""
        if not self.node_name or not self.bind_annotations:
            return self.pod.annotations
        return {**self.pod.annotations, **dict(self.bind_annotations)}

    @property
    def order_key(self) -> tuple[int, str, str]:
        """The order of iteration where Volcano iterates over a map of tasks."""
        return (self.pod.creation_time_ns, self.pod.key, self.uid)

    @property
    def pod_index(self) -> int | None:
        """The number at the end of its name; found when first asked for."""
        if self._pod_index == _NOT_ASKED:
            self._pod_index = _pod_index(self.name)
        return self._pod_index

    @property
    def only_volcano_gate(self) -> bool:
        return self.class_.spec.scheduling_gates == (QUEUE_ALLOCATION_GATE,)

    @property
    def wants_queue_admission(self) -> bool:
        """Whether the pod asks for Volcano's gate, which is lifted when its queue has room."""
        return self.pod.annotations.get(QUEUE_ALLOCATION_GATE) == "true"


_INDEXED_NAME_PARTS = 3
_PLAIN_DIGITS = 18


def _pod_index(name: str) -> int | None:
    """The number at the end of a name with at least three parts, as ``job-role-7``."""
    if name.count("-") < _INDEXED_NAME_PARTS - 1:
        return None
    last = name[name.rindex("-") + 1 :]
    # A fast path for most names. Digits of other scripts are not digits here.
    if len(last) <= _PLAIN_DIGITS and last.isascii() and last.isdigit():
        return int(last)
    return parse_int(last)


# Why no node is feasible for a task, or why its queue refuses it.
Cause = FitErrors | ReasonCode


@dataclass(slots=True, eq=False)
class TasksToPlace:
    """The tasks of a job that need a node, in order, and why none was placed.

    It stays valid over sessions, for one version of the job.
    """

    version: int
    configuration: Configuration
    # In the order in which they are tried.
    tasks: list[Task]
    # Whether the job needs all its tasks to start.
    needs_all: bool
    # Whether these are all tasks of the job, and all alike.
    is_uniform: bool = False
    # Why the first of them cannot be placed, and the reasons that the job was given.
    cause: Cause | None = None
    reasons: tuple[Reason, ...] = ()

"""Jobs and their pods, as far as controllers read them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from pumice.controllers.runtime.objects import ApiObject, Manifest, Metadata
from pumice.patterns.golang import parse_int

JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION_ID: Final = "volcano.sh/partition-id"
QUEUE_NAME: Final = "volcano.sh/queue-name"
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
# Annotations of pods with times that a restarted controller needs: since when the pod's task restarts
# too often, and when the pod that this pod replaces was evicted.
FAILING_SINCE: Final = "pumice.sh/failing-since"
EVICTED_AT: Final = "pumice.sh/evicted-at"


def _number(text: str, default: int) -> int:
    """The number in an annotation; the default if users changed it to another text."""
    number = parse_int(text, 32)
    return default if number is None or number < 0 else number


def job_version(metadata: Metadata) -> int:
    """The version of the Job for which a pod or a PodGroup was created."""
    return _number(metadata.annotation(JOB_VERSION), 0)


class Phase(StrEnum):
    """Phases of a Job."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


FINISHED: Final = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})


class Action(StrEnum):
    """The actions of Commands and lifecycle policies, and SyncJob, which is the default."""

    SYNC = "SyncJob"
    ABORT = "AbortJob"
    RESUME = "ResumeJob"
    RESTART = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"

    @classmethod
    def read(cls, text: str) -> "Action":
        """The action with this name; SyncJob for any other text, as in Volcano."""
        return cls(text) if text in cls._value2member_map_ else cls.SYNC


class Policy(msgspec.Struct, rename="camel", gc=False):
    """A lifecycle policy: the action for an event or an exit code."""

    action: str = ""
    event: str = ""
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class DependsOn(msgspec.Struct):
    """Tasks that must be ready before the pods of a task are created."""

    name: list[str] | None = None
    iteration: str = ""


class Partitions(msgspec.Struct, rename="camel"):
    """Partitions of a task."""

    partition_size: int = 0
    min_partitions: int = 0
    network_topology: Manifest | None = None


class Task(msgspec.Struct, rename="camel"):
    """One task of a Job."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: Manifest = {}
    policies: list[Policy] | None = None
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: Partitions | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """The pod spec of the template."""
        return self.template.get("spec") or {}

    def partition_of(self, index: int) -> str:
        """The id of a pod's partition; "": the task has no partitions."""
        if self.partition_policy is None:
            return ""
        size = self.partition_policy.partition_size
        return str(index // size) if size > 0 else "0"


class Volume(msgspec.Struct, rename="camel"):
    """One volume of a Job."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: Manifest | None = None


class JobSpec(msgspec.Struct, rename="camel"):
    """The spec of a Job."""

    scheduler_name: str = ""
    min_available: int = 0
    volumes: list[Volume] | None = None
    tasks: list[Task] | None = None
    policies: list[Policy] | None = None
    plugins: dict[str, list[str] | None] | None = None
    queue: str = "default"
    max_retry: int = 0
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: Manifest | None = None

    @property
    def total(self) -> int:
        return sum(task.replicas for task in self.tasks or ())


class JobState(msgspec.Struct, rename="camel", omit_defaults=True):
    """The phase of a Job, and the action that led to it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(msgspec.Struct, rename="camel"):
    """When a Job last entered a phase."""

    status: str
    last_transition_time: str | None = None


class JobStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """The status of a Job."""

    state: JobState = msgspec.field(default_factory=JobState)
    min_available: int = 0
    task_status_count: dict[str, dict[str, dict[str, int]]] | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None

    @property
    def phase(self) -> Phase:
        """The phase; Pending if none is stored, or an unknown one."""
        known = self.state.phase in Phase._value2member_map_
        return Phase(self.state.phase) if known else Phase.PENDING


class Job(ApiObject):
    """A Job."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class _Terminated(msgspec.Struct, rename="camel", gc=False):
    exit_code: int = 0
    finished_at: str | None = None


class _ContainerState(msgspec.Struct, gc=False):
    terminated: _Terminated | None = None


def _terminated(states: Iterable[_ContainerState | None]) -> list[_Terminated]:
    found = [state.terminated for state in states if state is not None]
    return [one for one in found if one is not None]


class ContainerStatus(msgspec.Struct, rename="camel"):
    """The state of one container."""

    ready: bool = False
    restart_count: int = 0
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None


class _PodCondition(msgspec.Struct, rename="camel", gc=False):
    last_transition_time: str | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    conditions: list[_PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(ApiObject):
    """A pod of a Job."""

    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def task(self) -> str:
        return self.metadata.annotation(TASK_SPEC)

    @property
    def index(self) -> int:
        text = self.metadata.annotation(TASK_INDEX) or self.metadata.name.rpartition("-")[2]
        return _number(text, -1)

    @property
    def version(self) -> int:
        return job_version(self.metadata)

    @property
    def partition(self) -> str:
        return self.metadata.label(PARTITION_ID)

    @property
    def is_marked(self) -> bool:
        """Whether the controller marked the pod for deletion."""
        return bool(self.metadata.annotation(OUT_OF_SYNC))

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def exit_codes(self) -> tuple[int, ...]:
        """Exit codes of the terminated containers, in the order of the containers."""
        states = [one.state for one in self.status.container_statuses or ()]
        return tuple(one.exit_code for one in _terminated(states))

    @property
    def _all_container_statuses(self) -> Iterator[ContainerStatus]:
        yield from self.status.container_statuses or ()
        yield from self.status.init_container_statuses or ()

    @property
    def restarts(self) -> int:
        return sum(one.restart_count for one in self._all_container_statuses)

    @property
    def restarted_at(self) -> str:
        """When a restarted container last terminated; "": no container was restarted."""
        states = [one.last_state for one in self._all_container_statuses]
        return max((one.finished_at or "" for one in _terminated(states)), default="")

    @property
    def is_ready(self) -> bool:
        """Whether the pod is Succeeded, or Running with all containers ready."""
        if self.status.phase != "Running":
            return self.status.phase == "Succeeded"
        return all(one.ready for one in self.status.container_statuses or ())

    @property
    def changed_at(self) -> str:
        """The latest time in the pod's status; its creation, if there is none."""
        states = [one.state for one in self.status.container_statuses or ()]
        times = [one.finished_at or "" for one in _terminated(states)]
        times += [one.last_transition_time or "" for one in self.status.conditions or ()]
        return max(times, default="") or self.metadata.creation_timestamp


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod of a job that another client deleted."""

    task: str
    pod: str
    version: int
    partition: str
    at_ms: int


class PriorityClass(ApiObject):
    """A PriorityClass."""

    value: int = 0

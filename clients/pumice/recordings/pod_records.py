"""Pods and jobs of a recording, with the times of their creation, placement, run and end."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.v1.decision_pb2 import Decision
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, Pod

# Causes of the end of a pod that did not finish.
BY_USER, BY_EVICTION, BY_NODE = "user", "eviction", "node"
# Deleted because other pods of its job had finished.
BY_CLEANUP = "cleanup"
# Pods of a job that finish within this time finish together.
TOGETHER_NS = 1_000_000_000
# Maximum time from the end of a node to that of its pods, and from a pod to its replacement.
SOON_NS = 60 * 1_000_000_000
# Objects that are deleted within this time count as deleted by one command.
AT_ONCE_NS = 2 * 1_000_000_000


@dataclass(slots=True)
class PodRecord:
    """A pod of a recording. A time is 0 if its event was not recorded."""

    uid: str
    # The pod at its creation, without a node.
    pod: Pod
    created_ns: int
    # Whether the pod existed when the recording began.
    is_old: bool = False
    # Changes of the spec while the pod waited, with their times.
    changes: list[tuple[int, Pod]] = field(default_factory=list)
    decided_ns: int = 0
    # The decision to bind the pod, until it is bound.
    bind_decision: Decision | None = None
    bound_ns: int = 0
    node: str = ""
    running_ns: int = 0
    # The start time that the cluster reports, by the cluster's clock.
    start_time_ns: int = 0
    finished_ns: int = 0
    final_phase: int = 0
    # The pod's run time while the job's minimum of pods ran; and the job's run time at the pod's end.
    run_ns: int = 0
    job_run_ns: int = 0
    evicted_ns: int = 0
    terminating_ns: int = 0
    gone_ns: int = 0
    ended_by: str = ""
    # The uid of the replacement; empty if there is none.
    replaced_by: str = ""
    replaces: str = ""

    @property
    def key(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"

    @property
    def job(self) -> str:
        return f"{self.pod.namespace}/{self.pod.group_name}" if self.pod.group_name else self.key

    @property
    def cpu(self) -> int:
        return self.pod.spec.requests.get("cpu", 0)


@dataclass(slots=True)
class JobRecord:
    """A PodGroup of a recording; a pod without a PodGroup is a separate job."""

    job: str
    queue: str
    created_ns: int
    min_member: int = 1
    # Running pods, and the time since when they reach the minimum.
    running: set[str] = field(default_factory=set)
    since_ns: int = 0
    finished_ns: list[int] = field(default_factory=list)
    # The run time of a job whose pods finish together; 0 if they do not.
    run_ns: int = 0
    # The number of finished pods after which the others are deleted, and the delay.
    cleaned_after: int = 0
    cleanup_ns: int = 0
    # The time of the deletion of its PodGroup.
    group_end_ns: int = 0

    def pod_runs(self, uid: str, now_ns: int) -> None:
        self.running.add(uid)
        if not self.since_ns and len(self.running) >= max(self.min_member, 1):
            self.since_ns = now_ns

    def pod_stops(self, uid: str) -> None:
        """Removes a pod; the job's run is interrupted when fewer than the minimum of pods run."""
        self.running.discard(uid)
        if len(self.running) < max(self.min_member, 1):
            self.since_ns = 0


def as_created(pod: Pod) -> Pod:
    """The pod at its creation, without node and status."""
    made = Pod()
    made.CopyFrom(pod)
    made.node_name = made.nominated_node_name = ""
    made.phase = POD_PHASE_PENDING
    made.terminating = False
    made.ClearField("start_time")
    del made.conditions[:]
    return made

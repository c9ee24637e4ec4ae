"""What became of pods and jobs in a recording: when they came, were placed, ran and went."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.v1.decision_pb2 import Decision
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, Pod

# Who ended a pod that did not end by itself.
BY_USER, BY_EVICTION, BY_NODE = "user", "eviction", "node"
# It was not needed any more: others of its job had finished.
BY_CLEANUP = "cleanup"
# Pods that finish within such a time finish together: their job is what ends.
TOGETHER_NS = 1_000_000_000
# A pod that is gone so soon after its node went with it, or comes so soon after one like it went
# instead of that one.
SOON_NS = 60 * 1_000_000_000
# What is deleted within such a time is deleted with one command.
AT_ONCE_NS = 2 * 1_000_000_000


@dataclass(slots=True)
class PodLife:
    """One pod, from the first word of it to the last. Times are 0 where it was not seen."""

    uid: str
    # As it was created: on no node, and not started.
    pod: Pod
    created_ns: int
    # It was there when the recording began.
    is_old: bool = False
    # What its owner made of it while it waited, and when: gates, labels.
    changes: list[tuple[int, Pod]] = field(default_factory=list)
    decided_ns: int = 0
    # The decision to bind it, while it is on its way.
    order: Decision | None = None
    bound_ns: int = 0
    node: str = ""
    running_ns: int = 0
    # What the cluster says to that, by its own clock.
    start_time_ns: int = 0
    finished_ns: int = 0
    final_phase: int = 0
    # How long it ran once enough of its job did; and how long enough of its job had run by then.
    run_ns: int = 0
    job_run_ns: int = 0
    evicted_ns: int = 0
    terminating_ns: int = 0
    gone_ns: int = 0
    ended_by: str = ""
    # The uid of the pod that was made in its place, if any.
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
class JobLife:
    """The pods of a PodGroup; a pod without one is a job of its own."""

    job: str
    queue: str
    created_ns: int
    min_member: int = 1
    # Pods that run now; since when there are enough of them.
    running: set[str] = field(default_factory=set)
    since_ns: int = 0
    finished_ns: list[int] = field(default_factory=list)
    # Of a job whose pods finish together: how long it runs as a whole. 0: they do not.
    run_ns: int = 0
    # Of a job whose other pods are deleted when some have finished: how many, and how long after.
    cleaned_after: int = 0
    cleanup_ns: int = 0
    # When its PodGroup was deleted.
    group_end_ns: int = 0

    def runs(self, uid: str, now_ns: int) -> None:
        self.running.add(uid)
        if not self.since_ns and len(self.running) >= max(self.min_member, 1):
            self.since_ns = now_ns

    def stops(self, uid: str) -> None:
        """An interruption: what is left begins anew when there are enough again."""
        self.running.discard(uid)
        if len(self.running) < max(self.min_member, 1):
            self.since_ns = 0


def as_created(pod: Pod) -> Pod:
    """The pod before anybody did anything to it."""
    made = Pod()
    made.CopyFrom(pod)
    made.node_name = made.nominated_node_name = ""
    made.phase = POD_PHASE_PENDING
    made.terminating = False
    made.ClearField("start_time")
    del made.conditions[:]
    return made

"""The state of a pod and of a job in a comparison."""

from dataclasses import dataclass

from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE
from pumice.v1.pod_pb2 import Pod

_BY_A_SCHEDULER = "PreemptionByScheduler"


@dataclass(slots=True)
class Proposal:
    """Our decision, which is not applied."""

    node: str = ""
    reason: str = ""
    # End of its validity. Until then the core assumes it.
    until: float = 0.0
    # Time of our first decision.
    first: float | None = None

    def is_valid(self, now: float) -> bool:
        return self.first is not None and now < self.until

    def make(self, node: str, reason: str, now: float, until: float) -> None:
        self.node, self.reason, self.until = node, reason, until
        if self.first is None:
            self.first = now


@dataclass(slots=True)
class JobRecord:
    """The times at which both schedulers started a job."""

    name: str
    pods: int = 0
    ours_at: float | None = None
    theirs_at: float | None = None
    # Whether its start was compared, or preceded the comparison.
    is_compared: bool = False
    is_reported: bool = False


@dataclass(slots=True)
class PodRecord:
    """The last version of a pod, and the proposals for it."""

    name: str
    job: JobRecord
    bind: Proposal
    eviction: Proposal
    node: str = ""
    is_evicted: bool = False
    # Whether their bind or eviction was compared, or preceded the comparison.
    is_bind_compared: bool = False
    is_eviction_compared: bool = False
    # Whether the difference was reported.
    is_bind_reported: bool = False
    is_eviction_reported: bool = False


def is_evicted(pod: Pod) -> bool:
    """Whether a scheduler evicts the pod, and not its owner or the kubelet."""
    return pod.terminating and any(
        one.type == "DisruptionTarget"
        and one.status == CONDITION_STATUS_TRUE
        and one.reason == _BY_A_SCHEDULER
        for one in pod.conditions
    )


def job_of(pod: Pod) -> str:
    """`namespace/name` of the PodGroup, or of the pod itself."""
    return f"{pod.namespace}/{pod.group_name or pod.name}"

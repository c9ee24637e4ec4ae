"""What is remembered of a pod and of a job while two schedulers are compared."""

from dataclasses import dataclass

from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE
from pumice.v1.pod_pb2 import Pod

_BY_A_SCHEDULER = "PreemptionByScheduler"


@dataclass(slots=True)
class Proposal:
    """A decision of ours that nobody carries out."""

    node: str = ""
    reason: str = ""
    # Until when it stands; the core takes it for true until then.
    until: float = 0.0
    # When we first decided so.
    first: float | None = None

    def is_standing(self, now: float) -> bool:
        return self.first is not None and now < self.until

    def make(self, node: str, reason: str, now: float, until: float) -> None:
        self.node, self.reason, self.until = node, reason, until
        if self.first is None:
            self.first = now


@dataclass(slots=True)
class JobRecord:
    """When a job was started, by whom."""

    name: str
    pods: int = 0
    ours_at: float | None = None
    theirs_at: float | None = None
    # It ran before we looked, or has been judged: there is nothing more to say about its start.
    is_compared: bool = False
    is_told: bool = False


@dataclass(slots=True)
class PodRecord:
    """A pod as it was last told, and what we would have done with it."""

    name: str
    job: JobRecord
    bind: Proposal
    eviction: Proposal
    node: str = ""
    is_evicted: bool = False
    # Their bind, their eviction is compared, or was there before we looked.
    is_bind_compared: bool = False
    is_eviction_compared: bool = False
    # People know that we would have, and they have not.
    is_bind_told: bool = False
    is_eviction_told: bool = False


def is_evicted(pod: Pod) -> bool:
    """Whether a scheduler takes it away, and not its owner or the kubelet."""
    return pod.terminating and any(
        one.type == "DisruptionTarget"
        and one.status == CONDITION_STATUS_TRUE
        and one.reason == _BY_A_SCHEDULER
        for one in pod.conditions
    )


def job_of(pod: Pod) -> str:
    """`namespace/name` of the PodGroup, or of the pod itself."""
    return f"{pod.namespace}/{pod.group_name or pod.name}"

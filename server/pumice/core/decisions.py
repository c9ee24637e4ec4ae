"""What leaves the engine: decisions, statuses to write, events to record, reasons to wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.core.model.devices import ClaimChoice, DeviceAllocation
from pumice.core.model.group import PodGroupStatus
from pumice.core.model.pod import Pod
from pumice.core.model.reasons import Reason

# Values that a session makes by the thousand are not frozen, because frozen ones take longer to
# make. No code changes them.


@dataclass(slots=True, unsafe_hash=True)
class Gang:
    """The group that a decision belongs to; it is applied whole or not at all."""

    # Unique over sessions: the session's number and the job.
    id: str
    job: str
    pod_group_uid: str
    # Hash of the PodGroup's fields that scheduling reads.
    spec_hash: str
    # Decisions with this id, evictions made for the gang included.
    size: int


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """A claim of the pod and where its volume shall come from."""

    claim: str
    # Empty: provision a new one for the node.
    volume_name: str


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """A device that the pod shares, and the annotation by which its node is locked for the bind."""

    type: str
    node_lock: str


@dataclass(slots=True, unsafe_hash=True)
class Bind:
    """Bind this pod to this node."""

    id: str
    namespace: str
    name: str
    uid: str
    node: str
    gang: Gang | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    volumes: tuple[VolumeChoice, ...] = ()
    claims: tuple[ClaimChoice, ...] = ()
    device: SharedDevice | None = None

    def __str__(self) -> str:
        return f"bind {self.name} {self.node}"


def given_by(bind: Bind) -> dict[str, DeviceAllocation]:
    """The devices that a bind gives to claims, by ``namespace/name`` of the claim."""
    return {
        f"{bind.namespace}/{choice.claim}": choice.allocation
        for choice in bind.claims
        if choice.allocation is not None
    }


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict this pod, to make room for a job."""

    id: str
    namespace: str
    name: str
    uid: str
    node: str
    reason: str
    for_job: str = ""
    gang: Gang | None = None
    # The job that loses it, for those who explain; not part of the order.
    job: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"evict {self.name}" + (
            f" for {self.for_job.rpartition('/')[2]}" if self.for_job else ""
        )


Decision = Bind | Evict


@dataclass(slots=True, unsafe_hash=True)
class PodGroupStatusChanged:
    """A PodGroup's status differs from what the cluster holds."""

    namespace: str
    name: str
    uid: str
    status: PodGroupStatus


@dataclass(frozen=True, slots=True)
class QueueStatusChanged:
    """What a queue's jobs hold differs from what the cluster says; amounts as in requests."""

    name: str
    uid: str
    allocated: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NodeShardStatusChanged:
    """The nodes that this scheduler claims differ from those in its NodeShard's status."""

    name: str
    uid: str
    nodes_in_use: tuple[str, ...]
    nodes_to_add: tuple[str, ...]
    nodes_to_remove: tuple[str, ...]


@dataclass(slots=True, unsafe_hash=True)
class PodConditionChanged:
    """A pod that was not placed: its PodScheduled condition, and the node it waits for if any."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    nominated_node_name: str = ""


@dataclass(frozen=True, slots=True)
class PodGateLifted:
    """A scheduling gate that the pod no longer needs: its queue has room for it."""

    namespace: str
    name: str
    uid: str
    gate: str


StatusChange = (
    PodGroupStatusChanged
    | QueueStatusChanged
    | PodConditionChanged
    | NodeShardStatusChanged
    | PodGateLifted
)


@dataclass(slots=True, unsafe_hash=True)
class Event:
    """An event about an object."""

    kind: str
    namespace: str
    name: str
    uid: str
    warning: bool
    reason: str
    message: str

    @classmethod
    def about(cls, pod: Pod, reason: str, message: str) -> Event:
        """A warning about a pod."""
        return cls("Pod", pod.namespace, pod.name, pod.uid, True, reason, message)


@dataclass(slots=True, unsafe_hash=True)
class Wait:
    """A job that stays pending, and why."""

    job: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class PluginFault:
    """A plugin or action that raised; its job, or the plugin, was left out of the session."""

    author: str
    where: str
    job: str
    error: str
    # Where the error was raised in the plugin's own code, or where the function begins whose answer
    # was wrong; empty and 0: unknown.
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """The time that a session spent in an action, in a plugin, or in a plugin during an action."""

    # Also ``open`` and ``close``, where plugins register their functions and finish.
    action: str
    # Empty: the whole action, with all plugins that it called.
    plugin: str
    duration_ns: int
    calls: int


@dataclass(frozen=True, slots=True)
class Question:
    """An HTTP request for the adapter to send; the answer comes back as data for the plugin."""

    plugin: str
    # The name of the data that the answer becomes.
    name: str
    url: str
    body: str
    timeout_ns: int
    # Whether the plugin waits for an answer.
    needs_answer: bool = True


@dataclass(frozen=True, slots=True)
class SessionResult:
    """What one session decided and found."""

    session: int
    now_ns: int
    decisions: tuple[Decision, ...] = ()
    statuses: tuple[StatusChange, ...] = ()
    events: tuple[Event, ...] = ()
    waits: tuple[Wait, ...] = ()
    faults: tuple[PluginFault, ...] = ()
    # Counts of work done, by name: what benchmarks and tests assert instead of time.
    work: dict[str, int] = field(default_factory=dict)
    # Actions in the order in which they ran, each with the number of decisions made by its end.
    made_by: tuple[tuple[str, int], ...] = ()
    questions: tuple[Question, ...] = ()
    # Empty without a stopwatch. Nothing that is decided depends on it.
    timings: tuple[Timing, ...] = ()

    def action_of(self, decision: Decision) -> str:
        """The action that made a decision; empty for decisions made before the first action."""
        number = int(decision.id.rpartition(".")[2])
        return next((name for name, end in self.made_by if number < end), "")

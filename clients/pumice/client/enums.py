"""The enums of the protocol as string enums, with user-visible spelling."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TypeVar

from google.protobuf.descriptor import EnumDescriptor


class PodGroupPhase(StrEnum):
    """The phase of a PodGroup, as Volcano spells it."""

    UNSPECIFIED = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class QueueState(StrEnum):
    """The state of a Queue, as Volcano spells it."""

    UNSPECIFIED = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class Stage(StrEnum):
    """The stages that a job passes before it runs, in their order."""

    UNSPECIFIED = ""
    QUEUE = "queue"
    QUOTA = "quota"
    ENQUEUE = "enqueue"
    SHARE = "share"
    GANG = "gang"
    NODES = "nodes"
    PREEMPTION = "preemption"
    BINDING = "binding"


class StageResult(StrEnum):
    """The result of a stage."""

    UNSPECIFIED = ""
    PASSED = "passed"
    HELD_BACK = "held back"
    NOT_REACHED = "not reached"
    NOT_CONFIGURED = "not configured"


class StartOutcome(StrEnum):
    """The outcome of the estimate of a start."""

    UNSPECIFIED = ""
    STARTED = "started"
    EXPECTED = "expected"
    NOT_WITHIN_HORIZON = "not within horizon"
    NEVER = "never"
    UNDECIDED = "undecided"


class JobVerdict(StrEnum):
    """Whether a job would be placed, and otherwise why it waits.

    UNSPECIFIED means not determined, or newer than this client.
    """

    UNSPECIFIED = "unspecified"
    # All pods of the job have a node.
    PLACED = "placed"
    # Enough pods of the job have a node for the job to run.
    PARTLY_PLACED = "partly placed"
    # The job would start after the deletion of the pods that would be evicted for it.
    AFTER_EVICTIONS = "after evictions"
    # The job would fit if the cluster were empty.
    NOT_NOW = "not now"
    # The job waits while its queue, an ancestor of the queue or its namespace is at its limit.
    AT_LIMIT = "at limit"
    # The job requests more than the limit of its queue or namespace.
    ABOVE_LIMIT = "above limit"
    # The job does not fit on the nodes, even if they were empty.
    NEVER_FITS = "never fits"
    # Something must be changed first, such as a closed queue.
    HELD = "held"
    # No session considers the job.
    NOT_EXAMINED = "not examined"
    # Objects of the job were left out; the problems name them.
    INVALID = "invalid"


class Severity(StrEnum):
    """The severity of a problem."""

    UNSPECIFIED = ""
    ERROR = "error"
    WARNING = "warning"


class PauseReason(StrEnum):
    """Why a cluster is not scheduled."""

    UNSPECIFIED = "unspecified"
    NO_ADAPTER = "no adapter"
    SNAPSHOT_INCOMPLETE = "snapshot incomplete"
    NO_CONFIGURATION = "no configuration"
    DRIFT = "drift"
    LIMIT_EXCEEDED = "limit exceeded"


class ReasonCode(StrEnum):
    """The kind of a reason. UNSPECIFIED means one that is newer than this client."""

    UNSPECIFIED = "unspecified"
    NOT_ENQUEUED = "not enqueued"
    QUEUE_MISSING = "queue missing"
    QUEUE_NOT_OPEN = "queue not open"
    QUEUE_OVERUSED = "queue overused"
    QUEUE_QUOTA = "queue quota"
    CLUSTER_OVERCOMMITTED = "cluster overcommitted"
    NAMESPACE_QUOTA = "namespace quota"
    GANG_INVALID = "gang invalid"
    GANG_SHORT = "gang short"
    NO_NODE_FITS = "no node fits"
    ROLE_FAILED = "role failed"
    GATED = "gated"
    PIPELINED = "pipelined"
    NO_VICTIMS = "no victims"
    COOLING_DOWN = "cooling down"
    PLUGIN_FAULT = "plugin fault"
    CAPABILITY_MISSING = "capability missing"
    TOPOLOGY_NOT_READY = "topology not ready"
    TIER_UNKNOWN = "tier unknown"
    NO_DOMAIN_FITS = "no domain fits"
    NO_LABEL_DOMAIN_FITS = "no label domain fits"
    EXTENDER_WAITS = "extender waits"


E = TypeVar("E", bound=StrEnum)


def member_of(words: type[E], protocol: EnumDescriptor, number: int) -> E:
    """The member for a number of the protocol's enum; UNSPECIFIED for an unknown number."""
    found: E = _members(words, protocol).get(number, words["UNSPECIFIED"])
    return found


def number_of(word: StrEnum, protocol: EnumDescriptor) -> int:
    return protocol.values_by_name[f"{_prefix(protocol)}{word.name}"].number


@cache
def _members(words: type[E], protocol: EnumDescriptor) -> dict[int, E]:
    names = words.__members__
    prefix = _prefix(protocol)
    known = {number: each.name[len(prefix) :] for number, each in protocol.values_by_number.items()}
    return {number: names[name] for number, name in known.items() if name in names}


def _prefix(protocol: EnumDescriptor) -> str:
    return protocol.values_by_number[0].name.removesuffix("UNSPECIFIED")


def phase_named(word: str) -> PodGroupPhase:
    """The phase with this name, ignoring case. Raises ValueError for other names."""
    known = {phase.lower(): phase for phase in PodGroupPhase if phase}
    if word.lower() not in known:
        allowed = ", ".join(known.values())
        raise ValueError(f"unknown phase {word!r}; allowed: {allowed}")
    return known[word.lower()]

"""Reasons as data: who holds a job back, why, and with which numbers; and sentences about jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """Why something waits, in one word."""

    NOT_ENQUEUED = "not-enqueued"
    QUEUE_MISSING = "queue-missing"
    QUEUE_NOT_OPEN = "queue-not-open"
    QUEUE_OVERUSED = "queue-overused"
    QUEUE_QUOTA = "queue-quota"
    CLUSTER_OVERCOMMITTED = "cluster-overcommitted"
    NAMESPACE_QUOTA = "namespace-quota"
    GANG_INVALID = "gang-invalid"
    GANG_SHORT = "gang-short"
    NO_NODE_FITS = "no-node-fits"
    ROLE_FAILED = "role-failed"
    GATED = "gated"
    PIPELINED = "pipelined"
    NO_VICTIMS = "no-victims"
    COOLING_DOWN = "cooling-down"
    PLUGIN_FAULT = "plugin-fault"
    CAPABILITY_MISSING = "capability-missing"
    TOPOLOGY_NOT_READY = "topology-not-ready"
    TIER_UNKNOWN = "tier-unknown"
    NO_DOMAIN_FITS = "no-domain-fits"
    NO_LABEL_DOMAIN_FITS = "no-label-domain-fits"
    EXTENDER_WAITS = "extender-waits"


@dataclass(frozen=True, slots=True)
class NodeCount:
    """Nodes refused for one reason."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A limit of a queue that would be exceeded, in the units of its resource."""

    # The job's own queue, or an ancestor.
    queue: str
    resource: str
    asked: int
    used: int
    allowed: int


@dataclass(frozen=True, slots=True)
class Reason:
    """One stage at which a job or task was held back."""

    # The action or plugin that said so.
    author: str
    code: ReasonCode
    # The task that blocks, by pod name; empty when it is about the whole job.
    task: str = ""
    have: int = 0
    need: int = 0
    # Resource names, roles or other names; the code says which.
    subjects: tuple[str, ...] = ()
    nodes: tuple[NodeCount, ...] = ()
    limits: tuple[QueueLimit, ...] = ()


def about(reason: Reason) -> str:
    """The subjects of a reason in brackets, where there are any."""
    return f" ({', '.join(reason.subjects)})" if reason.subjects else ""


def _queue(reason: Reason) -> str:
    return f"queue {reason.subjects[0]}" if reason.subjects else "its queue"


# Sentences for the reasons that hold a whole job back, as conditions and explanations show them,
# the most important ones first. No text contains an amount that changes from session to session:
# a condition is written only when its text changes.
JOB_SENTENCES: Mapping[ReasonCode, Callable[[Reason], str]] = {
    ReasonCode.QUEUE_MISSING: lambda r: f"{_queue(r)} does not exist",
    ReasonCode.QUEUE_NOT_OPEN: lambda r: f"{_queue(r)} is not open, so nothing in it starts",
    ReasonCode.PLUGIN_FAULT: lambda r: f"plugin {r.author} failed",
    ReasonCode.COOLING_DOWN: lambda _: "its binds were refused, and it is left out for a while",
    ReasonCode.CAPABILITY_MISSING: lambda _: "the adapter cannot do what placing it needs",
    ReasonCode.NAMESPACE_QUOTA: lambda r: f"it is above its namespace's quota{about(r)}",
    ReasonCode.QUEUE_QUOTA: lambda r: f"it is above what its queue may have{about(r)}",
    ReasonCode.CLUSTER_OVERCOMMITTED: lambda r: (
        f"with it more would be admitted than the cluster can hold{about(r)}"
    ),
    ReasonCode.EXTENDER_WAITS: lambda _: "the extender has not answered yet",
    ReasonCode.TOPOLOGY_NOT_READY: lambda r: f"the HyperNodes do not form a tree{about(r)}",
    ReasonCode.TIER_UNKNOWN: lambda r: (
        f"it must keep to a tier of the network that no HyperNode has{about(r)}"
    ),
    ReasonCode.NO_DOMAIN_FITS: lambda r: (
        f"no HyperNode up to tier {r.subjects[0]} takes it"
        if r.subjects
        else "no HyperNode takes it"
    ),
    ReasonCode.NO_LABEL_DOMAIN_FITS: lambda r: (
        f"no nodes with the same value of label {''.join(r.subjects[:1])} take it"
    ),
}

# Volcano has no words for these, so a condition may add ours to its own text.
_WITHOUT_VOLCANO_WORDS = (
    ReasonCode.QUEUE_NOT_OPEN,
    ReasonCode.COOLING_DOWN,
    ReasonCode.CAPABILITY_MISSING,
    ReasonCode.TOPOLOGY_NOT_READY,
    ReasonCode.TIER_UNKNOWN,
    ReasonCode.NO_DOMAIN_FITS,
    ReasonCode.NO_LABEL_DOMAIN_FITS,
    ReasonCode.EXTENDER_WAITS,
)


def job_text(reasons: Iterable[Reason]) -> str:
    """Why a job without pods is not admitted; empty: no reason is known."""
    return _text(reasons, JOB_SENTENCES)


def added_text(reasons: Iterable[Reason]) -> str:
    """What Volcano's text of a condition does not say; mostly empty."""
    # Where nodes of a HyperNode were tried, Volcano says what they lack.
    left_out = [r for r in reasons if r.code is not ReasonCode.NO_DOMAIN_FITS or not r.nodes]
    return _text(left_out, _WITHOUT_VOLCANO_WORDS)


def _text(reasons: Iterable[Reason], codes: Iterable[ReasonCode]) -> str:
    by_code: dict[ReasonCode, Reason] = {}
    for reason in reasons:
        by_code.setdefault(reason.code, reason)
    return "; ".join([JOB_SENTENCES[c](by_code[c]) for c in codes if c in by_code])

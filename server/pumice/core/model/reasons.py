"""Reasons as data: who held something back, why, and with which numbers. Text is made elsewhere."""

from __future__ import annotations

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
    EXTENDER_WAITS = "extender-waits"


@dataclass(frozen=True, slots=True)
class NodeCount:
    """Nodes refused for one reason."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A limit of a queue that is in the way, in the units of its resource."""

    # The job's own queue, or one above it.
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
    # Resource names, roles or whatever else the code is about.
    subjects: tuple[str, ...] = ()
    nodes: tuple[NodeCount, ...] = ()
    limits: tuple[QueueLimit, ...] = ()

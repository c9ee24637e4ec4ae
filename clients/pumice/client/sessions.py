"""Sessions and their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pumice.client.reasons import PluginFault, Wait
from pumice.client.values import Value, seconds_from, time_from
from pumice.v1 import decision_pb2, session_pb2


@dataclass(frozen=True, slots=True)
class Bind(Value):
    """The decision to bind a pod to a node. Pod and job are ``namespace/name``."""

    pod: str
    node: str
    job: str


@dataclass(frozen=True, slots=True)
class Evict(Value):
    """The decision to evict a pod. Pod and job are ``namespace/name``."""

    pod: str
    node: str
    # The action: ``preempt``, ``reclaim`` …
    reason: str
    # The job for which the pod is evicted; empty if there is none.
    for_job: str


@dataclass(frozen=True, slots=True)
class QueueShare(Value):
    """The share of a queue, in the units of the protocol: thousandths of a CPU, bytes."""

    name: str
    deserved: Mapping[str, int]
    allocated: Mapping[str, int]
    # The requests of all jobs of the queue, running and pending.
    requested: Mapping[str, int]
    # The minimum requests of its Inqueue jobs.
    inqueue: Mapping[str, int]
    # The largest ratio of allocated to deserved over the resources.
    share: float
    overused: bool

    @staticmethod
    def from_proto(message: session_pb2.QueueShare) -> QueueShare:
        return QueueShare(
            name=message.name,
            deserved=dict(message.deserved),
            allocated=dict(message.allocated),
            requested=dict(message.requested),
            inqueue=dict(message.inqueue),
            share=message.share,
            overused=message.overused,
        )


@dataclass(frozen=True, slots=True)
class SessionTiming(Value):
    """The time that a session spent in an action, in a plugin, or in a plugin during an action."""

    # The name of an action, or ``open`` or ``close`` for the start and the end of the session.
    action: str
    # Empty for the whole action, with all plugins that it called.
    plugin: str
    duration_seconds: float
    call_count: int

    @staticmethod
    def from_proto(message: session_pb2.SessionTiming) -> SessionTiming:
        duration = seconds_from(message.duration)
        return SessionTiming(message.action, message.plugin, duration, message.call_count)


@dataclass(frozen=True, slots=True)
class SessionSummary(Value):
    """The figures of a session."""

    number: int
    start_time: datetime | None
    duration_seconds: float
    # The sequence number of the last change that the session includes.
    based_on_seq: int
    config_hash: str
    bind_count: int
    evict_count: int
    # Jobs that stayed pending.
    wait_count: int
    fault_count: int
    # Counts of work, such as examined nodes.
    work: Mapping[str, int]
    # Functions of built-in plugins are measured in ``open`` and ``close`` only.
    timings: tuple[SessionTiming, ...] = ()

    @staticmethod
    def from_proto(message: session_pb2.SessionSummary) -> SessionSummary:
        return SessionSummary(
            number=message.session,
            start_time=time_from(message.start_time),
            duration_seconds=seconds_from(message.duration),
            based_on_seq=message.based_on_seq,
            config_hash=message.config_hash,
            bind_count=message.bind_count,
            evict_count=message.evict_count,
            wait_count=message.wait_count,
            fault_count=message.fault_count,
            work=dict(message.work),
            timings=tuple(map(SessionTiming.from_proto, message.timings)),
        )


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of the protocol, separated into binds and evictions."""

    binds: tuple[Bind, ...]
    evictions: tuple[Evict, ...]

    @staticmethod
    def from_proto(
        decisions: Iterable[decision_pb2.Decision], gangs: Iterable[decision_pb2.Gang]
    ) -> Decisions:
        jobs = {gang.id: gang.job for gang in gangs}
        binds, evictions = [], []
        for each in decisions:
            if each.HasField("bind"):
                job = jobs.get(each.gang_id, "")
                binds.append(Bind(f"{each.bind.namespace}/{each.bind.name}", each.bind.node, job))
            elif each.HasField("evict"):
                evict = each.evict
                pod = f"{evict.namespace}/{evict.name}"
                evictions.append(Evict(pod, evict.node, evict.reason, evict.for_job))
        return Decisions(tuple(binds), tuple(evictions))


@dataclass(frozen=True, slots=True)
class Session(Value):
    """A session with its decisions."""

    summary: SessionSummary
    binds: tuple[Bind, ...]
    evictions: tuple[Evict, ...]
    waits: tuple[Wait, ...]
    faults: tuple[PluginFault, ...]
    # The number of skipped sessions between the previous one of a watch and this one.
    skipped_count: int
    # Whether decisions or waits are missing; the counts in the summary are always complete.
    truncated: bool

    @staticmethod
    def from_proto(message: session_pb2.SessionDetail, skipped_count: int = 0) -> Session:
        decisions = Decisions.from_proto(message.decisions, message.gangs)
        return Session(
            summary=SessionSummary.from_proto(message.summary),
            binds=decisions.binds,
            evictions=decisions.evictions,
            waits=tuple(map(Wait.from_proto, message.waits)),
            faults=tuple(map(PluginFault.from_proto, message.faults)),
            skipped_count=skipped_count,
            truncated=message.truncated or message.summary_only,
        )

    @staticmethod
    def from_pages(pages: list[session_pb2.SessionDetail]) -> Session:
        whole = session_pb2.SessionDetail()
        for page in pages:
            whole.MergeFrom(page)
        # Each page has the summary, and is marked as truncated.
        whole.summary.CopyFrom(pages[-1].summary)
        whole.truncated = False
        whole.summary_only = pages[-1].summary_only
        return Session.from_proto(whole)

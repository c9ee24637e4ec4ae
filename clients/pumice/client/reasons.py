"""Reasons why jobs and tasks wait: the data from a core, and its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pumice.client.amounts import amount
from pumice.client.enums import ReasonCode, member_of
from pumice.client.values import Value
from pumice.v1 import reason_pb2


@dataclass(frozen=True, slots=True)
class NodeCount(Value):
    """The number of nodes that a predicate rejected with the same text."""

    reason: str
    node_count: int


@dataclass(frozen=True, slots=True)
class QueueLimit(Value):
    """A limit of a queue that a request exceeds, in the units of the protocol."""

    queue: str
    resource: str
    asked: int
    used: int
    allowed: int

    def __str__(self) -> str:
        asked, used, allowed = (
            amount(self.resource, each) for each in (self.asked, self.used, self.allowed)
        )
        return f"{self.resource} of queue {self.queue}: {asked} asked, {used} of {allowed} used"


@dataclass(frozen=True, slots=True)
class Reason(Value):
    """Why a job or a task waits. ``str`` is the author and the text."""

    # The action or plugin with this reason.
    author: str
    code: ReasonCode
    # The pod; empty for the whole job.
    task: str = ""
    have: int = 0
    need: int = 0
    # Names of resources, roles, queues or gates.
    subjects: tuple[str, ...] = ()
    nodes: tuple[NodeCount, ...] = ()
    limits: tuple[QueueLimit, ...] = ()

    @staticmethod
    def from_proto(message: reason_pb2.Reason) -> Reason:
        return Reason(
            author=message.author,
            code=member_of(ReasonCode, reason_pb2.ReasonCode.DESCRIPTOR, message.code),
            task=message.task,
            have=message.have,
            need=message.need,
            subjects=tuple(message.subjects),
            nodes=tuple(NodeCount(each.reason, each.node_count) for each in message.nodes),
            limits=tuple(
                QueueLimit(each.queue, each.resource, each.asked, each.used, each.allowed)
                for each in message.limits
            ),
        )

    @property
    def text(self) -> str:
        """The reason without its author: ``0/1 tasks fit``."""
        write = _TEXTS.get(self.code)
        return self.code.value if write is None else write(self)

    def to_dict(self) -> dict[str, Any]:
        return {**super(Reason, self).to_dict(), "text": self.text}

    def __str__(self) -> str:
        return f"{self.author}: {self.text}"


@dataclass(frozen=True, slots=True)
class Wait(Value):
    """A job that stays pending, with its reasons."""

    # ``namespace/name``.
    job: str
    reasons: tuple[Reason, ...]

    @staticmethod
    def from_proto(message: reason_pb2.Wait) -> Wait:
        return Wait(message.job, tuple(map(Reason.from_proto, message.reasons)))

    @property
    def why(self) -> str:
        return why(self.reasons)


@dataclass(frozen=True, slots=True)
class PluginFault(Value):
    """An error in a plugin or action, and the job that the session skipped because of it."""

    author: str
    where: str
    job: str
    error: str
    # The position of the error in the plugin's own code; empty and 0 if unknown.
    file: str = ""
    line: int = 0

    @staticmethod
    def from_proto(message: reason_pb2.PluginFault) -> PluginFault:
        return PluginFault(
            message.author, message.where, message.job, message.error, message.file, message.line
        )

    def __str__(self) -> str:
        """``NAME failed in HOOK (FILE:LINE): ERROR``."""
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.author} failed in {self.where}{place}: {self.error}"


def merge_tasks(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Merges reasons that differ only in their task; the result names the first task and a count."""
    tasks: dict[Reason, list[str]] = {}
    for reason in reasons:
        tasks.setdefault(replace(reason, task=""), []).append(reason.task)
    return tuple(replace(reason, task=_first_of(names)) for reason, names in tasks.items())


def why(reasons: Iterable[Reason], separator: str = "; ") -> str:
    """The text of all reasons; tasks with the same reason share it."""
    return separator.join(map(str, merge_tasks(reasons)))


def _first_of(names: list[str]) -> str:
    first, *more = names
    return f"{first} and {len(more)} more" if first and more else first


def _names(reason: Reason) -> str:
    return ", ".join(reason.subjects)


def _about(reason: Reason) -> str:
    """The subjects in parentheses, if there are any."""
    return f" ({_names(reason)})" if reason.subjects else ""


def _task(reason: Reason, text: str) -> str:
    return f"{reason.task}: {text}" if reason.task else text


def _queue(reason: Reason) -> str:
    return f"queue {_names(reason)}" if reason.subjects else "the queue"


def _queue_quota(reason: Reason) -> str:
    about = f" ({'; '.join(map(str, reason.limits))})" if reason.limits else _about(reason)
    return _task(reason, f"above the queue's limit{about}")


def _gang_invalid(reason: Reason) -> str:
    if reason.need:
        return f"{reason.have} of {reason.need} needed pods exist{_about(reason)}"
    return f"too few pods exist{_about(reason)}"


def _gang_short(reason: Reason) -> str:
    return f"{reason.have}/{reason.need} tasks fit{_about(reason)}"


def _no_node_fits(reason: Reason) -> str:
    counts = ", ".join(f"{count.node_count} {count.reason}" for count in reason.nodes)
    return _task(reason, f"no node fits: {counts}" if counts else "no node fits")


def _no_label_domain_fits(reason: Reason) -> str:
    key = "".join(reason.subjects[:1])
    return _with_nearest(reason, f"no nodes with the same value of label {key} take it")


def _no_domain_fits(reason: Reason) -> str:
    tier = f" up to tier {reason.subjects[0]}" if reason.subjects else ""
    return _with_nearest(reason, f"no HyperNode{tier} takes it")


def _with_nearest(reason: Reason, text: str) -> str:
    if len(reason.subjects) > 1:
        text += f": {reason.subjects[1]} has room for {reason.have} of {reason.need} tasks"
    return text


_TEXTS: Mapping[ReasonCode, Callable[[Reason], str]] = {
    ReasonCode.NOT_ENQUEUED: lambda r: f"not admitted yet{_about(r)}",
    ReasonCode.QUEUE_MISSING: lambda r: f"{_queue(r)} does not exist",
    ReasonCode.QUEUE_NOT_OPEN: lambda r: f"{_queue(r)} is not open",
    ReasonCode.QUEUE_OVERUSED: lambda r: f"{_queue(r)} has its share",
    ReasonCode.QUEUE_QUOTA: _queue_quota,
    ReasonCode.CLUSTER_OVERCOMMITTED: lambda r: (
        f"more is admitted than the cluster holds{_about(r)}"
    ),
    ReasonCode.NAMESPACE_QUOTA: lambda r: f"above the namespace's quota{_about(r)}",
    ReasonCode.GANG_INVALID: _gang_invalid,
    ReasonCode.GANG_SHORT: _gang_short,
    ReasonCode.NO_NODE_FITS: _no_node_fits,
    ReasonCode.ROLE_FAILED: lambda r: _task(r, f"another task of its role did not fit{_about(r)}"),
    ReasonCode.GATED: lambda r: _task(r, f"has a scheduling gate{_about(r)}"),
    ReasonCode.PIPELINED: lambda r: _task(r, "waits for room that is being freed"),
    ReasonCode.NO_VICTIMS: lambda r: _task(r, f"no eviction would help{_about(r)}"),
    ReasonCode.COOLING_DOWN: lambda _: "its binds were refused; it waits a while",
    ReasonCode.PLUGIN_FAULT: lambda r: f"a plugin failed{_about(r)}",
    ReasonCode.CAPABILITY_MISSING: lambda r: (
        f"the adapter cannot do what placing it needs{_about(r)}"
    ),
    ReasonCode.TOPOLOGY_NOT_READY: lambda r: f"the HyperNodes do not form a tree{_about(r)}",
    ReasonCode.TIER_UNKNOWN: lambda r: f"no HyperNode has the tier that it must keep to{_about(r)}",
    ReasonCode.NO_DOMAIN_FITS: _no_domain_fits,
    ReasonCode.NO_LABEL_DOMAIN_FITS: _no_label_domain_fits,
    ReasonCode.EXTENDER_WAITS: lambda _: "the extender has not answered yet",
}

"""Reasons as sentences: the core says why in data, people read it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pumice.client.amounts import amount
from pumice.v1 import reason_pb2
from pumice.v1.reason_pb2 import Reason, ReasonCode


def reason_text(reason: Reason) -> str:
    """What held something back, without its author: ``0/1 tasks fit``."""
    write = _TEXTS.get(reason.code)
    return ReasonCode.Name(reason.code) if write is None else write(reason)


def told(reason: Reason) -> str:
    """The same with whoever said so in front: ``gang: 0/1 tasks fit``."""
    return f"{reason.author}: {reason_text(reason)}"


def summarized(reasons: Iterable[Reason]) -> list[Reason]:
    """The same reasons, each said once: tasks that are held back alike share it."""
    tasks: dict[bytes, list[str]] = {}
    shared: dict[bytes, Reason] = {}
    for reason in reasons:
        alike = Reason()
        alike.CopyFrom(reason)
        alike.task = ""
        key = alike.SerializeToString(deterministic=True)
        shared[key] = alike
        tasks.setdefault(key, []).append(reason.task)
    for key, reason in shared.items():
        first, *more = tasks[key]
        reason.task = f"{first} and {len(more)} more" if first and more else first
    return list(shared.values())


def _names(reason: Reason) -> str:
    return ", ".join(reason.subjects)


def _about(reason: Reason) -> str:
    """The subjects in brackets, where there are any."""
    return f" ({_names(reason)})" if reason.subjects else ""


def _task(reason: Reason, text: str) -> str:
    return f"{reason.task}: {text}" if reason.task else text


def _queue(reason: Reason) -> str:
    return f"queue {_names(reason)}" if reason.subjects else "the queue"


def _queue_quota(reason: Reason) -> str:
    over = (
        f"{limit.resource} of queue {limit.queue}: {amount(limit.resource, limit.asked)} asked,"
        f" {amount(limit.resource, limit.used)} of {amount(limit.resource, limit.allowed)} used"
        for limit in reason.limits
    )
    about = f" ({'; '.join(over)})" if reason.limits else _about(reason)
    return _task(reason, f"above the queue's limit{about}")


def _gang_invalid(reason: Reason) -> str:
    if reason.need:
        return f"{reason.have} of {reason.need} needed pods exist{_about(reason)}"
    return f"too few pods exist{_about(reason)}"


def _gang_short(reason: Reason) -> str:
    return f"{reason.have}/{reason.need} tasks fit{_about(reason)}"


def _no_node_fits(reason: Reason) -> str:
    counts = ", ".join(f"{count.nodes} {count.reason}" for count in reason.nodes)
    return _task(reason, f"no node fits: {counts}" if counts else "no node fits")


_TEXTS: Mapping[int, Callable[[Reason], str]] = {
    reason_pb2.REASON_CODE_NOT_ENQUEUED: lambda r: f"not let in yet{_about(r)}",
    reason_pb2.REASON_CODE_QUEUE_MISSING: lambda r: f"{_queue(r)} does not exist",
    reason_pb2.REASON_CODE_QUEUE_NOT_OPEN: lambda r: f"{_queue(r)} is not open",
    reason_pb2.REASON_CODE_QUEUE_OVERUSED: lambda r: f"{_queue(r)} has its share",
    reason_pb2.REASON_CODE_QUEUE_QUOTA: _queue_quota,
    reason_pb2.REASON_CODE_CLUSTER_OVERCOMMITTED: lambda r: (
        f"more is let in than the cluster holds{_about(r)}"
    ),
    reason_pb2.REASON_CODE_NAMESPACE_QUOTA: lambda r: f"above the namespace's quota{_about(r)}",
    reason_pb2.REASON_CODE_GANG_INVALID: _gang_invalid,
    reason_pb2.REASON_CODE_GANG_SHORT: _gang_short,
    reason_pb2.REASON_CODE_NO_NODE_FITS: _no_node_fits,
    reason_pb2.REASON_CODE_ROLE_FAILED: lambda r: _task(
        r, f"another task of its role did not fit{_about(r)}"
    ),
    reason_pb2.REASON_CODE_GATED: lambda r: _task(r, f"has a scheduling gate{_about(r)}"),
    reason_pb2.REASON_CODE_PIPELINED: lambda r: _task(r, "waits for room that is being freed"),
    reason_pb2.REASON_CODE_NO_VICTIMS: lambda r: _task(r, f"no eviction would help{_about(r)}"),
    reason_pb2.REASON_CODE_COOLING_DOWN: lambda _: "its binds were refused; it waits a while",
    reason_pb2.REASON_CODE_PLUGIN_FAULT: lambda r: f"a plugin failed{_about(r)}",
    reason_pb2.REASON_CODE_CAPABILITY_MISSING: lambda r: (
        f"the adapter cannot do what placing it needs{_about(r)}"
    ),
}

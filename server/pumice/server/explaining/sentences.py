"""Writes the sentence of an explanation from its facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pumice.core.model.reasons import JOB_SENTENCES, Reason, ReasonCode, about
from pumice.core.model.status import TaskStatus
from pumice.server.explaining.facts import Facts
from pumice.server.explaining.formatting import amount, concerns_pod_only, counted, of_one_node
from pumice.v1 import explanation_pb2 as pb
from pumice.v1 import group_pb2

_PLACED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_DONE = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
# Order of reasons. Root causes come first, because other reasons follow from them.
_ORDER = {
    code: number
    for number, code in enumerate(
        (
            ReasonCode.QUEUE_MISSING,
            ReasonCode.QUEUE_NOT_OPEN,
            ReasonCode.PLUGIN_FAULT,
            ReasonCode.COOLING_DOWN,
            ReasonCode.CAPABILITY_MISSING,
            ReasonCode.NAMESPACE_QUOTA,
            ReasonCode.QUEUE_QUOTA,
            ReasonCode.CLUSTER_OVERCOMMITTED,
            ReasonCode.NOT_ENQUEUED,
            ReasonCode.QUEUE_OVERUSED,
            ReasonCode.GANG_INVALID,
            ReasonCode.TOPOLOGY_NOT_READY,
            ReasonCode.TIER_UNKNOWN,
            ReasonCode.GATED,
            ReasonCode.NO_DOMAIN_FITS,
            ReasonCode.NO_LABEL_DOMAIN_FITS,
            ReasonCode.EXTENDER_WAITS,
            ReasonCode.GANG_SHORT,
            ReasonCode.NO_NODE_FITS,
            ReasonCode.ROLE_FAILED,
            ReasonCode.PIPELINED,
            ReasonCode.NO_VICTIMS,
        )
    )
}

# Reasons that a pod which is too large for any node may have.
_SIZE_REASONS = frozenset(
    {
        ReasonCode.QUEUE_QUOTA,
        ReasonCode.GANG_SHORT,
        ReasonCode.NO_NODE_FITS,
        ReasonCode.NO_VICTIMS,
    }
)


def sentence_of(facts: Facts, explanation: pb.Explanation) -> str:
    """Two or three sentences: the state, the reason, and the nearest nodes."""
    if explanation.pod:
        return _pod(facts, explanation)
    return _job(facts, explanation)


def _job(facts: Facts, explanation: pb.Explanation) -> str:
    counts = facts.counts
    placed = sum(counts.get(status, 0) for status in _PLACED)
    pending = counts.get(TaskStatus.PENDING, 0)
    if not facts.has_group:
        if not counts:
            return f"{facts.job} is no longer in the cluster. {_evicted(explanation)}".strip()
        return f"{facts.job} has pods but no PodGroup, so it is not scheduled."
    if facts.reasons:
        head = f"{facts.job} waits"
        if placed:
            head += f" with {placed} of {sum(counts.values())} pods placed"
        why = f"{_why(facts, facts.reasons)}{_similar_queues(facts)}"
        return f"{head}: {why}.{_nearest(facts, explanation)}"
    if explanation.phase == group_pb2.POD_GROUP_PHASE_COMPLETED:
        return f"{facts.job} is done."
    if pending:
        return f"{facts.job} has {_pods(pending)} that no session has examined yet."
    if placed:
        text = f"{facts.job} runs: {placed} of {sum(counts.values())} pods are placed."
        return f"{text}{_node(explanation)}{_evicted_count(explanation)}"
    done = sum(counts.get(status, 0) for status in _DONE)
    if done:
        return f"{facts.job} is done: all of its {done} pods have ended."
    gone = _evicted(explanation)
    return gone or f"{facts.job} has no pods yet."


def _pod(facts: Facts, explanation: pb.Explanation) -> str:
    name = f"pod {explanation.pod}"
    if not facts.pod_is_ours:
        whose = f" ({facts.pod_scheduler}, by its schedulerName)" if facts.pod_scheduler else ""
        return f"{name} belongs to another scheduler{whose}."
    if facts.pod_status is None:
        return _evicted(explanation) or f"{name} no longer exists."
    if facts.pod_status in _PLACED:
        return f"{name} is on {facts.pod_node}{_by(explanation)}.{_node(explanation)}"
    if facts.pod_status is TaskStatus.RELEASING:
        return _evicted(explanation) or f"{name} is being deleted from {facts.pod_node}."
    if facts.pod_status is not TaskStatus.PENDING:
        return f"{name} has ended."
    if not facts.job:
        return f"{name} belongs to no job, so it is not scheduled."
    if not facts.has_group:
        return f"{name} waits: its PodGroup {facts.job} does not exist."
    own = [reason for reason in facts.reasons if reason.task == explanation.pod]
    if own:
        return f"{name} waits: {_why(facts, tuple(own))}.{_nearest(facts, explanation)}"
    if not facts.reasons:
        return f"{name} waits; no session has examined it yet."
    why = f"{_why(facts, facts.reasons)}{_similar_queues(facts)}"
    return f"{name} waits for its job: {why}.{_nearest(facts, explanation)}"


def _why(facts: Facts, reasons: tuple[Reason, ...]) -> str:
    """The texts of the most important reasons, at most three, without duplicates."""
    if facts.node_count == 0:
        return "the cluster has no nodes"
    if facts.no_tree:
        return facts.no_tree
    texts: list[str] = []
    informative = _informative(reasons)
    if facts.too_large and any(reason.code in _SIZE_REASONS for reason in informative):
        texts.append(_too_large(facts))
        informative = [reason for reason in informative if reason.code not in _SIZE_REASONS]
    for reason in sorted(informative, key=lambda each: _ORDER[each.code]):
        text = _TEXTS[reason.code](reason)
        if text not in texts:
            texts.append(text)
    specific = [text for text in texts if text != _NOT_ADMITTED] or texts
    more = len(specific) - 3
    return "; ".join(specific[:3]) + (f" (and {more} more)" if more > 0 else "")


def _too_large(facts: Facts) -> str:
    """The text for a pod that fits on no empty node."""
    asked = " and ".join(amount(lack.resource, lack.need) for lack in facts.too_large)
    there = " and ".join(
        f"more than {amount(lack.resource, lack.have)}" if lack.have > 0 else f"any {lack.resource}"
        for lack in facts.too_large
    )
    return f"{facts.blocking} asks for {asked}, and no node has {there}"


def _informative(reasons: tuple[Reason, ...]) -> list[Reason]:
    """Omits reasons that add nothing, such as a gang of one that is short by one."""
    kept = [r for r in reasons if r.code is not ReasonCode.GANG_SHORT or r.need > 1]
    if any(concerns_pod_only(reason.nodes) for reason in kept):
        # Evictions do not help if the reason concerns the pod itself.
        kept = [r for r in kept if r.code is not ReasonCode.NO_VICTIMS]
    if any(reason.limits for reason in kept):
        # The other pods of the gang exceed the same limit.
        kept = [r for r in kept if r.code is not ReasonCode.QUEUE_QUOTA or r.limits]
    return kept or list(reasons)


def _similar_queues(facts: Facts) -> str:
    """Similar names for a queue that does not exist."""
    return f" (there is {' and '.join(facts.near_queues)})" if facts.near_queues else ""


def _nearest(facts: Facts, explanation: pb.Explanation) -> str:
    if not explanation.nearest_nodes or facts.too_large or facts.no_tree:
        return ""
    if any(concerns_pod_only(reason.nodes) for reason in facts.reasons):
        return ""
    nearest = explanation.nearest_nodes[0]
    lacks = [f"{amount(s.resource, s.need - max(s.have, 0))}" for s in nearest.shortages]
    parts = [f"lacks {', '.join(lacks)}"] if lacks else []
    parts += [of_one_node(reason) for reason in nearest.reasons]
    who = explanation.blocking_pod or explanation.pod
    if not parts:
        first = "By itself" if not facts.ahead else "As far as nodes go,"
        return f" {first} {who} would fit on {nearest.node}."
    subject = f"With {_pods(facts.ahead)} of its gang in place, the" if facts.ahead else "The"
    return f" {subject} nearest node for {who} is {nearest.node}, which {' and '.join(parts)}."


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _by(explanation: pb.Explanation) -> str:
    """The action and session that placed the pod, if known."""
    placement = next(iter(explanation.placements), None)
    if placement is None or not placement.action:
        return ""
    return f", where {placement.action} put it in session {placement.session}"


def _node(explanation: pb.Explanation) -> str:
    placement = next(iter(explanation.placements), None)
    if placement is None or not placement.feasible_node_count:
        # Nodes were not examined, or the node of the pod does not exist.
        return ""
    many = placement.feasible_node_count
    if many == 1:
        return f" {placement.node.node} is the only node that would take {placement.pod} now."
    text = f" Of {many} nodes that would take {placement.pod} now, {placement.node.node} scores"
    text += f" {placement.node.score:g}"
    if placement.runners_up:
        best = placement.runners_up[0]
        text += f"; the next is {best.node} with {best.score:g}"
        text += ", and between equals the name decides" * (best.score == placement.node.score)
    return f"{text}."


def _evicted(explanation: pb.Explanation) -> str:
    if not explanation.evictions:
        return ""
    last = explanation.evictions[-1]
    whom = f" to make room for {last.for_job}" if last.for_job else ""
    return (
        f"pod {last.pod} was evicted from {last.node} in session {last.session}"
        f" ({last.reason}){whom}."
    )


def _evicted_count(explanation: pb.Explanation) -> str:
    """The number of evicted pods of a running job."""
    many = len(explanation.evictions)
    if not many:
        return ""
    last = explanation.evictions[-1]
    head = f"{_pods(many)} of it {'was' if many == 1 else 'were'} evicted"
    whom = f" to make room for {last.for_job}" if last.for_job else f" ({last.reason})"
    return f" {head}, {'' if many == 1 else 'the last '}in session {last.session}{whom}."


def _queue(reason: Reason) -> str:
    return f"queue {reason.subjects[0]}" if reason.subjects else "its queue"


def _queue_quota(reason: Reason) -> str:
    if not reason.limits:
        return JOB_SENTENCES[reason.code](reason)
    allowed, used, asked = (
        " and ".join(amount(limit.resource, getattr(limit, part)) for limit in reason.limits)
        for part in ("allowed", "used", "asked")
    )
    # The requests of an admitted job count for its queue before its pods are placed.
    taken = "taken" if reason.task else "taken or promised"
    return (
        f"queue {reason.limits[0].queue} may have {allowed}, of which {used} is {taken},"
        f" and {reason.task or 'it'} asks for {asked}"
    )


def _gang_invalid(reason: Reason) -> str:
    if reason.need:
        return f"only {reason.have} of the {reason.need} pods it needs exist"
    return f"some of the pods it needs do not exist{about(reason)}"


def _no_node(reason: Reason) -> str:
    who = f"no node takes {reason.task}" if reason.task else "no node takes it"
    return f"{who}: {counted(reason.nodes)}" if reason.nodes else who


def _no_victims(reason: Reason) -> str:
    text = f"{reason.author} was tried and no eviction would help"
    if reason.nodes:
        return f"{text}: {counted(reason.nodes)}"
    return f"{text}{about(reason)}"


def _no_domain(reason: Reason) -> str:
    text = JOB_SENTENCES[reason.code](reason)
    domain = reason.subjects[1] if len(reason.subjects) > 1 else ""
    if domain:
        text = f"{text}; {domain} has room for {reason.have} of the {reason.need} pods it needs"
    return f"{text}: {counted(reason.nodes)}" if reason.nodes else text


_NOT_ADMITTED = "it has not been admitted"
_TEXTS: Mapping[ReasonCode, Callable[[Reason], str]] = {
    **JOB_SENTENCES,
    ReasonCode.QUEUE_OVERUSED: lambda r: f"{_queue(r)} has its share",
    ReasonCode.QUEUE_QUOTA: _queue_quota,
    ReasonCode.NOT_ENQUEUED: lambda _: _NOT_ADMITTED,
    ReasonCode.GANG_INVALID: _gang_invalid,
    ReasonCode.GANG_SHORT: lambda r: (
        f"{r.have} of the {r.need} pods that must start together fit, {r.need - r.have} short"
    ),
    ReasonCode.NO_NODE_FITS: _no_node,
    ReasonCode.NO_DOMAIN_FITS: _no_domain,
    ReasonCode.NO_LABEL_DOMAIN_FITS: _no_domain,
    ReasonCode.ROLE_FAILED: lambda r: (
        f"more pods of role {r.subjects[0]} were not tried, because one of them fits on no node"
        if r.subjects
        else "another pod of its role did not fit"
    ),
    ReasonCode.GATED: lambda r: (
        f"{r.task or 'a pod'} has {'a scheduling gate' if len(r.subjects) < 2 else 'scheduling gates'}"
        f"{about(r)}, which whoever set it must remove"
    ),
    ReasonCode.PIPELINED: lambda _: "it waits for resources that are being released",
    ReasonCode.NO_VICTIMS: _no_victims,
}

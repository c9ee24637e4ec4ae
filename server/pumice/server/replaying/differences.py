"""The differences between a replayed session and the recorded one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf import json_format

from pumice.core.decisions import SessionResult
from pumice.server.replaying.playback import PlayedSession, RecordedSession
from pumice.server.wire import write_decisions, write_status
from pumice.v1 import decision_pb2, group_pb2, status_pb2

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the recording and the replay."""

    session: int
    now_ns: int
    # ``decision``, ``order`` or ``status``.
    what: str
    # ``namespace/name`` of the pod, or kind and name of the object with the status.
    subject: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.subject}: recorded {self.recorded}; replayed {self.replayed}"


def differences(played: PlayedSession, *, statuses: bool = True) -> list[Difference]:
    """Differences of decisions in the recorded order, then of statuses if ``statuses`` is set."""
    found = list(_decisions(played.recorded, played.replayed))
    if statuses:
        found += _statuses(played.recorded, played.replayed)
    return found


def _decisions(recorded: RecordedSession, result: SessionResult) -> Iterator[Difference]:
    gangs, replayed = write_decisions(result.decisions)
    if replayed == recorded.decisions and {gang.id: gang for gang in gangs} == recorded.gangs:
        return
    theirs = {_key(decision): decision for decision in recorded.decisions}
    mine = {_key(decision): decision for decision in replayed}
    number, now_ns = recorded.number, recorded.now_ns
    # Ids number the decisions. If one is missing, all later ids differ, so they are ignored.
    counted = list(theirs) == list(mine)
    same = True
    for key in [*theirs, *(key for key in mine if key not in theirs)]:
        old, new = theirs.get(key), mine.get(key)
        if old is None or new is None or not _are_equal(old, new, with_id=counted):
            same = False
            texts = (_text(old), _text(new))
            if texts[0] == texts[1] and old is not None and new is not None:
                texts = (_fields(old, new), _fields(new, old))
            yield Difference(number, now_ns, "decision", _pod(old or new), *texts)
    if not same:
        return
    if not counted:
        first = next(k for k, other in zip(theirs, mine, strict=True) if k != other)
        place = list(mine).index(first) + 1
        texts = (f"as number {list(theirs).index(first) + 1}", f"as number {place}")
        yield Difference(number, now_ns, "order", _pod(theirs[first]), *texts)
        return
    for gang in gangs:
        old_gang = recorded.gangs.get(gang.id)
        if old_gang != gang:
            texts = (_shown(old_gang), _shown(gang))
            yield Difference(number, now_ns, "decision", gang.job, *texts)


def _are_equal(one: decision_pb2.Decision, other: decision_pb2.Decision, *, with_id: bool) -> bool:
    if one == other:
        return True
    if with_id:
        return False
    copied = decision_pb2.Decision()
    copied.CopyFrom(one)
    copied.id = other.id
    return copied == other


def _key(decision: decision_pb2.Decision) -> tuple[str, str]:
    order = decision.bind if decision.HasField("bind") else decision.evict
    return order.uid, decision.WhichOneof("order") or ""


def _pod(decision: decision_pb2.Decision | None) -> str:
    assert decision is not None
    order = decision.bind if decision.HasField("bind") else decision.evict
    return f"{order.namespace}/{order.name}"


def _text(decision: decision_pb2.Decision | None) -> str:
    if decision is None:
        return NOTHING
    if decision.HasField("bind"):
        return f"bind to {decision.bind.node}"
    whom = f" for {decision.evict.for_job}" if decision.evict.for_job else ""
    return f"evict from {decision.evict.node}{whom}"


def _fields(one: decision_pb2.Decision, other: decision_pb2.Decision) -> str:
    """The fields that differ in the other decision."""
    mine, theirs = _flat(one), _flat(other)
    different = {k: v for k, v in mine.items() if theirs.get(k) != v}
    return f"{_text(one)} with {different}"


def _flat(decision: decision_pb2.Decision) -> dict[str, object]:
    body = json_format.MessageToDict(decision, preserving_proto_field_name=True)
    order = body.pop(decision.WhichOneof("order") or "", {})
    return {**body, **order}


def _shown(message: decision_pb2.Gang | None) -> str:
    if message is None:
        return NOTHING
    return f"gang {message.id} of {message.size}"


def _statuses(recorded: RecordedSession, result: SessionResult) -> Iterator[Difference]:
    replayed = [write_status(change) for change in result.statuses]
    if replayed == recorded.statuses:
        return
    theirs, mine = _by_subject(recorded.statuses), _by_subject(replayed)
    for key in [*theirs, *(key for key in mine if key not in theirs)]:
        old, new = theirs.get(key), mine.get(key)
        if old != new:
            texts = (_status_text(old), _status_text(new))
            yield Difference(recorded.number, recorded.now_ns, "status", key, *texts)


def _by_subject(
    changes: Sequence[status_pb2.StatusChange],
) -> dict[str, status_pb2.StatusChange]:
    found = {}
    for change in changes:
        kind = change.WhichOneof("change") or ""
        held = getattr(change, kind)
        name = held.name if kind == "queue" else f"{held.namespace}/{held.name}"
        word = {"pod": "pod", "pod_group": "PodGroup", "queue": "queue"}.get(kind, kind)
        found[f"{word} {name}"] = change
    return found


def _status_text(change: status_pb2.StatusChange | None) -> str:
    if change is None:
        return NOTHING
    if change.HasField("pod_group"):
        status = change.pod_group.status
        phase = group_pb2.PodGroupPhase.Name(status.phase).removeprefix("POD_GROUP_PHASE_")
        counts = f"{status.running} running, {status.succeeded} done, {status.failed} failed"
        said = "".join(f"; {c.type}={c.status}: {c.message}" for c in status.conditions)
        return f"{phase.capitalize()} ({counts}{said})"
    if change.HasField("queue"):
        return f"allocated {dict(sorted(change.queue.allocated.items()))}"
    return f"{change.pod.reason}: {change.pod.message}"

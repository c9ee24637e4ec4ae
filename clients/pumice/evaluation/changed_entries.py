"""The entries of a recording with the overrides of a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pumice.evaluation.overrides import Overrides
from pumice.recordings.history import ExternalEvent, History
from pumice.v1.delta_pb2 import DeltaBatch, Op, Upsert
from pumice.v1.object_pb2 import KIND_NODE, ClusterObject
from pumice.v1.recording_pb2 import RecordingEntry


def changed(entries: Iterable[RecordingEntry], overrides: Overrides) -> Iterator[RecordingEntry]:
    """The entries with changed fields, without added or removed nodes."""
    for entry in entries:
        for upsert in _upserts(entry):
            overrides.change(upsert.object)
        yield entry


def _upserts(entry: RecordingEntry) -> Iterator[Upsert]:
    yield from entry.checkpoint.objects
    for op in entry.delta_batch.ops:
        if op.HasField("upsert"):
            yield op.upsert


def with_nodes(
    entries: Iterable[RecordingEntry], overrides: Overrides, added: Sequence[ClusterObject]
) -> Iterator[RecordingEntry]:
    """The entries up to the first session, with removed and added nodes.

    The nodes are added just before the first session. Later entries keep their sequence numbers,
    so they cannot be replayed; a run that changes nodes is simulated from there on.
    """
    seq = 0
    for entry in entries:
        seq = _last_seq(entry, seq)
        if entry.HasField("tick") and not entry.tick.skipped and added:
            ops = [Op(upsert=_upsert(held)) for held in added]
            made = RecordingEntry(delta_batch=DeltaBatch(first_seq=seq + 1, ops=ops))
            made.entry_time.CopyFrom(entry.entry_time)
            added = ()
            yield made
        _remove_nodes(entry, overrides)
        yield entry


def _last_seq(entry: RecordingEntry, before: int) -> int:
    if entry.HasField("checkpoint"):
        return max(before, entry.checkpoint.seq)
    if entry.HasField("snapshot_end"):
        return max(before, entry.snapshot_end.seq)
    if entry.HasField("delta_batch"):
        return max(before, entry.delta_batch.first_seq + len(entry.delta_batch.ops) - 1)
    return before


def _remove_nodes(entry: RecordingEntry, overrides: Overrides) -> None:
    kept = [held for held in entry.checkpoint.objects if not _is_removed(held, overrides)]
    if len(kept) < len(entry.checkpoint.objects):
        del entry.checkpoint.objects[:]
        entry.checkpoint.objects.extend(kept)
    for op in entry.delta_batch.ops:
        if op.HasField("upsert") and _is_removed(op.upsert, overrides):
            # The deletion of an unknown object has no effect, and keeps the sequence numbers.
            uid = op.upsert.object.node.uid
            op.tombstone.kind, op.tombstone.uid = KIND_NODE, uid


def _is_removed(upsert: Upsert, overrides: Overrides) -> bool:
    return upsert.object.HasField("node") and overrides.removes(upsert.object.node.name)


def _upsert(held: ClusterObject) -> Upsert:
    return Upsert(kind=KIND_NODE, uid=held.node.uid, revision=1, object=held)


def added_nodes(history: History, overrides: Overrides) -> list[ClusterObject]:
    """Copies of nodes in their first version, with new names and uids."""
    first: dict[str, ClusterObject] = {}
    for event in history.external:
        if event.object is not None and event.object.HasField("node"):
            first.setdefault(event.object.node.name, event.object)
    made = []
    for like, count in overrides.added_nodes:
        for number in range(1, count + 1):
            held = ClusterObject()
            held.CopyFrom(first[like])
            name = _free_name(first, f"{like}-added-{number}")
            held.node.name, held.node.uid = name, f"added-{name}"
            if "kubernetes.io/hostname" in held.node.labels:
                held.node.labels["kubernetes.io/hostname"] = name
            made.append(held)
    return made


def _free_name(taken: dict[str, ClusterObject], name: str) -> str:
    while name in taken:
        name += "x"
    return name


def external_events(
    history: History, overrides: Overrides, added: Sequence[ClusterObject]
) -> list[ExternalEvent]:
    """The changes of the cluster in the run, with removed and added nodes."""
    new = [ExternalEvent(history.start_ns, held, KIND_NODE, held.node.uid) for held in added]
    gone = removed_uids(history, overrides)
    return [*new, *(event for event in history.external if event.uid not in gone)]


def removed_uids(history: History, overrides: Overrides) -> frozenset[str]:
    """The uids of the removed nodes."""
    return frozenset(
        event.uid
        for event in history.external
        if event.object is not None
        and event.object.HasField("node")
        and overrides.removes(event.object.node.name)
    )


def names_by_kind(history: History) -> dict[str, set[str]]:
    """The names of objects that overrides can match, by kind."""
    found: dict[str, set[str]] = {kind: set() for kind in ("queues", "nodes", "quotas")}
    found["priorities"] = {
        record.pod.spec.priority_class_name
        for record in history.pods.values()
        if record.pod.spec.priority_class_name
    }
    for held in (event.object for event in history.external if event.object is not None):
        match held.WhichOneof("object"):
            case "queue":
                found["queues"].add(held.queue.name)
            case "node":
                found["nodes"].add(held.node.name)
            case "resource_quota":
                quota = held.resource_quota
                found["quotas"].add(f"{quota.namespace}/{quota.name}")
            case "priority_class":
                found["priorities"].add(held.priority_class.name)
            case _:
                pass
    return found

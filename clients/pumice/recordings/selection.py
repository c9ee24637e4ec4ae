"""Parts of a recording: jobs selected by queue or name, up to a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pumice.v1.cluster_service_pb2 import DecisionBatch
from pumice.v1.delta_pb2 import Op
from pumice.v1.object_pb2 import KIND_POD, ClusterObject
from pumice.v1.recording_pb2 import RecordingCheckpoint, RecordingEntry


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns of queues and jobs (``namespace/name``) to keep, and to omit.

    Without patterns to keep, all are kept.
    """

    queues: tuple[str, ...] = ()
    without_queues: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    without_jobs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.queues or self.without_queues or self.jobs or self.without_jobs)

    def keeps(self, job: str, queue: str) -> bool:
        if _matches(queue, self.without_queues) or _matches(job, self.without_jobs):
            return False
        by_queue = not self.queues or _matches(queue, self.queues)
        return by_queue and (not self.jobs or _matches(job, self.jobs))


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


@dataclass(slots=True)
class Jobs:
    """All jobs of a recording, with their queues and uids."""

    queues: dict[str, str] = field(default_factory=dict)
    # Jobs of PodGroups and pods, by uid.
    of_uid: dict[str, str] = field(default_factory=dict)
    # Pods of decisions, by id.
    of_decision: dict[str, str] = field(default_factory=dict)

    def read(self, entries: Iterable[RecordingEntry]) -> None:
        for entry in entries:
            for upsert in entry.checkpoint.objects:
                self._note(upsert.object)
            for op in entry.delta_batch.ops:
                if op.HasField("upsert"):
                    self._note(op.upsert.object)
            for decision in entry.decision_batch.decisions:
                self.of_decision[decision.id] = decision.bind.uid or decision.evict.uid
            for assumed in entry.checkpoint.assumed:
                self.of_decision[assumed.decision_id] = assumed.pod_uid

    def _note(self, item: ClusterObject) -> None:
        if item.HasField("pod_group"):
            group = item.pod_group
            name = f"{group.namespace}/{group.name}"
            self.queues[name], self.of_uid[group.uid] = group.queue, name
        elif item.HasField("pod") and item.pod.group_name:
            name = f"{item.pod.namespace}/{item.pod.group_name}"
            self.queues.setdefault(name, "")
            self.of_uid[item.pod.uid] = name


class Cut:
    """Removes jobs from entries. Queues stay, because shares of other queues depend on them."""

    def __init__(self, jobs: Jobs, selection: Selection) -> None:
        self.left_out = {
            name for name, queue in jobs.queues.items() if not selection.keeps(name, queue)
        }
        self._uids = {uid for uid, name in jobs.of_uid.items() if name in self.left_out}
        self._of_decision = jobs.of_decision

    def entries(self, entries: Iterable[RecordingEntry]) -> Iterator[RecordingEntry]:
        for entry in entries:
            match entry.WhichOneof("entry"):
                case "checkpoint":
                    self._checkpoint(entry.checkpoint)
                case "delta_batch":
                    for op in entry.delta_batch.ops:
                        self._op(op)
                case "ack":
                    _keep(entry.ack.rejected, lambda one: one.uid not in self._uids)
                case "decision_batch":
                    self._decisions(entry.decision_batch)
                case "status_batch":
                    del entry.status_batch.events[:]
                    _keep(entry.status_batch.changes, self._keeps_status)
                case "session_end":
                    _keep(entry.session_end.faults, lambda one: one.job not in self.left_out)
                case _:
                    pass
            yield entry

    def _checkpoint(self, part: RecordingCheckpoint) -> None:
        for held in (part.objects, part.rejected, part.pods):
            _keep(held, lambda one: one.uid not in self._uids)
        for taken in (
            part.assumed,
            part.assumed_volumes,
            part.assumed_claims,
            part.assumed_devices,
        ):
            _keep(taken, lambda one: one.pod_uid not in self._uids)
        for remembered in (part.cool_downs, part.broken_gangs, part.jobs):
            _keep(remembered, lambda one: one.job not in self.left_out)

    def _decisions(self, batch: DecisionBatch) -> None:
        _keep(batch.decisions, lambda one: (one.bind.uid or one.evict.uid) not in self._uids)
        # An eviction may be for an omitted job.
        named = {decision.gang_id for decision in batch.decisions}
        _keep(batch.gangs, lambda gang: gang.id in named)

    def _op(self, op: Op) -> None:
        """Turns an op of an omitted job into the deletion of an unknown object, which has no effect.

        So the other ops keep their sequence numbers.
        """
        if op.HasField("upsert") and op.upsert.uid in self._uids:
            kind, uid = op.upsert.kind, op.upsert.uid
            op.tombstone.kind, op.tombstone.uid = kind, uid
        elif op.HasField("outcome"):
            uid = self._of_decision.get(op.outcome.decision_id, "")
            if uid in self._uids:
                op.tombstone.kind, op.tombstone.uid = KIND_POD, uid

    def _keeps_status(self, change: Any) -> bool:
        return change.pod.uid not in self._uids and change.pod_group.uid not in self._uids


def _keep(items: Any, is_kept: Callable[[Any], bool]) -> None:
    """Removes the other items of a repeated field."""
    kept = [item for item in items if is_kept(item)]
    if len(kept) < len(items):
        del items[:]
        items.extend(kept)


def until(entries: Iterable[RecordingEntry], end_ns: int) -> Iterator[RecordingEntry]:
    """The entries up to a time."""
    for entry in entries:
        if entry.entry_time.ToNanoseconds() > end_ns:
            return
        yield entry

"""A recording as a history: external changes, and the records of all pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.recordings.pod_records import (
    AT_ONCE_NS,
    BY_CLEANUP,
    BY_EVICTION,
    BY_NODE,
    BY_USER,
    SOON_NS,
    TOGETHER_NS,
    JobRecord,
    PodRecord,
    as_created,
)
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2, recording_pb2, status_pb2
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.group_pb2 import PodGroupStatus

_Key = tuple[int, str]
# Outcomes of decisions that had no effect.
_WITHOUT_EFFECT = (
    decision_pb2.OUTCOME_CODE_CONFLICT,
    decision_pb2.OUTCOME_CODE_GONE,
    decision_pb2.OUTCOME_CODE_FAILED,
)
_FINISHED = (pod_pb2.POD_PHASE_SUCCEEDED, pod_pb2.POD_PHASE_FAILED)


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """A change of an object that does not depend on the scheduler."""

    at_ns: int
    # None if the object was deleted.
    object: object_pb2.ClusterObject | None
    kind: int = 0
    uid: str = ""


@dataclass(slots=True)
class History:
    """The history of a cluster, read from the entries of a recording."""

    start_ns: int = 0
    end_ns: int = 0
    # Configurations with their times, including rejected ones.
    configured: list[tuple[int, Configuration]] = field(default_factory=list)
    # Times of sessions, and durations of complete sessions.
    ticks: list[int] = field(default_factory=list)
    durations_ns: list[int] = field(default_factory=list)
    # Changes of all kinds except pods, without changes by the scheduler.
    external: list[ExternalEvent] = field(default_factory=list)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    # (time, uid) of decided evictions.
    evictions: list[tuple[int, str]] = field(default_factory=list)
    # Times of deletions of nodes, by name.
    node_ends: dict[str, int] = field(default_factory=dict)
    # The last status of each PodGroup from the scheduler, by uid.
    statuses: dict[str, PodGroupStatus] = field(default_factory=dict)

    # Time from a session to the update with its condition, by uid and session time.
    condition_delays_ns: dict[tuple[str, int], int] = field(default_factory=dict)

    # Objects at the end.
    held: dict[_Key, object_pb2.ClusterObject] = field(default_factory=dict)

    _conditions: dict[str, tuple[int, str]] = field(default_factory=dict)
    _orders: dict[str, str] = field(default_factory=dict)
    _snapshot: tuple[frozenset[int], set[_Key]] | None = None

    @classmethod
    def read(
        cls,
        entries: Iterable[recording_pb2.RecordingEntry],
        until_ns: int | None = None,
        sessions: int | None = None,
    ) -> History:
        """The history up to a time, or up to a number of sessions."""
        history = cls()
        for entry in entries:
            if until_ns is not None and entry.entry_time.ToNanoseconds() > until_ns:
                break
            begins = entry.HasField("tick") and not entry.tick.skipped
            if begins and sessions is not None and len(history.ticks) >= sessions:
                break
            history._read_entry(entry)
        history._find_stopped_jobs()
        history._find_replacements()
        history._find_whole_runs()
        return history

    @property
    def configuration(self) -> Configuration:
        """The first configuration."""
        return self.configured[0][1] if self.configured else Configuration()

    def _read_entry(self, entry: recording_pb2.RecordingEntry) -> None:
        now_ns = entry.entry_time.ToNanoseconds()
        self.end_ns = max(self.end_ns, now_ns)
        match entry.WhichOneof("entry"):
            case "header":
                self.start_ns = self.start_ns or now_ns
            case "checkpoint":
                self._checkpoint(entry.checkpoint, now_ns)
            case "snapshot_begin":
                self._snapshot = (frozenset(entry.snapshot_begin.kinds), set())
            case "snapshot_end":
                self._end_snapshot(now_ns)
            case "delta_batch":
                for op in entry.delta_batch.ops:
                    self._op(op, now_ns)
            case "tick" if not entry.tick.skipped:
                # A clock can be set back; times of sessions never decrease.
                self.ticks.append(
                    max(entry.tick.session_time.ToNanoseconds(), self.start_ns, *self.ticks[-1:])
                )
            case "decision_batch":
                self._note_decisions(entry.decision_batch.decisions)
            case "session_end":
                self.durations_ns.append(entry.session_end.duration.ToNanoseconds())
            case "status_batch":
                self._note_statuses(entry.status_batch.changes, now_ns)
            case _:
                pass

    def _checkpoint(self, part: recording_pb2.RecordingCheckpoint, now_ns: int) -> None:
        """The first checkpoint begins the history; later ones repeat all objects, or are empty."""
        if part.HasField("configuration") and not self.configured:
            self.configured.append((now_ns, part.configuration))
        if not part.part:
            self._snapshot = (frozenset(), set())
        is_first = not self.ticks
        for upsert in part.objects:
            self._upsert(upsert.object, now_ns, is_old=is_first)
        if part.part + 1 >= part.part_count:
            # A restarted core has no objects until a snapshot arrives.
            if self._snapshot is not None and not self._snapshot[1]:
                self._snapshot = None
            self._end_snapshot(now_ns)
        for assumed in part.assumed:
            record = self.pods.get(assumed.pod_uid)
            if record is not None and assumed.evict:
                record.evicted_ns = record.evicted_ns or assumed.decision_time.ToNanoseconds()
            elif record is not None and not record.bound_ns:
                self._note_in_flight(record, assumed)

    def _note_in_flight(self, record: PodRecord, assumed: recording_pb2.AssumedDecision) -> None:
        record.decided_ns = record.decided_ns or assumed.decision_time.ToNanoseconds()
        bind = decision_pb2.Bind(
            uid=record.uid, namespace=record.pod.namespace, name=record.pod.name, node=assumed.node
        )
        record.bind_decision = decision_pb2.Decision(id=assumed.decision_id, bind=bind)
        self._orders[assumed.decision_id] = record.uid

    def _op(self, op: delta_pb2.Op, now_ns: int) -> None:
        match op.WhichOneof("op"):
            case "upsert":
                self._upsert(op.upsert.object, now_ns)
            case "tombstone":
                self._gone((op.tombstone.kind, op.tombstone.uid), now_ns)
            case "configuration":
                self.configured.append((now_ns, op.configuration))
            case "outcome" if op.outcome.code in _WITHOUT_EFFECT:
                record = self.pods.get(self._orders.pop(op.outcome.decision_id, ""))
                order = None if record is None else record.bind_decision
                if record is not None and order is not None and order.id == op.outcome.decision_id:
                    record.bind_decision = None
            case _:
                pass

    def _end_snapshot(self, now_ns: int) -> None:
        if self._snapshot is None:
            return
        (kinds, seen), self._snapshot = self._snapshot, None
        for key in [k for k in self.held if k not in seen and (not kinds or k[0] in kinds)]:
            self._gone(key, now_ns)

    def _upsert(self, item: object_pb2.ClusterObject, now_ns: int, *, is_old: bool = False) -> None:
        field_name = item.WhichOneof("object")
        if field_name is None:
            return
        number = item.DESCRIPTOR.fields_by_name[field_name].number
        key = (number, getattr(item, field_name).uid)
        if self._snapshot is not None:
            self._snapshot[1].add(key)
        old, self.held[key] = self.held.get(key), item
        if field_name == "pod":
            self._pod(item.pod, now_ns, is_old=is_old)
            return
        if field_name == "pod_group":
            group = item.pod_group
            name = f"{group.namespace}/{group.name}"
            job = self.jobs.setdefault(name, JobRecord(name, group.queue, now_ns))
            job.queue, job.min_member = group.queue, group.min_member
        if old is None or _without_status(old) != _without_status(item):
            self.external.append(ExternalEvent(now_ns, item, *key))

    def _gone(self, key: _Key, now_ns: int) -> None:
        held = self.held.pop(key, None)
        if held is None:
            return
        if held.HasField("pod"):
            self._pod_gone(self.pods[key[1]], now_ns)
            return
        if held.HasField("node"):
            self.node_ends[held.node.name] = now_ns
        elif held.HasField("pod_group"):
            name = f"{held.pod_group.namespace}/{held.pod_group.name}"
            self.jobs[name].group_end_ns = now_ns
        self.external.append(ExternalEvent(now_ns, None, *key))

    def _pod(self, pod: pod_pb2.Pod, now_ns: int, *, is_old: bool) -> None:
        record = self.pods.get(pod.uid)
        if record is None:
            record = self.pods[pod.uid] = PodRecord(pod.uid, as_created(pod), now_ns, is_old)
        elif not pod.node_name:
            made = as_created(pod)
            if made != (record.changes[-1][1] if record.changes else record.pod):
                record.changes.append((now_ns, made))
        self._note_condition(pod, now_ns)
        job = self.jobs.setdefault(record.job, JobRecord(record.job, "", now_ns))
        if pod.node_name and not record.bound_ns:
            record.bound_ns, record.node, record.bind_decision = now_ns, pod.node_name, None
        if pod.terminating and not record.terminating_ns:
            record.terminating_ns = now_ns
            job.pod_stops(record.uid)
        elif pod.phase == pod_pb2.POD_PHASE_RUNNING and not record.running_ns:
            record.running_ns, record.start_time_ns = now_ns, pod.start_time.ToNanoseconds()
            job.pod_runs(record.uid, now_ns)
        if pod.phase in _FINISHED and not record.finished_ns:
            record.finished_ns, record.final_phase = now_ns, pod.phase
            begun_ns = max(job.since_ns, record.running_ns) or now_ns
            record.run_ns = max(now_ns - begun_ns, 0)
            record.job_run_ns = max(now_ns - (job.since_ns or begun_ns), 0)
            job.finished_ns.append(now_ns)

    def _note_condition(self, pod: pod_pb2.Pod, now_ns: int) -> None:
        written = self._conditions.get(pod.uid)
        if written is not None and any(c.message == written[1] for c in pod.conditions):
            self.condition_delays_ns[pod.uid, written[0]] = max(now_ns - written[0], 0)
            del self._conditions[pod.uid]

    def _pod_gone(self, record: PodRecord, now_ns: int) -> None:
        record.gone_ns = now_ns
        if record.finished_ns:
            self.jobs[record.job].running.discard(record.uid)
            return
        self.jobs[record.job].pod_stops(record.uid)
        node_end = self.node_ends.get(record.node, 0)
        if record.evicted_ns:
            record.ended_by = BY_EVICTION
        elif node_end and now_ns - node_end <= SOON_NS:
            record.ended_by = BY_NODE
        elif now_ns - max(self.jobs[record.job].finished_ns, default=-SOON_NS) <= SOON_NS:
            record.ended_by = BY_CLEANUP
        else:
            record.ended_by = BY_USER

    def _note_decisions(self, decisions: Iterable[decision_pb2.Decision]) -> None:
        now_ns = self.ticks[-1] if self.ticks else 0
        for decision in decisions:
            bind, evict = decision.bind, decision.evict
            record = self.pods.get(bind.uid or evict.uid)
            if record is None:
                continue
            if bind.uid:
                record.decided_ns = record.decided_ns or now_ns
                record.bind_decision = None if record.bound_ns else decision
                self._orders[decision.id] = record.uid
            else:
                record.evicted_ns = record.evicted_ns or now_ns
                self.evictions.append((now_ns, record.uid))

    def _note_statuses(self, changes: Iterable[status_pb2.StatusChange], now_ns: int) -> None:
        session_ns = self.ticks[-1] if self.ticks else now_ns
        for change in changes:
            if change.HasField("pod"):
                self._conditions[change.pod.uid] = (session_ns, change.pod.message)
            elif change.HasField("pod_group"):
                self.statuses[change.pod_group.uid] = change.pod_group.status

    def _find_stopped_jobs(self) -> None:
        """Finds pods that a user deleted with their PodGroup while they ran.

        If the PodGroup stays, the pods were deleted because their job had ended.
        """
        for record in self.pods.values():
            if record.ended_by != BY_CLEANUP:
                continue
            job, end_ns = self.jobs[record.job], record.terminating_ns or record.gone_ns
            if record.running_ns and 0 < job.group_end_ns <= end_ns + AT_ONCE_NS:
                record.ended_by = BY_USER
                continue
            finished = [time for time in job.finished_ns if time <= record.gone_ns]
            if finished and (not job.cleaned_after or len(finished) < job.cleaned_after):
                job.cleaned_after = len(finished)
                job.cleanup_ns = record.gone_ns - max(finished)

    def _find_replacements(self) -> None:
        """Finds the replacements of lost pods, by name, or else by job and role."""
        lost = sorted(
            (record for record in self.pods.values() if record.ended_by in (BY_EVICTION, BY_NODE)),
            key=lambda record: (record.gone_ns, record.uid),
        )
        new: dict[str, list[PodRecord]] = {}
        for record in sorted(
            self.pods.values(), key=lambda record: (record.created_ns, record.uid)
        ):
            if not record.is_old:
                new.setdefault(record.job, []).append(record)
        for record in lost:
            for other in new.get(record.job, ()):
                if not other.replaces and other is not record and _replaces(record, other):
                    record.replaced_by, other.replaces = other.uid, record.uid
                    break

    def _find_whole_runs(self) -> None:
        """Finds jobs whose pods finish together, including pods that started late."""
        members: dict[str, list[PodRecord]] = {}
        for record in self.pods.values():
            if record.finished_ns:
                members.setdefault(record.job, []).append(record)
        for name, records in members.items():
            times = [record.finished_ns for record in records]
            if len(times) > 1 and max(times) - min(times) <= TOGETHER_NS:
                self.jobs[name].run_ns = min(record.job_run_ns for record in records)


def _replaces(record: PodRecord, other: PodRecord) -> bool:
    since = record.terminating_ns or record.evicted_ns or record.gone_ns
    if not since <= other.created_ns <= record.gone_ns + SOON_NS:
        return False
    return record.pod.name == other.pod.name or (
        record.pod.role == other.pod.role and bool(record.pod.group_name)
    )


def _without_status(item: object_pb2.ClusterObject) -> object_pb2.ClusterObject:
    """The object without the fields that the scheduler writes."""
    if item.HasField("pod_group") or item.HasField("queue"):
        copied = object_pb2.ClusterObject()
        copied.CopyFrom(item)
        if copied.HasField("pod_group"):
            copied.pod_group.ClearField("status")
        else:
            copied.queue.ClearField("allocated")
        return copied
    return item

"""A recording as a history: what came from outside, and what became of every pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.recordings.lives import (
    AT_ONCE_NS,
    BY_CLEANUP,
    BY_EVICTION,
    BY_NODE,
    BY_USER,
    SOON_NS,
    TOGETHER_NS,
    JobLife,
    PodLife,
    as_created,
)
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2, recording_pb2, status_pb2
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.group_pb2 import PodGroupStatus

_Key = tuple[int, str]
# After these a decision is no longer on its way.
_CAME_TO_NOTHING = (
    decision_pb2.OUTCOME_CODE_CONFLICT,
    decision_pb2.OUTCOME_CODE_GONE,
    decision_pb2.OUTCOME_CODE_FAILED,
)
_FINISHED = (pod_pb2.POD_PHASE_SUCCEEDED, pod_pb2.POD_PHASE_FAILED)


@dataclass(frozen=True, slots=True)
class OutsideEvent:
    """Something that would have happened whatever the scheduler did."""

    at_ns: int
    # None: the object is gone.
    object: object_pb2.ClusterObject | None
    kind: int = 0
    uid: str = ""


@dataclass(slots=True)
class History:
    """Read from the entries of a recording, in order, once."""

    start_ns: int = 0
    end_ns: int = 0
    # Configurations and when they came; some may have been refused.
    configured: list[tuple[int, Configuration]] = field(default_factory=list)
    # When sessions ran.
    ticks: list[int] = field(default_factory=list)
    # All but pods; of PodGroups and queues without what the scheduler writes.
    outside: list[OutsideEvent] = field(default_factory=list)
    pods: dict[str, PodLife] = field(default_factory=dict)
    jobs: dict[str, JobLife] = field(default_factory=dict)
    # (time, uid) of evictions that were decided.
    evictions: list[tuple[int, str]] = field(default_factory=list)
    # A node's end, by name.
    node_ends: dict[str, int] = field(default_factory=dict)
    # What the scheduler last wrote about PodGroups, by uid.
    statuses: dict[str, PodGroupStatus] = field(default_factory=dict)

    # How long it took until a pod showed what was said about it, by uid and time.
    echoes_ns: dict[tuple[str, int], int] = field(default_factory=dict)

    # What there is at the end.
    held: dict[_Key, object_pb2.ClusterObject] = field(default_factory=dict)

    _said: dict[str, tuple[int, str]] = field(default_factory=dict)
    _orders: dict[str, str] = field(default_factory=dict)
    _snapshot: tuple[frozenset[int], set[_Key]] | None = None

    @classmethod
    def read(
        cls,
        entries: Iterable[recording_pb2.RecordingEntry],
        until_ns: int | None = None,
        sessions: int | None = None,
    ) -> History:
        """Until a time, or only so many sessions and what came before the next one."""
        history = cls()
        for entry in entries:
            if until_ns is not None and entry.entry_time.ToNanoseconds() > until_ns:
                break
            begins = entry.HasField("tick") and not entry.tick.skipped
            if begins and sessions is not None and len(history.ticks) >= sessions:
                break
            history._take(entry)
        history._find_stopped_jobs()
        history._find_replacements()
        history._find_whole_runs()
        return history

    @property
    def configuration(self) -> Configuration:
        """The first one."""
        return self.configured[0][1] if self.configured else Configuration()

    def _take(self, entry: recording_pb2.RecordingEntry) -> None:
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
                # Clocks may be set back; what is counted here goes on.
                self.ticks.append(
                    max(entry.tick.session_time.ToNanoseconds(), self.start_ns, *self.ticks[-1:])
                )
            case "decision_batch":
                self._decided(entry.decision_batch.decisions)
            case "status_batch":
                self._wrote(entry.status_batch.changes, now_ns)
            case _:
                pass

    # Objects.

    def _checkpoint(self, part: recording_pb2.RecordingCheckpoint, now_ns: int) -> None:
        """The first one begins the history; another one tells everything again, or nothing."""
        if part.HasField("configuration") and not self.configured:
            self.configured.append((now_ns, part.configuration))
        if not part.part:
            self._snapshot = (frozenset(), set())
        is_first = not self.ticks
        for upsert in part.objects:
            self._upsert(upsert.object, now_ns, is_old=is_first)
        if part.part + 1 >= part.part_count:
            # A core that has just started knows nothing yet: it will be told.
            if self._snapshot is not None and not self._snapshot[1]:
                self._snapshot = None
            self._end_snapshot(now_ns)
        for assumed in part.assumed:
            life = self.pods.get(assumed.pod_uid)
            if life is not None and assumed.evict:
                life.evicted_ns = life.evicted_ns or assumed.decision_time.ToNanoseconds()
            elif life is not None and not life.bound_ns:
                self._on_its_way(life, assumed)

    def _on_its_way(self, life: PodLife, assumed: recording_pb2.AssumedDecision) -> None:
        life.decided_ns = life.decided_ns or assumed.decision_time.ToNanoseconds()
        bind = decision_pb2.Bind(
            uid=life.uid, namespace=life.pod.namespace, name=life.pod.name, node=assumed.node
        )
        life.order = decision_pb2.Decision(id=assumed.decision_id, bind=bind)
        self._orders[assumed.decision_id] = life.uid

    def _op(self, op: delta_pb2.Op, now_ns: int) -> None:
        match op.WhichOneof("op"):
            case "upsert":
                self._upsert(op.upsert.object, now_ns)
            case "tombstone":
                self._gone((op.tombstone.kind, op.tombstone.uid), now_ns)
            case "configuration":
                self.configured.append((now_ns, op.configuration))
            case "outcome" if op.outcome.code in _CAME_TO_NOTHING:
                life = self.pods.get(self._orders.pop(op.outcome.decision_id, ""))
                order = None if life is None else life.order
                if life is not None and order is not None and order.id == op.outcome.decision_id:
                    life.order = None
            case _:
                pass

    def _end_snapshot(self, now_ns: int) -> None:
        if self._snapshot is None:
            return
        (kinds, seen), self._snapshot = self._snapshot, None
        for key in [k for k in self.held if k not in seen and (not kinds or k[0] in kinds)]:
            self._gone(key, now_ns)

    def _upsert(self, held: object_pb2.ClusterObject, now_ns: int, *, is_old: bool = False) -> None:
        field_name = held.WhichOneof("object")
        if field_name is None:
            return
        number = held.DESCRIPTOR.fields_by_name[field_name].number
        key = (number, getattr(held, field_name).uid)
        if self._snapshot is not None:
            self._snapshot[1].add(key)
        old, self.held[key] = self.held.get(key), held
        if field_name == "pod":
            self._pod(held.pod, now_ns, is_old=is_old)
            return
        if field_name == "pod_group":
            group = held.pod_group
            name = f"{group.namespace}/{group.name}"
            job = self.jobs.setdefault(name, JobLife(name, group.queue, now_ns))
            job.queue, job.min_member = group.queue, group.min_member
        if old is None or _without_status(old) != _without_status(held):
            self.outside.append(OutsideEvent(now_ns, held, *key))

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
        self.outside.append(OutsideEvent(now_ns, None, *key))

    # Pods.

    def _pod(self, pod: pod_pb2.Pod, now_ns: int, *, is_old: bool) -> None:
        life = self.pods.get(pod.uid)
        if life is None:
            life = self.pods[pod.uid] = PodLife(pod.uid, as_created(pod), now_ns, is_old)
        elif not pod.node_name:
            made = as_created(pod)
            if made != (life.changes[-1][1] if life.changes else life.pod):
                life.changes.append((now_ns, made))
        self._listen(pod, now_ns)
        job = self.jobs.setdefault(life.job, JobLife(life.job, "", now_ns))
        if pod.node_name and not life.bound_ns:
            life.bound_ns, life.node, life.order = now_ns, pod.node_name, None
        if pod.terminating and not life.terminating_ns:
            life.terminating_ns = now_ns
            job.stops(life.uid)
        elif pod.phase == pod_pb2.POD_PHASE_RUNNING and not life.running_ns:
            life.running_ns, life.start_time_ns = now_ns, pod.start_time.ToNanoseconds()
            job.runs(life.uid, now_ns)
        if pod.phase in _FINISHED and not life.finished_ns:
            life.finished_ns, life.final_phase = now_ns, pod.phase
            begun_ns = max(job.since_ns, life.running_ns) or now_ns
            life.run_ns = max(now_ns - begun_ns, 0)
            life.job_run_ns = max(now_ns - (job.since_ns or begun_ns), 0)
            job.finished_ns.append(now_ns)

    def _listen(self, pod: pod_pb2.Pod, now_ns: int) -> None:
        said = self._said.get(pod.uid)
        if said is not None and any(c.message == said[1] for c in pod.conditions):
            self.echoes_ns[pod.uid, said[0]] = max(now_ns - said[0], 0)
            del self._said[pod.uid]

    def _pod_gone(self, life: PodLife, now_ns: int) -> None:
        life.gone_ns = now_ns
        if life.finished_ns:
            self.jobs[life.job].running.discard(life.uid)
            return
        self.jobs[life.job].stops(life.uid)
        node_end = self.node_ends.get(life.node, 0)
        if life.evicted_ns:
            life.ended_by = BY_EVICTION
        elif node_end and now_ns - node_end <= SOON_NS:
            life.ended_by = BY_NODE
        elif now_ns - max(self.jobs[life.job].finished_ns, default=-SOON_NS) <= SOON_NS:
            life.ended_by = BY_CLEANUP
        else:
            life.ended_by = BY_USER

    def _decided(self, decisions: Iterable[decision_pb2.Decision]) -> None:
        now_ns = self.ticks[-1] if self.ticks else 0
        for decision in decisions:
            bind, evict = decision.bind, decision.evict
            life = self.pods.get(bind.uid or evict.uid)
            if life is None:
                continue
            if bind.uid:
                life.decided_ns = life.decided_ns or now_ns
                life.order = None if life.bound_ns else decision
                self._orders[decision.id] = life.uid
            else:
                life.evicted_ns = life.evicted_ns or now_ns
                self.evictions.append((now_ns, life.uid))

    def _wrote(self, changes: Iterable[status_pb2.StatusChange], now_ns: int) -> None:
        said_ns = self.ticks[-1] if self.ticks else now_ns
        for change in changes:
            if change.HasField("pod"):
                self._said[change.pod.uid] = (said_ns, change.pod.message)
            elif change.HasField("pod_group"):
                self.statuses[change.pod_group.uid] = change.pod_group.status

    def _find_stopped_jobs(self) -> None:
        """Pods that were deleted with their PodGroup while they ran: somebody stopped the job.

        Where the PodGroup stays, the job's end took them with it.
        """
        for life in self.pods.values():
            if life.ended_by != BY_CLEANUP:
                continue
            job, end_ns = self.jobs[life.job], life.terminating_ns or life.gone_ns
            if life.running_ns and 0 < job.group_end_ns <= end_ns + AT_ONCE_NS:
                life.ended_by = BY_USER
                continue
            finished = [time for time in job.finished_ns if time <= life.gone_ns]
            if finished and (not job.cleaned_after or len(finished) < job.cleaned_after):
                job.cleaned_after = len(finished)
                job.cleanup_ns = life.gone_ns - max(finished)

    def _find_replacements(self) -> None:
        """Pods that were made because another one was lost: by name, or else by job and role."""
        lost = sorted(
            (life for life in self.pods.values() if life.ended_by in (BY_EVICTION, BY_NODE)),
            key=lambda life: (life.gone_ns, life.uid),
        )
        new: dict[str, list[PodLife]] = {}
        for life in sorted(self.pods.values(), key=lambda life: (life.created_ns, life.uid)):
            if not life.is_old:
                new.setdefault(life.job, []).append(life)
        for life in lost:
            for other in new.get(life.job, ()):
                if not other.replaces and other is not life and _replaces(life, other):
                    life.replaced_by, other.replaces = other.uid, life.uid
                    break

    def _find_whole_runs(self) -> None:
        """Jobs that end as a whole: a pod that joined late ended with the others."""
        members: dict[str, list[PodLife]] = {}
        for life in self.pods.values():
            if life.finished_ns:
                members.setdefault(life.job, []).append(life)
        for name, lives in members.items():
            times = [life.finished_ns for life in lives]
            if len(times) > 1 and max(times) - min(times) <= TOGETHER_NS:
                self.jobs[name].run_ns = min(life.job_run_ns for life in lives)


def _replaces(life: PodLife, other: PodLife) -> bool:
    since = life.terminating_ns or life.evicted_ns or life.gone_ns
    if not since <= other.created_ns <= life.gone_ns + SOON_NS:
        return False
    return life.pod.name == other.pod.name or (
        life.pod.role == other.pod.role and bool(life.pod.group_name)
    )


def _without_status(held: object_pb2.ClusterObject) -> object_pb2.ClusterObject:
    """Without what a scheduler writes: its echo is not the outside's doing."""
    if held.HasField("pod_group") or held.HasField("queue"):
        copied = object_pb2.ClusterObject()
        copied.CopyFrom(held)
        if copied.HasField("pod_group"):
            copied.pod_group.ClearField("status")
        else:
            copied.queue.ClearField("allocated")
        return copied
    return held

"""A what-if run: the external events of a recording with other decisions.

Changes of nodes, queues and quotas, and creations and deletions by users, happen at their recorded
times. Binds, starts, evictions and completions follow from the decisions of the run. A run that
begins in the middle of a recording starts with the cluster of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from pumice.recordings.durations import DurationEstimates
from pumice.recordings.event_heap import EventHeap, PendingOps
from pumice.recordings.history import ExternalEvent, History
from pumice.recordings.pod_records import BY_CLEANUP, BY_USER, PodRecord
from pumice.recordings.session_times import SessionTimes
from pumice.recordings.simulated_pods import SimulatedPods
from pumice.recordings.takeover import Takeover
from pumice.v1 import decision_pb2, delta_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.reason_pb2 import PluginFault
from pumice.v1.status_pb2 import StatusChange

_GROUP = object_pb2.KIND_POD_GROUP


class SessionOutput(Protocol):
    """The decisions and statuses of a session."""

    @property
    def decisions(self) -> Sequence[decision_pb2.Decision]: ...

    @property
    def statuses(self) -> Sequence[StatusChange]: ...

    @property
    def faults(self) -> Sequence[PluginFault]: ...


class Core(Protocol):
    """A core in this process."""

    def apply(self, ops: Sequence[delta_pb2.Op], now_ns: int) -> object: ...

    def session(self, now_ns: int) -> SessionOutput: ...

    def next_wake(self, now_ns: int) -> int | None: ...

    @property
    def placement_changes(self) -> int:
        """Grows with every change after which a task could be placed that did not fit before."""
        ...

    @property
    def gangs_are_complete(self) -> bool:
        """Whether each changed gang since the last session has enough pods."""
        ...

    @property
    def configuration(self) -> Configuration:
        """The configuration in use."""
        ...


class ClosedLoop:
    """A what-if run from the beginning of a recording, or from a session in it, to its end."""

    def __init__(
        self,
        history: History,
        core: Core,
        session_times: SessionTimes,
        *,
        past: History | None = None,
        changed: Callable[[Configuration], Configuration] | None = None,
        removed: Collection[str] = (),
        added: Sequence[object_pb2.ClusterObject] = (),
        stops_at_faults: bool = False,
    ) -> None:
        """``past`` is the history before the first session of the run.

        ``changed`` is applied to later configurations. ``removed`` has the uids of nodes that the
        core does not have, and ``added`` its nodes that are not in the history.
        """
        self._removed, self._added = removed, added
        self._stops_at_faults = stops_at_faults
        self._history, self._core, self._times = history, core, session_times
        self._changed = changed
        self._past = past or History()
        self._events = EventHeap(history.start_ns)
        self._ops = PendingOps()
        self._pods = SimulatedPods(history, self._events, self._ops, self._pod_ended)
        self.evictions = list(self._past.evictions)
        self.sessions = len(self._past.ticks)
        # Faults of plugins and actions in the first session with any.
        self.faults: list[PluginFault] = []
        self.faulty_ns = 0
        self._statuses: dict[str, PodGroupStatus] = dict(self._past.statuses)
        self._node_names: dict[str, str] = {}
        self._cleaned_up = _cleaned_up(history)
        # Deletions of PodGroups that are postponed until the end of their jobs.
        self._deletions: dict[str, ExternalEvent] = {}
        # Whether the last session decided nothing, and nothing has changed since.
        self._is_quiet = False

    @property
    def records(self) -> dict[str, PodRecord]:
        return self._pods.records

    @property
    def estimates(self) -> DurationEstimates:
        return self._pods.estimates

    def run(
        self, progress: Callable[[int], None] | None = None, first: SessionOutput | None = None
    ) -> None:
        """Runs to the end. ``first`` is the output of the first session, if it has run already."""
        self._plan()
        end_ns, times = self._history.end_ns, self._times
        if first is not None:
            now_ns, _ = times.next_session()
            times.session_ran(now_ns)
            self._take_output(first, now_ns)
        while not (self.faults and self._stops_at_faults):
            session_ns, is_recorded = times.next_session()
            event_ns = self._events.next_ns()
            if min(event_ns or end_ns + 1, session_ns) > end_ns:
                return
            if event_ns is not None and event_ns <= session_ns:
                self._events.run_until(event_ns)
                self._apply(event_ns)
                continue
            is_needed = is_recorded or self._is_needed(session_ns)
            times.session_ran(session_ns, needed=is_needed)
            if is_needed:
                self._take_output(self._core.session(session_ns), session_ns)
                if progress is not None:
                    progress(session_ns)

    def _apply(self, now_ns: int) -> None:
        ops = self._ops.take()
        if not ops:
            return
        before = self._core.placement_changes
        self._core.apply(ops, now_ns)
        self._is_quiet = False
        if self._core.placement_changes != before:
            self._times.relevant_change(now_ns, complete=self._core.gangs_are_complete)

    def _is_needed(self, now_ns: int) -> bool:
        """Whether a session could decide anything new; a core skips other sessions."""
        if not self._is_quiet:
            return True
        wake_ns = self._core.next_wake(now_ns)
        return wake_ns is not None and wake_ns <= now_ns

    def _take_output(self, output: SessionOutput, now_ns: int) -> None:
        self._events.now_ns = now_ns
        self.sessions += 1
        if output.faults and not self.faults:
            self.faults, self.faulty_ns = list(output.faults), now_ns
        self._is_quiet = not (output.decisions or output.statuses)
        pods = self._pods
        for decision in output.decisions:
            if decision.HasField("bind"):
                record = pods.records[decision.bind.uid]
                record.decided_ns = record.decided_ns or now_ns
                delay = self.estimates.bind_ns(pods.recorded(record))
                self._events.at(now_ns + delay, pods.bind, decision)
            elif decision.HasField("evict"):
                record = pods.records[decision.evict.uid]
                record.evicted_ns = now_ns
                self.evictions.append((now_ns, record.uid))
                delay = self.estimates.notice_ns(pods.recorded(record))
                self._events.at(now_ns + delay, pods.terminate, record.uid)
        for change in output.statuses:
            if change.HasField("pod_group"):
                self._statuses[change.pod_group.uid] = change.pod_group.status
            elif change.HasField("pod"):
                delay = self.estimates.condition_ns(change.pod.uid, now_ns)
                self._events.at(now_ns + delay, pods.set_condition, change.pod)

    def _plan(self) -> None:
        history, past = self._history, self._past
        for held in (*past.held.values(), *self._added):
            if held.HasField("node") and held.node.uid not in self._removed:
                self._note_node(held)
        Takeover(history, self._events, self._pods).add_past(past)
        for held in past.held.values():
            if held.node.uid in self._removed:
                for uid in self._pods.on_node(held.node.name):
                    self._events.at(history.start_ns, self._pods.lose, uid)
        for event in history.external[len(past.external) :]:
            if event.uid not in self._removed:
                self._events.at(event.at_ns, self._change_external, event)
        for at_ns, configuration in history.configured[max(len(past.configured), 1) :]:
            self._events.at(at_ns, self._configure, configuration)
        for record in history.pods.values():
            if record.uid not in past.pods and not record.replaces:
                self._events.at(record.created_ns, self._pods.create, record)
            if record.ended_by == BY_USER:
                self._plan_deletion(record)

    def _plan_deletion(self, record: PodRecord) -> None:
        seen = self._past.pods.get(record.uid)
        if seen is None or not (seen.terminating_ns or seen.gone_ns):
            at_ns = record.terminating_ns or record.gone_ns
            self._events.at(at_ns, lambda: self._pods.terminate(record.uid, by_user=True))

    def _configure(self, configuration: Configuration) -> None:
        if self._changed is not None:
            configuration = self._changed(configuration)
        # Applied at once, because it affects simultaneous changes.
        self._ops.configure(configuration)
        self._apply(self._events.now_ns)
        self._times.configured(self._core.configuration)

    def _change_external(self, event: ExternalEvent) -> None:
        held = event.object
        if held is None:
            self._delete_external(event)
            return
        if held.HasField("pod_group"):
            group = held.pod_group
            job = self._pods.job(f"{group.namespace}/{group.name}")
            job.queue, job.min_member = group.queue, group.min_member
            if group.uid in self._statuses:
                copied = object_pb2.ClusterObject()
                copied.CopyFrom(held)
                copied.pod_group.status.CopyFrom(self._statuses[group.uid])
                held = copied
        elif held.HasField("node"):
            self._note_node(held)
        self._ops.upsert(held)

    def _note_node(self, item: object_pb2.ClusterObject) -> None:
        self._node_names[item.node.uid] = item.node.name
        self._pods.node_uids[item.node.name] = item.node.uid

    def _delete_external(self, event: ExternalEvent) -> None:
        if event.kind == _GROUP and self._has_unfinished_pods(event.uid):
            # In the recording the PodGroup was deleted after the end of its job.
            self._deletions[self._cleaned_up[event.uid]] = event
            return
        name = self._node_names.pop(event.uid, "") if event.kind == object_pb2.KIND_NODE else ""
        self._ops.delete(event.kind, event.uid)
        if name and self._pods.node_uids.get(name) == event.uid:
            del self._pods.node_uids[name]
            for uid in self._pods.on_node(name):
                self._pods.lose(uid)

    def _pod_ended(self, job: str) -> None:
        event = self._deletions.pop(job, None)
        if event is not None:
            self._delete_external(event)

    def _has_unfinished_pods(self, group_uid: str) -> bool:
        job = self._cleaned_up.get(group_uid, "")
        records = (record for record in self._pods.of_job(job) if not record.gone_ns)
        return any(not record.finished_ns for record in records)


def _cleaned_up(history: History) -> dict[str, str]:
    """Jobs whose PodGroups were deleted after all their pods had finished, by uid of the PodGroup."""
    names: dict[str, str] = {}
    found: dict[str, str] = {}
    members: dict[str, list[PodRecord]] = {}
    for record in history.pods.values():
        members.setdefault(record.job, []).append(record)
    for event in history.external:
        if event.object is not None and event.object.HasField("pod_group"):
            group = event.object.pod_group
            names[event.uid] = f"{group.namespace}/{group.name}"
        elif event.object is None and event.uid in names:
            job = names[event.uid]
            own = [record for record in members.get(job, ()) if not record.replaced_by]
            if own and all(_is_over(record, event.at_ns) for record in own):
                found[event.uid] = job
    return found


def _is_over(record: PodRecord, now_ns: int) -> bool:
    if record.ended_by == BY_CLEANUP:
        return record.gone_ns <= now_ns
    return 0 < record.finished_ns <= now_ns

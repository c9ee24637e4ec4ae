"""Simulated pods of a what-if run, which follow the decisions of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pumice.recordings.durations import DurationEstimates
from pumice.recordings.event_heap import EventHeap, PendingOps
from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_EVICTION, BY_NODE, JobRecord, PodRecord
from pumice.v1 import decision_pb2, object_pb2, pod_pb2
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.status_pb2 import PodConditionChange

_POD = object_pb2.KIND_POD


class SimulatedPods:
    """Creates, binds, starts, finishes, evicts and replaces pods at their times."""

    def __init__(
        self,
        history: History,
        events: EventHeap,
        ops: PendingOps,
        pod_ended: Callable[[str], None],
    ) -> None:
        """``pod_ended`` is called with the job of a pod that finished or was deleted."""
        self._history = history
        self._events = events
        self._ops = ops
        self._pod_ended = pod_ended
        self.estimates = DurationEstimates(history)
        # All pods of the run by uid, and the existing pods.
        self.records: dict[str, PodRecord] = {}
        self._pods: dict[str, pod_pb2.Pod] = {}
        self.jobs: dict[str, JobRecord] = {}
        self._records_of: dict[str, list[PodRecord]] = {}
        # Number of interruptions by job: the planned end of an interrupted run is ignored.
        self._interruptions: dict[str, int] = {}
        # Uids of nodes by name.
        self.node_uids: dict[str, str] = {}
        # Jobs that have ended; their pods are not replaced.
        self.ended_jobs: set[str] = set()
        self._replacements = 0

    def of_job(self, job: str) -> list[PodRecord]:
        return self._records_of.get(job, [])

    def on_node(self, node: str) -> list[str]:
        """The uids of the pods on a node."""
        return [pod.uid for pod in self._pods.values() if pod.node_name == node]

    def create(self, recorded: PodRecord) -> None:
        there = bool(recorded.bound_ns) and recorded.bound_ns <= recorded.created_ns
        record = PodRecord(recorded.uid, recorded.pod, self._events.now_ns, recorded.is_old)
        pod = pod_pb2.Pod()
        pod.CopyFrom(recorded.pod)
        self.add(record, pod)
        for at_ns, changed in recorded.changes:
            self._events.at(at_ns, self.change, recorded.uid, changed)
        if there:
            # The pod was created with its node.
            record.bound_ns, record.node, record.decided_ns = (
                self._events.now_ns,
                recorded.node,
                recorded.decided_ns,
            )
            pod.node_name = recorded.node
            if recorded.running_ns:
                self._events.at(recorded.running_ns, self.start, recorded.uid)
        self._update(pod)

    def add(self, record: PodRecord, pod: pod_pb2.Pod | None) -> None:
        """Adds a pod; ``pod`` is None if it no longer exists."""
        self.records[record.uid] = record
        self._records_of.setdefault(record.job, []).append(record)
        if pod is not None:
            self._pods[record.uid] = pod
            self.job(record.job)

    def change(self, uid: str, changed: pod_pb2.Pod) -> None:
        """Applies a change of the spec; the state in this run stays."""
        old = self._pods.get(uid)
        if old is None:
            return
        pod = self._pods[uid] = pod_pb2.Pod()
        pod.CopyFrom(changed)
        pod.node_name, pod.nominated_node_name = old.node_name, old.nominated_node_name
        pod.phase = old.phase
        pod.start_time.CopyFrom(old.start_time)
        pod.terminating = old.terminating
        pod.conditions.extend(old.conditions)
        self._update(pod)

    def set_condition(self, change: PodConditionChange) -> None:
        """Applies the condition and the nominated node of a session."""
        pod = self._pods.get(change.uid)
        if pod is None:
            return
        kept = [held for held in pod.conditions if held.type != "PodScheduled"]
        new = pod_pb2.PodCondition(
            type="PodScheduled",
            status=CONDITION_STATUS_FALSE,
            reason=change.reason,
            message=change.message,
        )
        del pod.conditions[:]
        pod.conditions.extend([*kept, new])
        pod.nominated_node_name = change.nominated_node_name or pod.nominated_node_name
        self._update(pod)

    def bind(self, decision: decision_pb2.Decision) -> None:
        order = decision.bind
        pod, record = self._pods.get(order.uid), self.records[order.uid]
        if pod is None or order.node not in self.node_uids:
            self._ops.refuse(decision)
            return
        record.bound_ns, record.node, record.bind_decision = self._events.now_ns, order.node, None
        pod.node_name = order.node
        pod.annotations.update(order.annotations)
        self._update(pod)
        delay = self.estimates.start_ns(self.recorded(record))
        self._events.after(delay, self.start, order.uid)

    def start(self, uid: str) -> None:
        pod, record = self._pods.get(uid), self.records[uid]
        if pod is None or pod.terminating:
            return
        record.running_ns = self._events.now_ns
        pod.phase = pod_pb2.POD_PHASE_RUNNING
        started_ns = self.estimates.start_time_ns(self.recorded(record), self._events.now_ns)
        pod.start_time.FromNanoseconds(started_ns)
        self._update(pod)
        job = self.job(record.job)
        before = job.since_ns
        job.pod_runs(uid, self._events.now_ns)
        if job.since_ns:
            for member in [uid] if before else sorted(job.running):
                self.plan_finish(member, job)

    def plan_finish(self, uid: str, job: JobRecord) -> None:
        record = self.records[uid]
        begun_ns, run_ns = max(record.running_ns, job.since_ns), None
        recorded, recorded_job = self.recorded(record), self._history.jobs.get(job.job)
        if recorded_job is not None and recorded_job.run_ns:
            # The pods of this job finish almost together.
            begun_ns, run_ns = job.since_ns, recorded.job_run_ns or recorded_job.run_ns
        else:
            run_ns = self.estimates.run_ns(recorded)
        if run_ns is not None:
            self._events.at(
                begun_ns + run_ns, self._finish, uid, self._interruptions.get(record.job, 0)
            )

    def _finish(self, uid: str, run: int) -> None:
        pod, record = self._pods.get(uid), self.records[uid]
        if pod is None or pod.terminating or self._interruptions.get(record.job, 0) != run:
            return
        recorded = self.recorded(record)
        record.finished_ns = self._events.now_ns
        record.final_phase = recorded.final_phase or pod_pb2.POD_PHASE_SUCCEEDED
        pod.phase = pod_pb2.PodPhase.ValueType(record.final_phase)
        self._update(pod)
        # A pod may finish and be deleted at the same time, in one batch.
        is_deleted = bool(recorded.gone_ns and recorded.finished_ns)
        lag_ns = recorded.gone_ns - recorded.finished_ns if is_deleted else 0
        if is_deleted:
            self._events.after(lag_ns, self.delete, uid)
        self._end_job(record.job, lag_ns)
        self._pod_ended(record.job)

    def _end_job(self, name: str, lag_ns: int) -> None:
        """Ends a job whose pods finish together, or whose other pods were deleted as recorded."""
        recorded = self._history.jobs.get(name)
        if recorded is None or name in self.ended_jobs:
            return
        finished = sum(1 for record in self._records_of[name] if record.finished_ns)
        if recorded.run_ns:
            self.ended_jobs.add(name)
            self._events.after(lag_ns, self._clean_up, name)
        elif 0 < recorded.cleaned_after <= finished:
            self.ended_jobs.add(name)
            self._events.after(recorded.cleanup_ns, self._clean_up, name)

    def _clean_up(self, job: str) -> None:
        """Deletes the remaining pods of an ended job."""
        whole = self._history.jobs[job].run_ns
        for record in self._records_of.get(job, ()):
            planned = whole and record.running_ns and not record.terminating_ns
            if not record.finished_ns and not record.gone_ns and not planned:
                self.delete(record.uid)

    def terminate(self, uid: str, *, by_user: bool = False) -> None:
        pod, record = self._pods.get(uid), self.records.get(uid)
        if pod is None or record is None or pod.terminating:
            return
        if by_user and not pod.node_name:
            self.delete(uid)
            return
        pod.terminating = True
        record.terminating_ns = self._events.now_ns
        self._interrupt(record)
        self._update(pod)
        grace_ns = self.estimates.grace_ns(self.recorded(record))
        self._events.after(grace_ns, self.delete if by_user else self.lose, uid)

    def _interrupt(self, record: PodRecord) -> None:
        job = self.job(record.job)
        before = job.since_ns
        if not record.finished_ns:
            job.pod_stops(record.uid)
        if before and not job.since_ns:
            self._interruptions[record.job] = self._interruptions.get(record.job, 0) + 1

    def lose(self, uid: str) -> None:
        """Deletes a pod, which its controller then replaces."""
        record = self.records[uid]
        if uid not in self._pods:
            return
        self.delete(uid)
        record.ended_by = BY_EVICTION if record.evicted_ns else BY_NODE
        owned = record.pod.group_name or record.pod.controller_uid
        if not record.finished_ns and owned:
            recorded = self.recorded(record)
            self._events.after(self.estimates.replacement_ns(recorded), self.replace_pod, record)

    def replace_pod(self, lost: PodRecord) -> None:
        if lost.job in self.ended_jobs:
            return
        recorded = self._history.pods.get(self.recorded(lost).replaced_by)
        if recorded is None or recorded.uid in self.records:
            self._replacements += 1
            uid = f"{lost.uid}~{self._replacements}"
            recorded = replace(self.recorded(lost), uid=uid, bound_ns=0, changes=[], is_old=False)
        else:
            recorded = replace(recorded)
        made = pod_pb2.Pod()
        made.CopyFrom(recorded.pod)
        made.uid = recorded.uid
        created_ns = made.creation_time.ToNanoseconds()
        made.creation_time.FromNanoseconds(created_ns + self._events.now_ns - recorded.created_ns)
        recorded.pod = made
        self.create(recorded)
        self.records[recorded.uid].replaces = lost.uid

    def delete(self, uid: str) -> None:
        record = self.records.get(uid)
        if self._pods.pop(uid, None) is None or record is None:
            return
        record.gone_ns = self._events.now_ns
        self._interrupt(record)
        self._ops.delete(_POD, uid)
        self._pod_ended(record.job)

    def recorded(self, record: PodRecord) -> PodRecord:
        """The recorded pod; for a simulated replacement, the recorded pod that it replaces."""
        return self._history.pods.get(record.uid.partition("~")[0], record)

    def job(self, name: str) -> JobRecord:
        return self.jobs.setdefault(name, JobRecord(name, "", self._events.now_ns))

    def _update(self, pod: pod_pb2.Pod) -> None:
        # The constructor copies the message, because the pod changes later.
        self._ops.upsert(object_pb2.ClusterObject(pod=pod))

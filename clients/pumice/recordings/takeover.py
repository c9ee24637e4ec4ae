"""The start of a what-if run in the middle of a recording."""

from __future__ import annotations

from dataclasses import replace

from pumice.recordings.event_heap import EventHeap
from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_USER, PodRecord
from pumice.recordings.simulated_pods import SimulatedPods
from pumice.v1.pod_pb2 import Pod


class Takeover:
    """Adds the pods of the past to a run, and plans the events in flight."""

    def __init__(self, history: History, events: EventHeap, pods: SimulatedPods) -> None:
        self._history, self._events, self._pods = history, events, pods

    def add_past(self, past: History) -> None:
        pods = self._pods
        self._events.now_ns = max(past.end_ns, self._events.now_ns)
        pods.jobs.update(
            (name, replace(job, running=set(job.running), finished_ns=list(job.finished_ns)))
            for name, job in past.jobs.items()
        )
        present = {held.pod.uid: held.pod for held in past.held.values() if held.HasField("pod")}
        for uid, seen in past.pods.items():
            record = replace(seen, ended_by="", replaced_by="", replaces="")
            pod = None
            if uid in present:
                pod = Pod()
                pod.CopyFrom(present[uid])
            pods.add(record, pod)
        for record in list(pods.records.values()):
            self._note_ended_job(record)
            if record.uid in present:
                self._plan_rest(record)
            else:
                self._plan_replacement(record)

    def _note_ended_job(self, record: PodRecord) -> None:
        recorded = self._history.jobs.get(record.job)
        if record.finished_ns and recorded is not None and recorded.run_ns:
            self._pods.ended_jobs.add(record.job)

    def _plan_rest(self, record: PodRecord) -> None:
        """Plans the next event of a pod at its recorded time, or else after the median duration."""
        pods, events, estimates = self._pods, self._events, self._pods.estimates
        recorded, now_ns = pods.recorded(record), events.now_ns
        for at_ns, changed in recorded.changes[len(record.changes) :]:
            events.at(at_ns, pods.change, record.uid, changed)
        if record.finished_ns or record.terminating_ns:
            is_replaced = not record.finished_ns and recorded.ended_by != BY_USER
            ends = pods.lose if is_replaced else pods.delete
            if recorded.gone_ns or is_replaced:
                at_ns = recorded.gone_ns or now_ns + estimates.grace_ns(recorded)
                events.at(at_ns, ends, record.uid)
        elif record.evicted_ns:
            at_ns = recorded.terminating_ns or recorded.gone_ns
            at_ns = at_ns or now_ns + estimates.notice_ns(recorded)
            events.at(at_ns, pods.terminate, record.uid)
        elif record.running_ns:
            job = pods.job(record.job)
            if job.since_ns:
                pods.plan_finish(record.uid, job)
        elif record.bound_ns:
            at_ns = recorded.running_ns or now_ns + estimates.start_ns(recorded)
            events.at(at_ns, pods.start, record.uid)
        elif record.bind_decision is not None:
            as_recorded = recorded.bound_ns and recorded.node == record.bind_decision.bind.node
            at_ns = recorded.bound_ns if as_recorded else now_ns + estimates.bind_ns(recorded)
            events.at(at_ns, pods.bind, record.bind_decision)

    def _plan_replacement(self, lost: PodRecord) -> None:
        """Plans the recorded replacement of a deleted pod."""
        other = self._history.pods.get(self._pods.recorded(lost).replaced_by)
        if other is not None and other.uid not in self._pods.records:
            self._events.at(other.created_ns, self._pods.replace_pod, lost)

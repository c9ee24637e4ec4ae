"""Pods in a world that never was: what becomes of them follows from what is decided now."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pumice.recordings.guesses import Guesses
from pumice.recordings.history import History
from pumice.recordings.lives import BY_EVICTION, BY_NODE, JobLife, PodLife
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE
from pumice.v1.status_pb2 import PodConditionChange

_POD = object_pb2.KIND_POD


class SimulatedPods:
    """Pods are made, bound, started, finished, evicted and made again, each at its time.

    What the core has to be told of it is in ``_ops``.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self.guesses = Guesses(history)
        self.lives: dict[str, PodLife] = {}
        self._jobs: dict[str, JobLife] = {}
        # Counts interruptions of jobs: a planned end of a run that was interrupted is void.
        self._runs: dict[str, int] = {}
        self._pods: dict[str, pod_pb2.Pod] = {}
        # Uids of nodes by name.
        self._node_uids: dict[str, str] = {}
        self._lives_of: dict[str, list[PodLife]] = {}
        # Jobs that have ended: nobody misses what is left of them.
        self._done: set[str] = set()
        self._made = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._ops: list[delta_pb2.Op] = []
        self._now_ns = history.start_ns

    # Time.

    def _at(self, at_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        # A clock that was set back does not bring back the time.
        at_ns = max(at_ns, self._now_ns)
        self._order += 1
        heapq.heappush(self._heap, (at_ns, self._order, action, arguments))

    def _happen(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self._now_ns, _, action, arguments = heapq.heappop(self._heap)
            action(*arguments)
        self._now_ns = until_ns

    # A pod's life.

    def _create(self, then: PodLife) -> None:
        there = bool(then.bound_ns) and then.bound_ns <= then.created_ns
        life = PodLife(then.uid, then.pod, self._now_ns, then.is_old)
        pod = pod_pb2.Pod()
        pod.CopyFrom(then.pod)
        self._settle_in(life, pod)
        for at_ns, changed in then.changes:
            self._at(at_ns, self._change, then.uid, changed)
        if there:
            # It had its place before anybody here was asked.
            life.bound_ns, life.node, life.decided_ns = self._now_ns, then.node, then.decided_ns
            pod.node_name = then.node
            if then.running_ns:
                self._at(then.running_ns, self._start, then.uid)
        self._tell(pod)

    def _settle_in(self, life: PodLife, pod: pod_pb2.Pod) -> None:
        self.lives[life.uid] = life
        self._lives_of.setdefault(life.job, []).append(life)
        self._pods[life.uid] = pod
        self._job(life.job)

    def _change(self, uid: str, changed: pod_pb2.Pod) -> None:
        """Its owner does something to it; what became of it here stays."""
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
        self._tell(pod)

    def _echo(self, change: PodConditionChange) -> None:
        """The pod shows that it was not placed, and the node it waits for."""
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
        self._tell(pod)

    def _bind(self, decision: decision_pb2.Decision) -> None:
        order = decision.bind
        pod, life = self._pods.get(order.uid), self.lives[order.uid]
        if pod is None or order.node not in self._node_uids:
            code = decision_pb2.OUTCOME_CODE_CONFLICT
            outcome = decision_pb2.Outcome(decision_id=decision.id, code=code)
            self._ops.append(delta_pb2.Op(outcome=outcome))
            return
        life.bound_ns, life.node, life.order = self._now_ns, order.node, None
        pod.node_name = order.node
        pod.annotations.update(order.annotations)
        self._tell(pod)
        delay = self.guesses.start_ns(self._then(life))
        self._at(self._now_ns + delay, self._start, order.uid)

    def _start(self, uid: str) -> None:
        pod, life = self._pods.get(uid), self.lives[uid]
        if pod is None or pod.terminating:
            return
        life.running_ns = self._now_ns
        pod.phase = pod_pb2.POD_PHASE_RUNNING
        started_ns = self.guesses.start_time_ns(self._then(life), self._now_ns)
        pod.start_time.FromNanoseconds(started_ns)
        self._tell(pod)
        job = self._job(life.job)
        before = job.since_ns
        job.runs(uid, self._now_ns)
        if job.since_ns:
            for member in [uid] if before else sorted(job.running):
                self._plan_finish(member, job)

    def _plan_finish(self, uid: str, job: JobLife) -> None:
        life = self.lives[uid]
        begun_ns, run_ns = max(life.running_ns, job.since_ns), None
        then, job_then = self._then(life), self._history.jobs.get(job.job)
        if job_then is not None and job_then.run_ns:
            # The job is what ends; its pods a little apart from each other.
            begun_ns, run_ns = job.since_ns, then.job_run_ns or job_then.run_ns
        else:
            run_ns = self.guesses.run_ns(then)
        if run_ns is not None:
            self._at(begun_ns + run_ns, self._finish, uid, self._runs.get(life.job, 0))

    def _finish(self, uid: str, run: int) -> None:
        pod, life = self._pods.get(uid), self.lives[uid]
        if pod is None or pod.terminating or self._runs.get(life.job, 0) != run:
            return
        then = self._then(life)
        life.finished_ns = self._now_ns
        life.final_phase = then.final_phase or pod_pb2.POD_PHASE_SUCCEEDED
        pod.phase = pod_pb2.PodPhase.ValueType(life.final_phase)
        self._tell(pod)
        lag_ns = then.gone_ns - then.finished_ns if then.gone_ns and then.finished_ns else 0
        if lag_ns:
            self._at(self._now_ns + lag_ns, self._vanish, uid)
        self._end_job(life.job, lag_ns)
        self._is_over(life.job)

    def _end_job(self, name: str, lag_ns: int) -> None:
        """A job that ends as a whole has ended; so has one whose other pods are not needed."""
        then = self._history.jobs.get(name)
        if then is None or name in self._done:
            return
        finished = sum(1 for life in self._lives_of[name] if life.finished_ns)
        if then.run_ns:
            self._done.add(name)
            self._at(self._now_ns + lag_ns, self._clean_up, name)
        elif 0 < then.cleaned_after <= finished:
            self._done.add(name)
            self._at(self._now_ns + then.cleanup_ns, self._clean_up, name)

    def _clean_up(self, job: str) -> None:
        """Of a job that has ended nobody waits any more."""
        whole = self._history.jobs[job].run_ns
        for life in self._lives_of.get(job, ()):
            planned = whole and life.running_ns and not life.terminating_ns
            if not life.finished_ns and not life.gone_ns and not planned:
                self._vanish(life.uid)

    def _terminate(self, uid: str, *, by_people: bool = False) -> None:
        pod, life = self._pods.get(uid), self.lives.get(uid)
        if pod is None or life is None or pod.terminating:
            return
        if by_people and not pod.node_name:
            self._vanish(uid)
            return
        pod.terminating = True
        life.terminating_ns = self._now_ns
        self._interrupt(life)
        self._tell(pod)
        grace_ns = self.guesses.grace_ns(self._then(life))
        self._at(self._now_ns + grace_ns, self._vanish if by_people else self._lose, uid)

    def _interrupt(self, life: PodLife) -> None:
        job = self._job(life.job)
        before = job.since_ns
        if not life.finished_ns:
            job.stops(life.uid)
        if before and not job.since_ns:
            self._runs[life.job] = self._runs.get(life.job, 0) + 1

    def _lose(self, uid: str) -> None:
        """A pod that its owner misses is gone: another one is made."""
        life = self.lives[uid]
        if uid not in self._pods:
            return
        self._vanish(uid)
        life.ended_by = BY_EVICTION if life.evicted_ns else BY_NODE
        owned = life.pod.group_name or life.pod.controller_uid
        if not life.finished_ns and owned:
            then = self._then(life)
            self._at(self._now_ns + self.guesses.remake_ns(then), self._remake, life)

    def _remake(self, lost: PodLife) -> None:
        if lost.job in self._done:
            return
        then = self._history.pods.get(self._then(lost).replaced_by)
        if then is None or then.uid in self.lives:
            self._made += 1
            uid = f"{lost.uid}~{self._made}"
            then = replace(self._then(lost), uid=uid, bound_ns=0, changes=[])
        else:
            then = replace(then)
        made = pod_pb2.Pod()
        made.CopyFrom(then.pod)
        made.uid = then.uid
        created_ns = made.creation_time.ToNanoseconds()
        made.creation_time.FromNanoseconds(created_ns + self._now_ns - then.created_ns)
        then.pod = made
        self._create(then)
        self.lives[then.uid].replaces = lost.uid

    def _vanish(self, uid: str) -> None:
        life = self.lives.get(uid)
        if self._pods.pop(uid, None) is None or life is None:
            return
        life.gone_ns = self._now_ns
        self._interrupt(life)
        self._delete(_POD, uid)
        self._is_over(life.job)

    def _is_over(self, job: str) -> None:
        """A pod of the job has ended: perhaps it was the last."""

    def _then(self, life: PodLife) -> PodLife:
        """What the recording knows of a pod, or of the one it was made after."""
        return self._history.pods.get(life.uid.partition("~")[0], life)

    def _job(self, name: str) -> JobLife:
        return self._jobs.setdefault(name, JobLife(name, "", self._now_ns))

    # To the core.

    def _tell(self, pod: pod_pb2.Pod) -> None:
        # A copy: the pod goes on changing.
        self._upsert(object_pb2.ClusterObject(pod=pod))

    def _upsert(self, held: object_pb2.ClusterObject) -> None:
        field = held.WhichOneof("object") or ""
        # The number of the field is the number of the kind.
        number = held.DESCRIPTOR.fields_by_name[field].number
        upsert = delta_pb2.Upsert(
            kind=object_pb2.Kind.ValueType(number),
            uid=getattr(held, field).uid,
            revision=1,
            object=held,
        )
        self._ops.append(delta_pb2.Op(upsert=upsert))

    def _delete(self, kind: int, uid: str) -> None:
        ref = object_pb2.ObjectRef(kind=object_pb2.Kind.ValueType(kind), uid=uid)
        self._ops.append(delta_pb2.Op(tombstone=ref))

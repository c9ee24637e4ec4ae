"""A recording's outside world with another scheduler in it: what would have happened.

Nodes, queues, quotas, creations and people's deletions come from the recording at their times.
Binds, starts, evictions and completions follow from what the core decides now.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pumice.recordings.guesses import Guesses
from pumice.recordings.history import History, OutsideEvent
from pumice.recordings.lives import BY_NODE, BY_USER, JobLife, PodLife
from pumice.recordings.pace import Pace
from pumice.v1 import decision_pb2, delta_pb2, object_pb2, pod_pb2
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.status_pb2 import PodConditionChange, StatusChange

_POD = object_pb2.KIND_POD
_GROUP = object_pb2.KIND_POD_GROUP
_LOOK_AGAIN_NS = 1_000_000_000


class Decided(Protocol):
    """What a session decided and said."""

    @property
    def decisions(self) -> Sequence[decision_pb2.Decision]: ...

    @property
    def statuses(self) -> Sequence[StatusChange]: ...


class Core(Protocol):
    """A core in this process."""

    def apply(self, ops: Sequence[delta_pb2.Op], now_ns: int) -> object: ...

    def session(self, now_ns: int) -> Decided: ...

    def next_wake(self, now_ns: int) -> int | None: ...

    @property
    def stirred(self) -> int:
        """Grows with every change after which something could be placed that could not before."""
        ...


class ClosedLoop:
    """Runs once, from the recording's beginning to its end."""

    def __init__(self, history: History, core: Core, pace: Pace) -> None:
        self._history, self._core, self._pace = history, core, pace
        self.guesses = Guesses(history)
        self.lives: dict[str, PodLife] = {}
        self.evictions: list[tuple[int, str]] = []
        self.sessions = 0
        self._jobs: dict[str, JobLife] = {}
        # Counts interruptions of jobs: a planned end of a run that was interrupted is void.
        self._runs: dict[str, int] = {}
        self._pods: dict[str, pod_pb2.Pod] = {}
        self._statuses: dict[str, PodGroupStatus] = {}
        # Names by uid, and uids by name.
        self._nodes: dict[str, str] = {}
        self._node_uids: dict[str, str] = {}
        self._lives_of: dict[str, list[PodLife]] = {}
        self._cleaned_up = _cleaned_up(history)
        # Jobs that have ended as a whole.
        self._done: set[str] = set()
        self._made = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._ops: list[delta_pb2.Op] = []
        self._now_ns = history.start_ns
        # The last session decided nothing, and nothing came since.
        self._quiet = False

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        self._plan()
        end_ns, pace = self._history.end_ns, self._pace
        while True:
            due_ns, recorded = pace.due()
            event_ns = self._heap[0][0] if self._heap else end_ns + 1
            if min(event_ns, due_ns) > end_ns:
                return
            if event_ns <= due_ns:
                self._happen(event_ns)
                self._apply(event_ns)
                continue
            pace.ran(due_ns)
            if recorded or self._is_needed(due_ns):
                self._run_session(due_ns)
                if progress is not None:
                    progress(due_ns)

    def _apply(self, now_ns: int) -> None:
        if not self._ops:
            return
        before = self._core.stirred
        self._core.apply(self._ops, now_ns)
        self._ops = []
        self._quiet = False
        if self._core.stirred != before:
            self._pace.stirred(now_ns)

    def _is_needed(self, now_ns: int) -> bool:
        """A core leaves out a session that could not decide anything new."""
        if not self._quiet:
            return True
        wake_ns = self._core.next_wake(now_ns)
        return wake_ns is not None and wake_ns <= now_ns

    def _run_session(self, now_ns: int) -> None:
        self._now_ns = now_ns
        decided = self._core.session(now_ns)
        self.sessions += 1
        self._quiet = not (decided.decisions or decided.statuses)
        self._obey(decided, now_ns)

    # The plan.

    def _plan(self) -> None:
        for event in self._history.outside:
            self._at(event.at_ns, self._outside, event)
        for life in self._history.pods.values():
            if not life.replaces:
                self._at(life.created_ns, self._create, life)
            if life.ended_by == BY_USER:
                self._at(life.gone_ns, self._vanish, life.uid)

    def _at(self, at_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at_ns, self._order, action, arguments))

    def _happen(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self._now_ns, _, action, arguments = heapq.heappop(self._heap)
            action(*arguments)
        self._now_ns = until_ns

    # Outside.

    def _outside(self, event: OutsideEvent) -> None:
        held = event.object
        if held is None:
            self._outside_end(event)
            return
        if held.HasField("pod_group"):
            group = held.pod_group
            job = self._job(f"{group.namespace}/{group.name}")
            job.queue, job.min_member = group.queue, group.min_member
            if group.uid in self._statuses:
                copied = object_pb2.ClusterObject()
                copied.CopyFrom(held)
                copied.pod_group.status.CopyFrom(self._statuses[group.uid])
                held = copied
        elif held.HasField("node"):
            self._nodes[held.node.uid] = held.node.name
            self._node_uids[held.node.name] = held.node.uid
        self._upsert(held)

    def _outside_end(self, event: OutsideEvent) -> None:
        if event.kind == _GROUP and self._outlives(event.uid):
            # Cleaned up when it was done; it is not done yet.
            self._at(self._now_ns + _LOOK_AGAIN_NS, self._outside_end, event)
            return
        name = self._nodes.pop(event.uid, "") if event.kind == object_pb2.KIND_NODE else ""
        self._delete(event.kind, event.uid)
        if name and self._node_uids.get(name) == event.uid:
            del self._node_uids[name]
            for pod in [pod for pod in self._pods.values() if pod.node_name == name]:
                self._lose(pod.uid)

    def _outlives(self, group_uid: str) -> bool:
        job = self._cleaned_up.get(group_uid, "")
        lives = (life for life in self._lives_of.get(job, ()) if not life.gone_ns)
        return any(not life.finished_ns for life in lives)

    # Pods.

    def _create(self, then: PodLife) -> None:
        there = bool(then.bound_ns) and then.bound_ns <= then.created_ns
        life = self.lives[then.uid] = PodLife(then.uid, then.pod, self._now_ns, then.is_old)
        self._lives_of.setdefault(life.job, []).append(life)
        pod = self._pods[then.uid] = pod_pb2.Pod()
        pod.CopyFrom(then.pod)
        self._job(life.job)
        if there:
            # It had its place before anybody here was asked.
            life.bound_ns, life.node, life.decided_ns = self._now_ns, then.node, then.decided_ns
            pod.node_name = then.node
            self._at(max(then.running_ns, self._now_ns), self._start, then.uid)
        self._tell(pod)

    def _obey(self, decided: Decided, now_ns: int) -> None:
        for decision in decided.decisions:
            if decision.HasField("bind"):
                life = self.lives[decision.bind.uid]
                life.decided_ns = life.decided_ns or now_ns
                delay = self.guesses.bind_ns(self._then(life))
                self._at(now_ns + delay, self._bind, decision)
            elif decision.HasField("evict"):
                life = self.lives[decision.evict.uid]
                life.evicted_ns = now_ns
                self.evictions.append((now_ns, life.uid))
                delay = self.guesses.notice_ns(self._then(life))
                self._at(now_ns + delay, self._terminate, life.uid)
        for change in decided.statuses:
            if change.HasField("pod_group"):
                self._statuses[change.pod_group.uid] = change.pod_group.status
            elif change.HasField("pod"):
                self._at(now_ns + self.guesses.echo_ns, self._echo, change.pod)

    def _echo(self, change: PodConditionChange) -> None:
        """The pod shows that it was not placed, and the node it waits for."""
        pod = self._pods.get(change.uid)
        if pod is None:
            return
        kept = [held for held in pod.conditions if held.type != "PodScheduled"]
        new = pod_pb2.PodCondition(
            type="PodScheduled", status="False", reason=change.reason, message=change.message
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
        life.bound_ns, life.node = self._now_ns, order.node
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
        pod.start_time_ns = self._now_ns
        self._tell(pod)
        job = self._job(life.job)
        before = job.since_ns
        job.runs(uid, self._now_ns)
        if job.since_ns:
            for member in [uid] if before else sorted(job.running):
                self._plan_finish(member, job)

    def _plan_finish(self, uid: str, job: JobLife) -> None:
        life = self.lives[uid]
        then = self._history.jobs.get(job.job)
        whole_ns = 0 if then is None else then.run_ns
        run_ns = whole_ns or self.guesses.run_ns(self._then(life))
        if run_ns is not None:
            begun_ns = job.since_ns if whole_ns else max(life.running_ns, job.since_ns)
            self._at(begun_ns + run_ns, self._finish, uid, self._runs.get(life.job, 0))

    def _finish(self, uid: str, run: int) -> None:
        pod, life = self._pods.get(uid), self.lives[uid]
        if pod is None or pod.terminating or self._runs.get(life.job, 0) != run:
            return
        then = self._then(life)
        succeeded = pod_pb2.POD_PHASE_SUCCEEDED
        life.finished_ns = self._now_ns
        life.final_phase = then.final_phase or succeeded
        pod.phase = pod_pb2.PodPhase.ValueType(life.final_phase)
        self._tell(pod)
        lag_ns = then.gone_ns - then.finished_ns if then.gone_ns and then.finished_ns else 0
        if lag_ns:
            self._at(self._now_ns + lag_ns, self._vanish, uid)
        if life.job not in self._done and self._is_whole(life.job):
            self._done.add(life.job)
            self._at(self._now_ns + lag_ns, self._clean_up, life.job)

    def _is_whole(self, job: str) -> bool:
        return job in self._history.jobs and self._history.jobs[job].run_ns > 0

    def _clean_up(self, job: str) -> None:
        """Of a job that has ended nobody waits any more."""
        for life in self._lives_of.get(job, ()):
            if not life.finished_ns and not life.gone_ns:
                self._vanish(life.uid)

    def _terminate(self, uid: str) -> None:
        pod, life = self._pods.get(uid), self.lives[uid]
        if pod is None or pod.terminating:
            return
        pod.terminating = True
        life.terminating_ns = self._now_ns
        self._interrupt(life)
        self._tell(pod)
        self._at(self._now_ns + self.guesses.grace_ns(self._then(life)), self._lose, uid)

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
        life.ended_by = BY_NODE if not life.evicted_ns else "eviction"
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
            then = replace(self._then(lost), uid=f"{lost.uid}~{self._made}", bound_ns=0)
        else:
            then = replace(then)
        made = pod_pb2.Pod()
        made.CopyFrom(then.pod)
        made.uid = then.uid
        made.creation_time_ns += self._now_ns - then.created_ns
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
        self._ops.append(delta_pb2.Op(upsert=delta_pb2.Upsert(revision=1, object=held)))

    def _delete(self, kind: int, uid: str) -> None:
        ref = object_pb2.ObjectRef(kind=object_pb2.Kind.ValueType(kind), uid=uid)
        self._ops.append(delta_pb2.Op(tombstone=ref))


def _cleaned_up(history: History) -> dict[str, str]:
    """The jobs, by their group's uid, whose groups went only after all their pods had finished."""
    names: dict[str, str] = {}
    found: dict[str, str] = {}
    members: dict[str, list[PodLife]] = {}
    for life in history.pods.values():
        members.setdefault(life.job, []).append(life)
    for event in history.outside:
        if event.object is not None and event.object.HasField("pod_group"):
            group = event.object.pod_group
            names[event.uid] = f"{group.namespace}/{group.name}"
        elif event.object is None and event.uid in names:
            job = names[event.uid]
            own = [life for life in members.get(job, ()) if not life.replaced_by]
            if own and all(0 < life.finished_ns <= event.at_ns for life in own):
                found[event.uid] = job
    return found

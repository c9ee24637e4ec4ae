"""Runs the engine forward until some jobs have started. Pods end after their estimated run times.

A run changes its state, so callers pass a copy. In a run no job arrives, no node fails and nothing
is deleted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, Evict, PodGroupStatusChanged, SessionResult
from pumice.core.deltas import Deleted, Delta, PodsUpserted
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.reasons import Reason
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.server.configuration import DEFAULT_PERIOD_NS
from pumice.server.estimating.levels import RunTimeEstimates, Source
from pumice.server.session_timer import QUIET_NS
from pumice.server.state import ClusterState

# Maximum number of sessions of one run.
MAX_FORWARD_SESSIONS = 2_000
# Pods that end within this share of the simulated time end together.
_RESOLUTION = 0.01
_FINISHED = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_STARTED = (*sorted(HOLDS_RESOURCES), TaskStatus.SUCCEEDED, TaskStatus.FAILED)


class Verdict(Enum):
    """The result of a run for a job or pod."""

    # It started before the run.
    STARTED = "started"
    STARTS = "starts"
    # It does not start within the horizon.
    LATER = "later"
    # It still waits when nothing more can change.
    NEVER = "never"
    # A limit ended the run.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Target:
    """A job, or one pod of a job."""

    job: str
    # Empty: the job, which starts when its minimum number of pods is placed.
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """The time at which a target starts, or up to which it does not start."""

    verdict: Verdict
    at_ns: int
    # Why the target waits at the end of the run.
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """The result of one run."""

    starts: dict[Target, Start]
    # Numbers of pods by the source of their run time.
    sources: dict[Source, int]
    unreadable: dict[str, str]
    sessions: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run."""

    horizon_ns: int
    sessions: int = MAX_FORWARD_SESSIONS
    # Whether the time for the response has passed.
    is_late: Callable[[], bool] = field(default=lambda: False)


class ForwardRun:
    """One run of the engine on one state."""

    def __init__(
        self, state: ClusterState, estimates: RunTimeEstimates, now_ns: int, limits: RunLimits
    ) -> None:
        self._state, self._estimates, self._limits = state, estimates, limits
        self._begin_ns = self._now_ns = now_ns
        self._grace_ns = estimates.grace_ns()
        # (time, number, uid, whether the pod is deleted instead of finished)
        self._ends: list[tuple[int, int, str, bool]] = []
        self._number = 0
        self._sources: Counter[Source] = Counter()
        self._phases: dict[str, PodGroupPhase] = {}
        # Uids of the pods that replaced evicted pods.
        self._replaced_by: dict[str, str] = {}
        self._starts: dict[Target, Start] = {}
        self._sessions = 0
        self._faults: dict[str, None] = {}

    def run(self, targets: Sequence[Target]) -> Forecast:
        """Runs until the targets have started. No session may be running on the state."""
        waiting = [target for target in targets if not self._has_started(target)]
        begun = set(targets) - set(waiting)
        self._starts = {t: Start(Verdict.STARTED, self._begin_ns) for t in targets if t in begun}
        self._plan_running_pods()
        verdict = self._advance(waiting)
        reasons = {wait.job: wait.reasons for wait in self._state.engine.waits}
        for target in waiting:
            if target not in self._starts:
                why = reasons.get(target.job, ())
                self._starts[target] = Start(verdict, self._now_ns, why)
        counts = {source: self._sources[source] for source in Source if self._sources[source]}
        return Forecast(
            self._starts, counts, self._estimates.unreadable, self._sessions, tuple(self._faults)
        )

    def _advance(self, targets: Sequence[Target]) -> Verdict:
        """Runs sessions until all targets have started; returns the verdict on the others."""
        waiting = [target for target in targets if target not in self._starts]
        while waiting:
            if self._sessions >= self._limits.sessions or self._limits.is_late():
                return Verdict.UNDECIDED
            result = self._state.session(self._now_ns)
            self._sessions += 1
            self._faults.update((f"{fault.author}: {fault.error}", None) for fault in result.faults)
            changed = self._apply(result)
            for target in [target for target in waiting if self._has_started(target)]:
                self._starts[target] = Start(Verdict.STARTS, self._now_ns)
                waiting.remove(target)
            next_ns = self._next_ns(again=changed)
            if next_ns is None:
                return Verdict.NEVER
            if next_ns - self._begin_ns > self._limits.horizon_ns:
                self._now_ns = self._begin_ns + self._limits.horizon_ns
                return Verdict.LATER
            self._now_ns = next_ns
            self._end_pods()
        return Verdict.STARTS

    def _next_ns(self, *, again: bool) -> int | None:
        """The time of the next session; None: nothing more can change."""
        soonest_ns = self._now_ns + self._least_step_ns
        if again:
            return soonest_ns
        step_ns = int((self._now_ns - self._begin_ns) * _RESOLUTION)
        known = [self._ends[0][0]] if self._ends else []
        wake_ns = self._state.engine.next_wake(self._now_ns)
        if wake_ns is not None:
            known.append(wake_ns)
        return max(min(known), soonest_ns, self._now_ns + step_ns) if known else None

    @property
    def _least_step_ns(self) -> int:
        """An eager core runs a session when changes have stopped, any other core after a period."""
        effective = self._state.effective
        if effective is None:
            return DEFAULT_PERIOD_NS
        return min(QUIET_NS, effective.period_ns) if effective.eager else effective.period_ns

    # Start of the run.

    def _plan_running_pods(self) -> None:
        """Plans the ends of placed pods. Decisions without an outcome count as applied."""
        cache = self._state.engine.cache
        placed: list[Pod] = []
        for uid in sorted(cache.tasks):
            task = cache.tasks[uid]
            if task.status is TaskStatus.RELEASING:
                self._plan(uid, self._grace_ns, deletes=True)
            elif task.status in HOLDS_RESOURCES and task.node_name:
                pod = task.pod
                if not pod.node_name:
                    pod = self._placed(task, task.node_name)
                    placed.append(pod)
                self._plan_end(pod, task)
        self._update(placed)

    def _has_started(self, target: Target) -> bool:
        cache = self._state.engine.cache
        if target.pod_uid:
            uid = target.pod_uid
            while uid in self._replaced_by:
                uid = self._replaced_by[uid]
            task = cache.tasks.get(uid)
            return task is not None and task.status in _STARTED
        job = cache.jobs.get(target.job)
        return job is not None and _placed_count(job) >= max(job.min_available, 1)

    # Changes of the cluster.

    def _apply(self, result: SessionResult) -> bool:
        """Applies decisions; returns whether the next session may decide more at once."""
        cache, placed = self._state.engine.cache, list[Pod]()
        evicts = False
        for decision in result.decisions:
            task = cache.tasks.get(decision.uid)
            if task is None:
                continue
            if isinstance(decision, Bind):
                pod = self._placed(task, decision.node, decision.annotations)
                placed.append(pod)
                self._plan_end(pod, task)
            elif isinstance(decision, Evict):
                evicts = True
                self._plan(decision.uid, self._grace_ns, deletes=True)
        self._update(placed)
        admits = self._note_phases(result)
        # After binds, one more session is run if no pod will end.
        return evicts or admits or (bool(placed) and not self._ends)

    def _update(self, pods: list[Pod], gone: Iterable[Delta] = ()) -> None:
        self._state.engine.apply([*gone, PodsUpserted(pods)], self._now_ns)

    def _placed(self, task: Task, node: str, annotations: Iterable[tuple[str, str]] = ()) -> Pod:
        return replace(
            task.pod,
            node_name=node,
            phase=PodPhase.RUNNING,
            start_time_ns=self._now_ns,
            annotations={**task.pod.annotations, **dict(annotations)},
        )

    def _note_phases(self, result: SessionResult) -> bool:
        """Notes phases of PodGroups; returns whether a job was admitted."""
        changed = False
        for change in result.statuses:
            if isinstance(change, PodGroupStatusChanged):
                key, phase = f"{change.namespace}/{change.name}", change.status.phase
                changed |= phase is PodGroupPhase.INQUEUE and self._phases.get(key) != phase
                self._phases[key] = phase
        return changed

    def _plan_end(self, pod: Pod, task: Task) -> None:
        job = self._state.engine.cache.jobs.get(task.job_id)
        queue, group = ("", None) if job is None else (job.queue, job.group)
        elapsed_ns = max(self._now_ns - pod.start_time_ns, 0) if pod.start_time_ns else 0
        run = self._estimates.of(pod, queue, group, elapsed_ns)
        self._sources[run.source] += 1
        if run.left_ns is not None:
            self._plan(pod.uid, run.left_ns, deletes=False)

    def _plan(self, uid: str, delay_ns: int, *, deletes: bool) -> None:
        self._number += 1
        heapq.heappush(self._ends, (self._now_ns + delay_ns, self._number, uid, deletes))

    def _end_pods(self) -> None:
        """Ends the pods whose run time has passed."""
        cache, gone, changed = self._state.engine.cache, list[Delta](), list[Pod]()
        while self._ends and self._ends[0][0] <= self._now_ns:
            _, _, uid, deletes = heapq.heappop(self._ends)
            task = cache.tasks.get(uid)
            if task is None:
                continue
            if deletes:
                gone.append(Deleted(Pod, uid))
                changed += self._replacement(task)
            elif task.status is not TaskStatus.RELEASING and task.pod.phase not in _FINISHED:
                changed.append(replace(task.pod, phase=PodPhase.SUCCEEDED))
        self._update(changed, gone)

    def _replacement(self, task: Task) -> list[Pod]:
        """The pod that a controller creates for a deleted pod that had not finished."""
        pod = task.pod
        if pod.phase in _FINISHED or not (pod.group_name or pod.controller_uid):
            return []
        uid = f"{pod.uid}~{self._number}"
        self._number += 1
        self._replaced_by[pod.uid] = uid
        made = replace(
            pod,
            uid=uid,
            node_name="",
            nominated_node_name="",
            phase=PodPhase.PENDING,
            terminating=False,
            conditions=(),
            start_time_ns=0,
            creation_time_ns=self._now_ns,
        )
        return [made]


def _placed_count(job: Job) -> int:
    return sum(len(job.index.by_status.get(status, ())) for status in _STARTED)

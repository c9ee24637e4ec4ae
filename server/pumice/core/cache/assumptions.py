"""Decisions that the cluster does not show yet, and what follows from failed ones.

After failed binds, a job is left out for a while. A gang is broken when some of its members were
bound and others were not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, Decision
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.pod import Pod
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.status import BINDING, BOUND, RELEASING, RUNNING, TaskStatus

_NO_ANNOTATIONS: tuple[tuple[str, str], ...] = ()
_SECOND_NS = 1_000_000_000
_LONGEST_COOL_DOWN_NS = 60 * _SECOND_NS
# A job is left out after this many failures in a row.
_FAILURES_BEFORE_COOL_DOWN = 2


@dataclass(slots=True)
class Assumption:
    """One decision whose result is not known yet."""

    decision_id: str
    pod_uid: str
    job_id: str
    status: TaskStatus
    node_name: str
    since_ns: int
    # What the bind adds to the pod.
    annotations: tuple[tuple[str, str], ...] = ()
    # The adapter has reported that the decision is applied; the pod does not show it yet.
    applied: bool = False
    # The result took too long: the next update of the pod closes the assumption.
    expired: bool = False


@dataclass(slots=True)
class CoolDown:
    """How many sessions in a row failed to bind a job, and until when the job is left out."""

    failures: int = 0
    until_ns: int = 0
    # The time and the node of the last failed decision. The binds of a gang, which are decided at
    # the same time, count as one failure.
    decided_ns: int = -1
    node_name: str = ""
    code: ReasonCode = ReasonCode.COOLING_DOWN

    def start(self, now_ns: int) -> None:
        doublings = min(self.failures - _FAILURES_BEFORE_COOL_DOWN, 6)
        self.until_ns = now_ns + min(_SECOND_NS << doublings, _LONGEST_COOL_DOWN_NS)

    def holds(self, now_ns: int) -> bool:
        # No cool-down is longer, so otherwise the clock was set back.
        return 0 < self.until_ns - now_ns <= _LONGEST_COOL_DOWN_NS


class CoolDowns(dict[str, CoolDown]):
    """Cool-downs by job id."""

    def failed(self, job_id: str, assumed: Assumption, code: ReasonCode, now_ns: int) -> None:
        """Counts a failed decision of a job."""
        state = self.setdefault(job_id, CoolDown())
        if state.decided_ns == assumed.since_ns:
            return
        state.decided_ns = assumed.since_ns
        state.node_name = assumed.node_name
        state.code = code
        state.failures += 1
        if state.failures >= _FAILURES_BEFORE_COOL_DOWN:
            state.start(now_ns)

    def back_off(self, job_id: str, code: ReasonCode, now_ns: int) -> None:
        """Leaves a job out at once, each time in a row for longer."""
        state = self.setdefault(job_id, CoolDown())
        state.code = code
        state.failures = max(state.failures + 1, _FAILURES_BEFORE_COOL_DOWN)
        state.start(now_ns)

    def end(self, job_id: str) -> None:
        """Forgets the failures of a job that was bound, has changed or is gone."""
        self.pop(job_id, None)

    def node_changed(self, node_name: str) -> None:
        for job_id in [id_ for id_, state in self.items() if state.node_name == node_name]:
            del self[job_id]

    def why_cooling(self, job_id: str, now_ns: int) -> ReasonCode | None:
        state = self.get(job_id)
        return state.code if state is not None and state.holds(now_ns) else None

    def next_wake(self, now_ns: int) -> int | None:
        times = [state.until_ns for state in self.values() if state.holds(now_ns)]
        return min(times, default=None)


class Assumptions:
    """Open decisions by id and by pod; a confirmed bind ends the cool-down of its job."""

    def __init__(self, cool_downs: CoolDowns) -> None:
        self._cool_downs = cool_downs
        self._by_decision: dict[str, Assumption] = {}
        self._by_pod: dict[str, Assumption] = {}

    def __len__(self) -> int:
        return len(self._by_pod)

    def open(self, *assumptions: Assumption) -> None:
        """Opens assumptions; each replaces an earlier assumption about its pod."""
        for assumption in assumptions:
            uid = assumption.pod_uid
            if uid in self._by_pod:
                self.pod_gone(uid)
            self._by_decision[assumption.decision_id] = assumption
            self._by_pod[uid] = assumption

    def open_all(
        self, decisions: Iterable[Decision], tasks: Mapping[str, Task], now_ns: int
    ) -> None:
        """Opens an assumption for each decision about one of these tasks."""
        made = []
        for decision in decisions:
            uid, status, added = decision.uid, RELEASING, _NO_ANNOTATIONS
            if isinstance(decision, Bind):
                status, added = BINDING, decision.annotations
            job_id, node = tasks[uid].job_id, decision.node
            made.append(Assumption(decision.id, uid, job_id, status, node, now_ns, added))
        self.open(*made)

    def get(self, decision_id: str) -> Assumption | None:
        return self._by_decision.get(decision_id)

    def close(self, assumption: Assumption) -> None:
        self._by_decision.pop(assumption.decision_id, None)
        if self._by_pod.get(assumption.pod_uid) is assumption:
            del self._by_pod[assumption.pod_uid]

    def pod_gone(self, pod_uid: str) -> None:
        old = self._by_pod.get(pod_uid)
        if old is not None:
            self.close(old)

    def confirm(self, pod: Pod) -> tuple[TaskStatus, str] | None:
        """Compares a pod with the assumption about it.

        A pod that shows the result, or contradicts it, ends the assumption. One that does not show
        it yet gets the assumed status and node.
        """
        assumed = self._by_pod.get(pod.uid)
        if assumed is None:
            return None
        if assumed.expired:
            self.close(assumed)
            return None
        if assumed.status is BINDING:
            if not pod.node_name and not pod.terminating:
                return assumed.status, assumed.node_name
            if pod.node_name == assumed.node_name:
                self._cool_downs.end(assumed.job_id)
        elif not pod.terminating and pod.node_name == assumed.node_name:
            return assumed.status, assumed.node_name
        self.close(assumed)
        return None

    def annotations_of(self, pod_uid: str) -> tuple[tuple[str, str], ...]:
        """The annotations of a bind that the pod does not show yet."""
        assumed = self._by_pod.get(pod_uid)
        return () if assumed is None else assumed.annotations

    def is_expired(self, pod_uid: str) -> bool:
        assumed = self._by_pod.get(pod_uid)
        return assumed is not None and assumed.expired

    def expire(self, before_ns: int, now_ns: int) -> list[Assumption]:
        """Marks the assumptions made before a time as expired, and returns them.

        The age of an expired assumption is counted anew, so that it is not returned every time. An
        assumption from the future was made before the clock was set back.
        """
        latest_ns = now_ns + (now_ns - before_ns)
        old = [a for a in self._by_pod.values() if a.since_ns < before_ns or a.since_ns > latest_ns]
        for assumption in old:
            assumption.expired = True
            assumption.since_ns = now_ns
        return old

    def not_among(self, decision_ids: Collection[str]) -> list[Assumption]:
        """Open decisions that the adapter neither holds nor has reported as applied."""
        return [
            a for a in self._by_pod.values() if not a.applied and a.decision_id not in decision_ids
        ]

    def all_open(self) -> list[Assumption]:
        return list(self._by_pod.values())


# A gang that was complete once has another phase, and may lack members for other reasons.
_NEVER_WHOLE = (PodGroupPhase.NONE, PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)


class BrokenGangs:
    """Gangs that may be broken, because a decision failed; each session checks them."""

    def __init__(self) -> None:
        # The suspects by job id, and since when they are suspects.
        self.since: dict[str, int] = {}
        # Whether all jobs were checked once.
        self.scanned = False

    def suspect(self, job_id: str, now_ns: int) -> None:
        if job_id:
            self.since.setdefault(job_id, now_ns)

    def refresh(self, jobs: dict[str, Job], now_ns: int, *, search: bool) -> dict[str, int]:
        """The broken jobs, and since when; other suspects are forgotten.

        With ``search`` all jobs are checked once, because only the cluster shows what a former core
        or adapter left half done. A gang that is being evicted, or was never meant to be whole, looks
        the same. Volcano gives such gangs no precedence, so ``search`` is used only with a deadline.
        """
        if search and not self.scanned:
            self.scanned = True
            for job in jobs.values():
                if job.keeps_phase and job.phase in _NEVER_WHOLE and is_broken(job):
                    self.since.setdefault(job.id, now_ns)
        if self.since:
            self.since = {
                # The clock may have been set back.
                id_: min(since, now_ns)
                for id_, since in sorted(self.since.items())
                if id_ in jobs and is_broken(jobs[id_])
            }
        return dict(self.since)

    def next_wake(self, now_ns: int, deadline_ns: int | None) -> int | None:
        if deadline_ns is None:
            return None
        times = [since + deadline_ns for since in self.since.values()]
        return min((time for time in times if time > now_ns), default=None)


def is_broken(job: Job) -> bool:
    return bool(job.index.count(BOUND, RUNNING)) and not job.is_ready

"""Histories of jobs: the reasons for which a job waited, with their times, and its decisions.

The loop queues the results of sessions. Readers, or a worker thread after some sessions, apply
them, so that neither the loop nor the owner's thread does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from pumice.core.decisions import Evict, SessionResult
from pumice.core.model.reasons import Reason

MAX_HISTORIES = 20_000
MAX_PERIODS = 100
MAX_EVICTIONS = 50
MAX_BIND_SESSIONS = 32
MAX_EVICTED_PODS = 20_000
# Number of sessions after which results are applied if no reader did.
_UPDATE_AFTER_SESSIONS = 16


@dataclass(slots=True)
class ReasonPeriod:
    """A reason that held without interruption, with its latest numbers."""

    reason: Reason
    first_ns: int
    last_ns: int
    sessions: int = 1
    current: bool = True


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction of a pod."""

    pod: str
    order: Evict
    session: int
    now_ns: int


@dataclass(slots=True)
class JobHistory:
    """The history of one job."""

    reasons: tuple[Reason, ...] = ()
    periods: deque[ReasonPeriod] = field(default_factory=lambda: deque(maxlen=MAX_PERIODS))
    evictions: deque[PastEviction] = field(default_factory=lambda: deque(maxlen=MAX_EVICTIONS))
    # Sessions that bound pods of the job, in order.
    bound_in: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_BIND_SESSIONS))
    # Number of sessions with unchanged reasons that the periods do not include yet.
    repeats: int = 0
    last_ns: int = 0

    def count_repeats(self) -> None:
        for period in self.periods:
            if period.current:
                period.sessions += self.repeats
                period.last_ns = max(period.last_ns, self.last_ns)
        self.repeats = 0

    def add_wait(self, reasons: tuple[Reason, ...], now_ns: int) -> None:
        if reasons == self.reasons:
            self.repeats += 1
            self.last_ns = now_ns
            return
        self.count_repeats()
        running = {_key(period.reason): period for period in self.periods if period.current}
        # Many pods of a gang have the same reason; the first one is kept.
        first: dict[tuple[object, ...], Reason] = {}
        for each in reasons:
            first.setdefault(_key(each), each)
        for key, reason in first.items():
            known = running.pop(key, None)
            if known is None:
                self.periods.append(ReasonPeriod(reason, now_ns, now_ns))
            else:
                known.reason, known.last_ns = reason, now_ns
                known.sessions += 1
        for period in running.values():
            period.current = False
        self.reasons, self.last_ns = reasons, now_ns

    def end_wait(self) -> None:
        self.count_repeats()
        for period in self.periods:
            period.current = False
        self.reasons = ()


def _key(reason: Reason) -> tuple[object, ...]:
    """The identity of a reason, without its numbers and its task.

    The task is excluded, because any of several equal tasks may be the first that does not fit.
    """
    return (reason.author, reason.code, reason.subjects)


class JobHistories:
    """The histories of the jobs of one cluster. The oldest are dropped first."""

    def __init__(self) -> None:
        self._histories: OrderedDict[str, JobHistory] = OrderedDict()
        self._evicted: OrderedDict[str, PastEviction] = OrderedDict()
        self._waiting: set[str] = set()
        self._new: deque[SessionResult] = deque()
        # Held while histories are changed or read.
        self.lock = threading.Lock()

    def add(self, result: SessionResult) -> bool:
        """Queues a result, on the loop; returns whether update() is due."""
        self._new.append(result)
        return len(self._new) >= _UPDATE_AFTER_SESSIONS

    def update(self) -> None:
        with self.lock:
            self.apply_new()

    def apply_new(self) -> None:
        """Applies the queued results. The caller holds the lock."""
        while self._new:
            self._apply(self._new.popleft())

    def _apply(self, result: SessionResult) -> None:
        waiting = set()
        for wait in result.waits:
            waiting.add(wait.job)
            self._history_of(wait.job).add_wait(wait.reasons, result.now_ns)
        for job in self._waiting - waiting:
            if job in self._histories:
                self._histories[job].end_wait()
        self._waiting = waiting
        self._apply_decisions(result)
        self._forget()

    def _apply_decisions(self, result: SessionResult) -> None:
        for decision in result.decisions:
            if isinstance(decision, Evict):
                key = f"{decision.namespace}/{decision.name}"
                evicted = PastEviction(key, decision, result.session, result.now_ns)
                self._evicted[key] = evicted
                self._evicted.move_to_end(key)
                self._history_of(decision.job).evictions.append(evicted)
            elif decision.gang is not None:
                history = self._history_of(decision.gang.job)
                if not history.bound_in or history.bound_in[-1] != result.session:
                    history.bound_in.append(result.session)

    def _history_of(self, job: str) -> JobHistory:
        history = self._histories.get(job)
        if history is None:
            history = self._histories[job] = JobHistory()
        return history

    def _forget(self) -> None:
        while len(self._evicted) > MAX_EVICTED_PODS:
            self._evicted.popitem(last=False)
        if len(self._histories) <= MAX_HISTORIES + len(self._waiting):
            return
        for job in [job for job in self._histories if job not in self._waiting]:
            if len(self._histories) <= MAX_HISTORIES:
                return
            del self._histories[job]

    # Reading.

    def of_job(self, job: str) -> JobHistory | None:
        history = self._histories.get(job)
        if history is not None:
            history.count_repeats()
        return history

    def of_name(self, name: str) -> JobHistory | None:
        """The history of the job with this name, or of the Volcano Job with this name."""
        history = self._histories.get(name)
        if history is not None:
            return history
        made = [id_ for id_ in self._waiting if id_.startswith(f"{name}-")]
        return self._histories.get(max(made)) if made else None

    def eviction_of(self, pod: str) -> PastEviction | None:
        return self._evicted.get(pod)

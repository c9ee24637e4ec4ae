"""The story of every job: which reasons held it back from when to when, and what was decided.

A book takes note of sessions as they end, and is brought up to date by whoever reads it, or when
much has come together: on any thread but the loop and the owner's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from pumice.core.decisions import Evict, SessionResult
from pumice.core.model.reasons import Reason

_MOST_STORIES = 20_000
_MOST_PERIODS = 100
_MOST_EVICTIONS = 50
_MOST_SESSIONS = 32
_MOST_EVICTED_PODS = 20_000
# So many sessions are written in one go.
_MOST_UNWRITTEN = 16


@dataclass(slots=True)
class Period:
    """A reason that held without a break; the numbers in it are the last ones."""

    reason: Reason
    first_ns: int
    last_ns: int
    sessions: int = 1
    current: bool = True


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that was taken away."""

    pod: str
    order: Evict
    session: int
    now_ns: int


@dataclass(slots=True)
class Story:
    """One job."""

    reasons: tuple[Reason, ...] = ()
    periods: deque[Period] = field(default_factory=lambda: deque(maxlen=_MOST_PERIODS))
    evictions: deque[Evicted] = field(default_factory=lambda: deque(maxlen=_MOST_EVICTIONS))
    # Sessions that bound something of it, newest last.
    bound_in: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_SESSIONS))
    # Sessions since the reasons last changed, not yet counted in the periods.
    repeats: int = 0
    last_ns: int = 0

    def count_repeats(self) -> None:
        for period in self.periods:
            if period.current:
                period.sessions += self.repeats
                period.last_ns = max(period.last_ns, self.last_ns)
        self.repeats = 0

    def waits(self, reasons: tuple[Reason, ...], now_ns: int) -> None:
        if reasons == self.reasons:
            self.repeats += 1
            self.last_ns = now_ns
            return
        self.count_repeats()
        running = {_key(period.reason): period for period in self.periods if period.current}
        # A large gang says the same of many of its pods: of these the first one counts.
        first: dict[tuple[object, ...], Reason] = {}
        for each in reasons:
            first.setdefault(_key(each), each)
        for key, reason in first.items():
            known = running.pop(key, None)
            if known is None:
                self.periods.append(Period(reason, now_ns, now_ns))
            else:
                known.reason, known.last_ns = reason, now_ns
                known.sessions += 1
        for period in running.values():
            period.current = False
        self.reasons, self.last_ns = reasons, now_ns

    def waits_no_more(self) -> None:
        self.count_repeats()
        for period in self.periods:
            period.current = False
        self.reasons = ()


def _key(reason: Reason) -> tuple[object, ...]:
    """What makes two reasons the same, whatever their numbers are by now.

    The task is left out: of equal tasks now one and now another is the first that does not fit.
    """
    return (reason.author, reason.code, reason.subjects)


class Book:
    """The stories of one cluster's jobs; those not heard of for longest are forgotten first."""

    def __init__(self) -> None:
        self._stories: OrderedDict[str, Story] = OrderedDict()
        self._evicted: OrderedDict[str, Evicted] = OrderedDict()
        self._waiting: set[str] = set()
        self._unwritten: deque[SessionResult] = deque()
        # Held by whoever writes or reads.
        self.lock = threading.Lock()

    def take_note(self, result: SessionResult) -> bool:
        """On the loop; true when it is time to catch up."""
        self._unwritten.append(result)
        return len(self._unwritten) >= _MOST_UNWRITTEN

    def catch_up(self) -> None:
        with self.lock:
            self.write_all()

    def write_all(self) -> None:
        """With the lock held."""
        while self._unwritten:
            self.write(self._unwritten.popleft())

    def write(self, result: SessionResult) -> None:
        waiting = set()
        for wait in result.waits:
            waiting.add(wait.job)
            self._story(wait.job).waits(wait.reasons, result.now_ns)
        for job in self._waiting - waiting:
            if job in self._stories:
                self._stories[job].waits_no_more()
        self._waiting = waiting
        self._write_decisions(result)
        self._forget()

    def _write_decisions(self, result: SessionResult) -> None:
        for decision in result.decisions:
            if isinstance(decision, Evict):
                key = f"{decision.namespace}/{decision.name}"
                evicted = Evicted(key, decision, result.session, result.now_ns)
                self._evicted[key] = evicted
                self._evicted.move_to_end(key)
                self._story(decision.job).evictions.append(evicted)
            elif decision.gang is not None:
                story = self._story(decision.gang.job)
                if not story.bound_in or story.bound_in[-1] != result.session:
                    story.bound_in.append(result.session)

    def _story(self, job: str) -> Story:
        story = self._stories.get(job)
        if story is None:
            story = self._stories[job] = Story()
        return story

    def _forget(self) -> None:
        while len(self._evicted) > _MOST_EVICTED_PODS:
            self._evicted.popitem(last=False)
        if len(self._stories) <= _MOST_STORIES + len(self._waiting):
            return
        for job in [job for job in self._stories if job not in self._waiting]:
            if len(self._stories) <= _MOST_STORIES:
                return
            del self._stories[job]

    # Reading.

    def story_of(self, job: str) -> Story | None:
        story = self._stories.get(job)
        if story is not None:
            story.count_repeats()
        return story

    def story_named(self, name: str) -> Story | None:
        """That of the job, or of the one that Volcano made for a Job of this name."""
        story = self._stories.get(name)
        if story is not None:
            return story
        made = [id_ for id_ in self._waiting if id_.startswith(f"{name}-")]
        return self._stories.get(max(made)) if made else None

    def eviction_of(self, pod: str) -> Evicted | None:
        return self._evicted.get(pod)

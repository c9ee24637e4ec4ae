"""The last sessions of a cluster, for queries and for watchers."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from pumice.core.decisions import Bind, SessionResult
from pumice.server import errors
from pumice.server.limits import Limits
from pumice.server.wire import write_decisions, write_fault, write_timing, write_wait
from pumice.server.wire.times import duration, timestamp
from pumice.v1 import session_pb2

# A message with this many decisions and waits stays below the message limit.
MAX_ITEMS = 5_000
# Above this number of decisions, the details of the oldest sessions are dropped.
MAX_KEPT_DECISIONS = 100_000


@dataclass(slots=True)
class SessionRecord:
    """One session: its summary, and its result until that is dropped."""

    number: int
    summary: session_pb2.SessionSummary
    result: SessionResult | None
    decided: int

    @property
    def item_count(self) -> int:
        """Number of decisions and waits that are kept."""
        return 0 if self.result is None else len(self.result.decisions) + len(self.result.waits)

    def detail(self, start: int = 0, count: int = MAX_ITEMS) -> session_pb2.SessionDetail:
        """A range of the decisions followed by the waits. The first range also has the faults."""
        result = self.result
        if result is None:
            return session_pb2.SessionDetail(summary=self.summary, summary_only=True)
        decided, end = len(result.decisions), start + count
        gangs, decisions = write_decisions(result.decisions[start:end])
        waits = result.waits[max(start - decided, 0) : max(end - decided, 0)]
        return session_pb2.SessionDetail(
            summary=self.summary,
            gangs=gangs,
            decisions=decisions,
            waits=map(write_wait, waits),
            faults=() if start else map(write_fault, result.faults),
            truncated=len(decisions) + len(waits) < decided + len(result.waits),
        )


def record(
    result: SessionResult, *, duration_ns: int, based_on_seq: int, config_hash: str
) -> SessionRecord:
    binds = sum(1 for decision in result.decisions if isinstance(decision, Bind))
    summary = session_pb2.SessionSummary(
        session=result.session,
        start_time=timestamp(result.now_ns),
        duration=duration(duration_ns),
        based_on_seq=based_on_seq,
        config_hash=config_hash,
        bind_count=binds,
        evict_count=len(result.decisions) - binds,
        wait_count=len(result.waits),
        fault_count=len(result.faults),
        work=result.work,
        timings=map(write_timing, result.timings),
    )
    return SessionRecord(result.session, summary, result, len(result.decisions))


class History:
    """The last sessions of a cluster, in order."""

    def __init__(self, kept: int) -> None:
        self._records: deque[SessionRecord] = deque(maxlen=kept)
        self._decisions = 0

    def add(self, new: SessionRecord) -> None:
        if len(self._records) == self._records.maxlen and self._records[0].result is not None:
            self._decisions -= self._records[0].decided
        self._records.append(new)
        self._decisions += new.decided
        for old in self._records:
            if self._decisions <= MAX_KEPT_DECISIONS or old is new:
                break
            if old.result is not None:
                old.result = None
                self._decisions -= old.decided

    def newest_first(self) -> list[SessionRecord]:
        return list(reversed(self._records))

    def after(self, number: int) -> list[SessionRecord]:
        return [old for old in self._records if old.number > number]

    def get(self, number: int) -> SessionRecord | None:
        """The session with this number; 0: the last one."""
        if not number:
            return self._records[-1] if self._records else None
        return next((old for old in self._records if old.number == number), None)

    @property
    def bounds(self) -> tuple[int, int]:
        if not self._records:
            return 0, 0
        return self._records[0].number, self._records[-1].number


class Watcher:
    """The queue of one watcher. None in the queue ends the watch."""

    def __init__(self, limit: int) -> None:
        self.queue: asyncio.Queue[SessionRecord | None] = asyncio.Queue(limit)
        self.too_slow = False


class Watchers:
    """All watchers of a cluster. Each has its own queue, so a slow watcher delays no other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watchers: list[Watcher] = []

    def add(self) -> Watcher:
        if len(self._watchers) >= self._limits.watchers:
            limit = self._limits.watchers
            raise errors.BusyError("watchers", limit, len(self._watchers) + 1)
        # One more element, for None.
        watcher = Watcher(self._limits.watcher_sessions + 1)
        self._watchers.append(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def publish(self, record: SessionRecord) -> None:
        for watcher in list(self._watchers):
            if watcher.queue.qsize() < self._limits.watcher_sessions:
                watcher.queue.put_nowait(record)
            else:
                watcher.too_slow = True
                self._end(watcher)

    def close(self) -> None:
        for watcher in list(self._watchers):
            self._end(watcher)

    def _end(self, watcher: Watcher) -> None:
        self.remove(watcher)
        watcher.queue.put_nowait(None)

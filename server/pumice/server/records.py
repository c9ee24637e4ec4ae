"""Sessions that ran, kept for a while for those who look."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.core.decisions import Bind, SessionResult
from pumice.server.configuration import duration
from pumice.server.wire import write_decisions, write_fault, write_wait
from pumice.v1 import session_pb2

_SECOND_NS = 1_000_000_000
# A message of so many decisions and waits stays under the limit of messages.
_MOST_DECISIONS = 10_000
_MOST_WAITS = 5_000
# Details of older sessions are dropped when together they hold more decisions.
_KEPT_DECISIONS = 100_000


def timestamp(time_ns: int) -> Timestamp:
    return Timestamp(seconds=time_ns // _SECOND_NS, nanos=time_ns % _SECOND_NS)


@dataclass(slots=True)
class SessionRecord:
    """One session: its figures, and what it decided while that is kept."""

    number: int
    summary: session_pb2.SessionSummary
    result: SessionResult | None
    decided: int

    def detail(self) -> session_pb2.SessionDetail:
        """All of it, as far as it is kept and a message can hold it."""
        result = self.result
        if result is None:
            return session_pb2.SessionDetail(summary=self.summary)
        gangs, decisions = write_decisions(islice(result.decisions, _MOST_DECISIONS))
        return session_pb2.SessionDetail(
            summary=self.summary,
            gangs=gangs,
            decisions=decisions,
            waits=map(write_wait, result.waits[:_MOST_WAITS]),
            faults=map(write_fault, result.faults),
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
    )
    return SessionRecord(result.session, summary, result, len(result.decisions))


class History:
    """The last sessions of a cluster, newest last."""

    def __init__(self, kept: int) -> None:
        self._records: deque[SessionRecord] = deque(maxlen=kept)
        self._decisions = 0

    def add(self, new: SessionRecord) -> None:
        if len(self._records) == self._records.maxlen and self._records[0].result is not None:
            self._decisions -= self._records[0].decided
        self._records.append(new)
        self._decisions += new.decided
        for old in self._records:
            if self._decisions <= _KEPT_DECISIONS or old is new:
                break
            if old.result is not None:
                old.result = None
                self._decisions -= old.decided

    def newest_first(self) -> list[SessionRecord]:
        return list(reversed(self._records))

    def after(self, number: int) -> list[SessionRecord]:
        return [old for old in self._records if old.number > number]

    def get(self, number: int) -> SessionRecord | None:
        """The session of that number; 0: the last one."""
        if not number:
            return self._records[-1] if self._records else None
        return next((old for old in self._records if old.number == number), None)

    @property
    def bounds(self) -> tuple[int, int]:
        if not self._records:
            return 0, 0
        return self._records[0].number, self._records[-1].number

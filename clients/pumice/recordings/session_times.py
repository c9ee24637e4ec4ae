"""The times of sessions in a what-if run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from pumice.v1.configuration_pb2 import Configuration

_SECOND_NS = 1_000_000_000
# As in a core: the time without relevant changes before an eager session, the same while every
# changed gang is complete, and the maximum delay by continuous changes.
QUIET_NS = 50_000_000
COMPLETE_QUIET_NS = 15_000_000
LONGEST_WAIT_NS = 100_000_000
# As in a core: sessions without QUIET_NS before them use at most a fifth of the time.
_PAUSE_FACTOR = 4
# A recorded session up to this time after a due one counts as it, because cores can be late.
_MOST_LATE_NS = 250_000_000


def period_and_eagerness(configuration: Configuration) -> tuple[int, bool]:
    """The period in nanoseconds, and whether sessions may run before its end."""
    period_ns = configuration.schedule_period.ToNanoseconds() or _SECOND_NS
    return period_ns, configuration.eager if configuration.HasField("eager") else True


class SessionTimes:
    """The recorded times of sessions, and the times at which a core would run further ones.

    A core runs a session a period after the last one and, if it is eager, earlier after a relevant
    change. With another period or eagerness only the first recorded time counts.
    """

    def __init__(
        self,
        recorded: Sequence[int],
        period_ns: int,
        *,
        eager: bool,
        as_recorded: bool = True,
        durations_ns: Sequence[int] = (),
    ) -> None:
        """``durations_ns`` has the durations of recorded sessions; their median is used for all."""
        self._ticks = list(recorded if as_recorded else recorded[:1])
        self._next = 0
        self._as_recorded = as_recorded
        self._set(period_ns, eager=eager)
        self._last_ns = self._ticks[0]
        # The first and the last relevant change since the last session.
        self._first_ns: int | None = None
        self._changed_ns = 0
        self._is_complete = False
        duration_ns = median_low(durations_ns) if durations_ns else 0
        self._pause_ns, self._paused_until_ns = (1 + _PAUSE_FACTOR) * duration_ns, 0

    def _set(self, period_ns: int, *, eager: bool) -> None:
        self._period_ns, self._eager = period_ns, eager
        self._late_ns = min(_MOST_LATE_NS, period_ns // 4) if self._as_recorded else 0

    def configured(self, configuration: Configuration) -> None:
        """Applies another configuration from now on."""
        period_ns, eager = period_and_eagerness(configuration)
        self._set(period_ns, eager=eager)

    def relevant_change(self, now_ns: int, *, complete: bool = False) -> None:
        """Records a change after which a job could be placed, and whether all gangs are complete."""
        if self._first_ns is None:
            self._first_ns = now_ns
        self._changed_ns = now_ns
        self._is_complete = complete

    def next_session(self) -> tuple[int, bool]:
        """The time of the next session, and whether it is a recorded session."""
        tick_ns = self._ticks[self._next] if self._next < len(self._ticks) else None
        if not self._next and tick_ns is not None:
            return tick_ns, True
        own_ns = self._last_ns + self._period_ns
        if self._eager and self._first_ns is not None:
            early_ns = self._first_ns + LONGEST_WAIT_NS
            if self._is_complete:
                early_ns = min(early_ns, self._changed_ns + COMPLETE_QUIET_NS)
            early_ns = max(early_ns, self._paused_until_ns)
            own_ns = min(own_ns, early_ns, self._changed_ns + QUIET_NS)
        if tick_ns is not None and tick_ns <= own_ns + self._late_ns:
            return tick_ns, True
        return own_ns, False

    def session_ran(self, now_ns: int, *, needed: bool = True) -> None:
        """Records that a session ran, or was not needed."""
        if needed:
            self._paused_until_ns = now_ns + self._pause_ns
        self._last_ns = now_ns
        self._first_ns = None
        if self._next < len(self._ticks) and self._ticks[self._next] <= now_ns:
            self._next += 1

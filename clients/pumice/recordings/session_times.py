"""The times of sessions in a what-if run."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.v1.configuration_pb2 import Configuration

_SECOND_NS = 1_000_000_000
# Time without relevant changes before an eager session, as in a core.
QUIET_NS = 50_000_000
# A recorded session within this time after a due one stands for it: cores are busy, clocks jitter.
_MOST_LATE_NS = 250_000_000


def period_and_eagerness(configuration: Configuration) -> tuple[int, bool]:
    """The period, and whether sessions run before it is over."""
    period_ns = configuration.schedule_period.ToNanoseconds() or _SECOND_NS
    return period_ns, configuration.eager if configuration.HasField("eager") else True


class SessionTimes:
    """The recorded times of sessions, and the times at which a core would run further ones.

    A core runs a session a period after the last one and, if it is eager, earlier after a relevant
    change. With another period or eagerness only the first recorded time counts.
    """

    def __init__(
        self, recorded: Sequence[int], period_ns: int, *, eager: bool, as_recorded: bool = True
    ) -> None:
        self._ticks = list(recorded if as_recorded else recorded[:1])
        self._next = 0
        self._as_recorded = as_recorded
        self._set(period_ns, eager=eager)
        self._last_ns = self._ticks[0]
        self._changed_ns: int | None = None

    def _set(self, period_ns: int, *, eager: bool) -> None:
        self._period_ns, self._eager = period_ns, eager
        self._late_ns = min(_MOST_LATE_NS, period_ns // 4) if self._as_recorded else 0

    def configured(self, configuration: Configuration) -> None:
        """Applies another configuration from now on."""
        period_ns, eager = period_and_eagerness(configuration)
        self._set(period_ns, eager=eager)

    def relevant_change(self, now_ns: int) -> None:
        """Notes a change after which a job could be placed."""
        self._changed_ns = now_ns

    def next_session(self) -> tuple[int, bool]:
        """The time of the next session, and whether it is a recorded one."""
        tick_ns = self._ticks[self._next] if self._next < len(self._ticks) else None
        if not self._next and tick_ns is not None:
            return tick_ns, True
        own_ns = self._last_ns + self._period_ns
        if self._eager and self._changed_ns is not None:
            own_ns = min(own_ns, self._changed_ns + QUIET_NS)
        if tick_ns is not None and tick_ns <= own_ns + self._late_ns:
            return tick_ns, True
        return own_ns, False

    def session_ran(self, now_ns: int) -> None:
        """Notes that a session ran, or was not needed."""
        self._last_ns = now_ns
        self._changed_ns = None
        if self._next < len(self._ticks) and self._ticks[self._next] <= now_ns:
            self._next += 1

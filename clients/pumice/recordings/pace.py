"""When sessions run in a world that never was."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.v1.configuration_pb2 import Configuration

_SECOND_NS = 1_000_000_000
# As cores do: so long after the last change that matters.
QUIET_NS = 50_000_000
# A recorded session so soon after one was due is that one: cores are busy, and clocks jitter.
_MOST_LATE_NS = 250_000_000


def pacing(configuration: Configuration) -> tuple[int, bool]:
    """The period, and whether sessions run before it is over."""
    period_ns = configuration.schedule_period.ToNanoseconds() or _SECOND_NS
    return period_ns, configuration.eager if configuration.HasField("eager") else True


class Pace:
    """At the recorded times, and whenever a core would run a session besides.

    A core runs one a period after the last; sooner, if it is eager, when changes that matter have
    settled. Where the period or the eagerness is another than recorded, the recorded times mean
    nothing, and only the first of them counts.
    """

    def __init__(
        self, recorded: Sequence[int], period_ns: int, *, eager: bool, as_recorded: bool = True
    ) -> None:
        self._ticks = list(recorded if as_recorded else recorded[:1])
        self._next = 0
        self._as_recorded = as_recorded
        self._set(period_ns, eager=eager)
        self._last_ns = self._ticks[0]
        self._stirred_ns: int | None = None

    def _set(self, period_ns: int, *, eager: bool) -> None:
        self._period_ns, self._eager = period_ns, eager
        self._late_ns = min(_MOST_LATE_NS, period_ns // 4) if self._as_recorded else 0

    def configured(self, configuration: Configuration) -> None:
        """Another configuration counts from now on."""
        period_ns, eager = pacing(configuration)
        self._set(period_ns, eager=eager)

    def stirred(self, now_ns: int) -> None:
        """Something came that could let a job be placed."""
        self._stirred_ns = now_ns

    def due(self) -> tuple[int, bool]:
        """When the next session is due, and whether one was recorded then."""
        tick_ns = self._ticks[self._next] if self._next < len(self._ticks) else None
        if not self._next and tick_ns is not None:
            return tick_ns, True
        own_ns = self._last_ns + self._period_ns
        if self._eager and self._stirred_ns is not None:
            own_ns = min(own_ns, self._stirred_ns + QUIET_NS)
        if tick_ns is not None and tick_ns <= own_ns + self._late_ns:
            return tick_ns, True
        return own_ns, False

    def ran(self, now_ns: int) -> None:
        """A session ran, or was found not to be needed."""
        self._last_ns = now_ns
        self._stirred_ns = None
        if self._next < len(self._ticks) and self._ticks[self._next] <= now_ns:
            self._next += 1

"""The mean duration of recent calls."""

from typing import Final

from pumice.adapters.runtime.clock import Clock

_LAST_WEIGHT: Final = 0.1
RECENT_SECONDS: Final = 1.0


class RecentDurations:
    """A mean in which the last durations count most."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mean = 0.0
        self._added_at = -RECENT_SECONDS

    def add_since(self, began: float) -> float:
        """Adds the time since a moment, and returns it."""
        now = self._clock.now()
        seconds = now - began
        # Durations of an earlier time do not count.
        before = self.mean
        self._mean, self._added_at = before + _LAST_WEIGHT * (seconds - before), now
        return seconds

    @property
    def mean(self) -> float:
        """The mean in seconds; 0 if none was added recently."""
        return self._mean if self._clock.now() - self._added_at < RECENT_SECONDS else 0.0

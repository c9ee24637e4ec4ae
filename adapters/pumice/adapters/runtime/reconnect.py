"""Delays between two streams to the core.

An attempt to reach an absent core is cheap, and nothing is scheduled in the meantime, so these
delays stay short. A stream that the core accepts and then ends costs both sides a snapshot, and the
next stream may end in the same way, so these delays grow until a stream has lasted for some time.
"""

import random
from typing import Final

from pumice.adapters.runtime.clock import Backoff
from pumice.adapters.runtime.stream_end import StreamEnd

# A stream that lasted for this time resets the delay.
STEADY_SECONDS: Final = 30.0


class ReconnectPolicy:
    """Computes the delay after each stream."""

    def __init__(self, away: Backoff, refused: Backoff, rng: random.Random) -> None:
        self._away, self._refused, self._rng = away, refused, rng
        # Number of consecutive streams without an Ack.
        self.failures = 0
        # Number of streams that the core ended since the last long one.
        self._refusals = 0

    def delay_after(self, end: StreamEnd, lasted_seconds: float) -> float:
        """The seconds until the next stream."""
        if lasted_seconds >= STEADY_SECONDS:
            self._refusals = 0
        self.failures = 0 if end.was_useful else self.failures + 1
        # After a useful stream, the first retry follows almost at once.
        delay = self._away.delay(max(self.failures, 1), self._rng)
        if end.is_refusal:
            self._refusals += 1
            delay = max(delay, self._refused.delay(self._refusals, self._rng))
        return max(delay, end.retry_after_seconds)

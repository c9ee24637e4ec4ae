"""A rate limit for calls to the API server."""

from pumice.adapters.runtime.clock import Clock


class TokenBucket:
    """A token bucket that serves callers in order. A rate of 0 means no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps, self._burst = qps, max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._at = clock.now()

    async def acquire(self) -> None:
        """Waits for a token."""
        if self._qps <= 0:
            return
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        # The count may become negative: each caller waits for its own token.
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._qps)

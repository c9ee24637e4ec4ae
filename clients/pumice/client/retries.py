"""The retry policy of calls: bounded by time, with growing delays and jitter."""

from __future__ import annotations

import asyncio
import random
import time

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from pumice.client.errors import (
    CallError,
    ClientError,
    CoreUnavailableError,
    LimitExceededError,
    NotFoundError,
)
from pumice.client.settings import ClientSettings

_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.1, 1.0
# Minimum time for the last attempt.
_LAST_ATTEMPT_SECONDS = 0.05
# An attempt to open a stream that lasts longer than this has reached a core.
_FAILED_ATTEMPT_SECONDS = 3.0
# A restarted core does not know the cluster until its adapter connects; the core ends slow readers.
_AFTER_RESTART = (NotFoundError, LimitExceededError)


class Deadline:
    """The time at which a call with all its pages and retries must end."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float:
        return max(self._end - time.monotonic(), 0.0)


def is_retryable(error: BaseException) -> bool:
    return isinstance(error, ClientError) and error.retryable


_growing = wait_random_exponential(_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS)


def retrying(settings: ClientSettings, deadline: Deadline) -> AsyncRetrying:
    """Retries until the deadline if the core is busy, and for ``retry_seconds`` if none answers."""

    def left(state: RetryCallState) -> float:
        """The remaining time for attempts."""
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, CoreUnavailableError):
            return deadline.remaining_seconds
        spent = state.seconds_since_start or 0.0
        return min(settings.retry_seconds - spent, deadline.remaining_seconds)

    def delay(state: RetryCallState) -> float:
        """A growing delay with jitter, which ends in time for a last attempt.

        It is at least the delay that the core requests.
        """
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.details.retry_after_seconds if isinstance(error, ClientError) else 0.0
        return max(min(_growing(state), left(state) - _LAST_ATTEMPT_SECONDS), asked, 0.0)

    def stop(state: RetryCallState) -> bool:
        return max(state.upcoming_sleep, _LAST_ATTEMPT_SECONDS) >= left(state)

    return AsyncRetrying(
        retry=retry_if_exception(is_retryable),
        wait=delay,
        stop=stop,
        reraise=True,
    )


class Outage:
    """An outage of the core during a stream, with the delays between attempts to reopen it."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._deadline = Deadline(limit_seconds)
        self._attempts = 0
        self._attempt_start = 0.0
        self._was_open = False

    def attempt_begins(self) -> None:
        self._attempt_start = time.monotonic()

    def ends(self) -> None:
        """Records that the core answers again."""
        self._was_open = True
        self._attempts = 0

    async def wait_after(self, error: CallError) -> None:
        """Waits before the next attempt; raises the error if another attempt cannot help."""
        if time.monotonic() - self._attempt_start > _FAILED_ATTEMPT_SECONDS:
            # The core has answered: a stream without responses looks like one that is opening.
            self.ends()
        if not (error.retryable or (self._was_open and isinstance(error, _AFTER_RESTART))):
            raise error
        if not self._attempts:
            self._deadline = Deadline(self._limit_seconds)
        longest = min(_FIRST_DELAY_SECONDS * 2**self._attempts, _LONGEST_DELAY_SECONDS)
        self._attempts += 1
        delay = random.uniform(_FIRST_DELAY_SECONDS / 2, longest)
        if delay >= self._deadline.remaining_seconds:
            raise error
        await asyncio.sleep(delay)

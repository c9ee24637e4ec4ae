"""The retry policy of calls to the API server.

Throttling, server errors, lost responses and unreachable servers are retried with delays that
double up to 10 s. Missing rights and bad credentials are retried with delays up to 60 s, because an
operator must change something first. All other errors are raised at once.
"""

import logging
import random

import tenacity

from pumice.adapters.kubernetes.errors import (
    ApiError,
    BadCredentialsError,
    LostAnswerError,
    MissingRightsError,
    NoAccessError,
    UnreachableError,
    one_line,
)
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

_FIRST_SECONDS = 0.2
_CEILING_SECONDS = 10.0
_OPERATOR_CEILING_SECONDS = 60.0
# From this attempt on, errors are logged at level error, at each power of two.
_LOUD_ATTEMPT = 4
# Errors that an operator must resolve.
NEEDS_OPERATOR = (MissingRightsError, BadCredentialsError, NoAccessError)


def is_retryable(error: BaseException) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, ApiError):
        return error.is_transient or isinstance(error, MissingRightsError)
    return isinstance(
        error, LostAnswerError | UnreachableError | BadCredentialsError | NoAccessError
    )


class _Wait(tenacity.wait.wait_base):
    """A delay that doubles, with jitter, and is never shorter than Retry-After."""

    def __init__(self) -> None:
        self._growing = tenacity.wait_exponential(_FIRST_SECONDS, max=_OPERATOR_CEILING_SECONDS)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        delay = self._growing(retry_state)
        if not isinstance(error, NEEDS_OPERATOR):
            delay = min(delay, _CEILING_SECONDS)
        # Jitter affects the upper half only, so that delays grow.
        delay *= 0.5 + random.random() / 2
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        return max(delay, asked)


class RetryPolicy:
    """Makes retry loops, which log, count and use the adapter's clock."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock, self._metrics = clock, metrics

    def retrying(self, what: str, tries: int = 0) -> tenacity.AsyncRetrying:
        """A loop of attempts; 0 tries: no limit. `what` names the call in the log."""

        def report(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            kind = type(error).__name__ if error is not None else ""
            self._metrics.count("api_retries", error=kind)
            wait = state.next_action.sleep if state.next_action else 0.0
            attempt = state.attempt_number
            is_loud = attempt >= _LOUD_ATTEMPT or isinstance(error, NEEDS_OPERATOR)
            is_power_of_two = attempt & (attempt - 1) == 0
            log.log(
                logging.ERROR if is_loud and is_power_of_two else logging.INFO,
                "%s: %s; retry in %.1f s",
                what,
                one_line(error) if error is not None else "failed",
                wait,
            )

        return tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            stop=tenacity.stop_after_attempt(tries) if tries else tenacity.stop_never,
            wait=_Wait(),
            retry=tenacity.retry_if_exception(is_retryable),
            before_sleep=report,
            reraise=True,
        )

"""Trying again: after throttling, server errors and lost answers, with jitter, as long as it takes."""

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
# A server comes back sooner than a person grants rights.
_CEILING_SECONDS = 10.0
_PEOPLE_CEILING_SECONDS = 60.0


# Trouble that only a person can end.
BY_PEOPLE = (MissingRightsError, BadCredentialsError, NoAccessError)


def may_pass(error: BaseException) -> bool:
    """Whether a later try may go better: rights and credentials can be granted meanwhile."""
    if isinstance(error, ApiError):
        return error.is_transient or isinstance(error, MissingRightsError)
    return isinstance(
        error, LostAnswerError | UnreachableError | BadCredentialsError | NoAccessError
    )


class _Wait(tenacity.wait.wait_base):
    """Doubling with jitter, but never less than the server asks for."""

    def __init__(self) -> None:
        self._growing = tenacity.wait_exponential(_FIRST_SECONDS, max=_PEOPLE_CEILING_SECONDS)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        delay = self._growing(retry_state)
        if not isinstance(error, BY_PEOPLE):
            delay = min(delay, _CEILING_SECONDS)
        # The lower half stays, so that a delay grows whatever the dice say.
        delay *= 0.5 + random.random() / 2
        asked = error.retry_after if isinstance(error, ApiError) else 0.0
        return max(delay, asked)


class RetryPolicy:
    """Makes retries that log, count and wait by the adapter's clock."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock, self._metrics = clock, metrics

    def retrying(self, what: str, tries: int = 0) -> tenacity.AsyncRetrying:
        """For ever, or so many times; other errors than those that pass end it at once."""

        def tell(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            kind = type(error).__name__ if error is not None else ""
            self._metrics.count("api_retries", error=kind)
            wait = state.next_action.sleep if state.next_action else 0.0
            # Trouble that stays is worth a person's look, now and then; a hiccup is not.
            tries = state.attempt_number
            by_people = isinstance(error, BY_PEOPLE)
            told = tries & (tries - 1) == 0 and (by_people or tries >= 4)
            log.log(
                logging.ERROR if told else logging.INFO,
                "%s: %s; again in %.1f s",
                what,
                one_line(error) if error is not None else "failed",
                wait,
            )

        return tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            stop=tenacity.stop_after_attempt(tries) if tries else tenacity.stop_never,
            wait=_Wait(),
            retry=tenacity.retry_if_exception(may_pass),
            before_sleep=tell,
            reraise=True,
        )

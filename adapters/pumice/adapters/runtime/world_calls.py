"""Calls of a world: their timeout, their failures, and the delay before the next one."""

import logging
import random
from collections.abc import Coroutine
from typing import Any, Final

from pumice.adapters.runtime.clock import Backoff, Clock, within
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import ObjectKey, shown_kind
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.world import ApplyCode, ApplyResult

log = logging.getLogger(__name__)

# Results after which the same call may succeed.
TRANSIENT: Final = frozenset(
    {
        ApplyCode.CONFLICT,
        ApplyCode.THROTTLED,
        ApplyCode.SERVER_ERROR,
        ApplyCode.TIMED_OUT,
    }
)
# The missing right of a call that was not sent is logged once.
_UNLOGGED: Final = frozenset({ApplyCode.DONE, ApplyCode.WITHHELD})
# The object was deleted meanwhile, which is usual.
_GONE: Final = frozenset({ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID})

# Delays after a call that the object does not allow. Somebody must change a definition or a policy.
_REFUSED_BACKOFF: Final = Backoff(10.0, 300.0)


async def call_result(
    clock: Clock, seconds: float, call: Coroutine[Any, Any, ApplyResult], what: str
) -> ApplyResult:
    """The result of a call. A timeout, or an error of a third-party world, is a result too."""
    try:
        return await within(clock, seconds, call)
    except TimeoutError as error:
        return ApplyResult(ApplyCode.TIMED_OUT, str(error))
    except Exception as error:
        log.exception("%s raised", what)
        return ApplyResult(ApplyCode.SERVER_ERROR, f"{type(error).__name__}: {error}")


class UpdateCalls:
    """Makes the calls that write statuses, or events."""

    def __init__(
        self,
        what: str,
        options: RuntimeOptions,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
    ) -> None:
        self._what, self._options = what, options
        self._clock, self._rng, self._metrics = clock, rng, metrics
        # Whether the last write was refused because this adapter does not lead.
        self._is_deposed = False

    async def make(self, key: ObjectKey, call: Coroutine[Any, Any, ApplyResult]) -> ApplyResult:
        """The result of a call, which is counted."""
        seconds, kind = self._options.call_timeout_seconds, shown_kind(key[0])
        what = f"the call for the {self._what} of {kind} {key[1]}"
        result = await call_result(self._clock, seconds, call, what)
        self._metrics.count(f"{self._what}_writes", kind=kind, result=result.code.value)
        return result

    def delay(self, failures: int, result: ApplyResult) -> float:
        """The seconds before the next try."""
        is_refused = result.code is ApplyCode.INVALID
        backoff = _REFUSED_BACKOFF if is_refused else self._options.status_backoff
        delay = backoff.delay(failures, self._rng)
        return max(delay, result.retry_after_seconds)

    def log_failure(
        self, key: ObjectKey, result: ApplyResult, about: str = "", *, is_lasting: bool = False
    ) -> None:
        """Logs why a write failed; for the writes of a deposed leader only once."""
        if result.code is ApplyCode.NOT_LEADING:
            if not self._is_deposed:
                log.info("no %s is written: this adapter is not the leader", self._what)
            self._is_deposed = True
            return
        self._is_deposed = False
        if result.code not in _UNLOGGED:
            is_usual = result.code in _GONE and not is_lasting
            level = logging.DEBUG if is_usual else logging.WARNING
            reason = f"{result.code.value} {result.reason}".rstrip()
            where = f"{shown_kind(key[0])} {key[1]}"
            log.log(level, "%s of %s not written: %s%s", self._what, where, reason, about)

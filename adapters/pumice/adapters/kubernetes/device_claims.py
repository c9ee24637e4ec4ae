"""Allocates the ResourceClaims of a pod before the pod itself is bound.

An attempt is all that was written for one pod. It ends in one of two ways: the pod is bound and uses
the claims, or the pod is taken out of the claims again. What is written is noted before, because a
write whose answer was lost may have succeeded. An attempt that nobody goes on with is ended by
`run`, which asks the pod.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.kubernetes.claim_writer import ClaimError, ClaimWriter, Consumer
from pumice.adapters.kubernetes.errors import KubernetesError, NotLeadingError, one_line
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult, ReadError, Reading
from pumice.v1.decision_pb2 import Bind

log = logging.getLogger(__name__)

# An attempt that was not gone on with for so long is ended, and looked for so often.
_IDLE_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 5.0
# Delays after claims that could not be given back.
_UNDO_BACKOFF: Final = Backoff(_SWEEP_SECONDS, 300.0)
# How long the end of the process may take for giving back.
_CLOSE_SECONDS: Final = 3.0
# The outcomes of a bind after which the pod will not be bound by this decision.
_ENDED: Final = frozenset(
    {ApplyCode.FORBIDDEN, ApplyCode.INVALID, ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID}
)

ReadPod = Callable[[str, str], Awaitable[Reading]]


@dataclass(slots=True)
class _Attempt:
    """The claims that were written for one pod."""

    pod: Consumer
    node: str
    touched: float
    # Uids of claims by name.
    claims: dict[str, str] = field(default_factory=dict)
    # Somebody works on it: the others wait.
    is_busy: bool = False
    # Failed tries to end it in a row, and the time of the next one.
    failures: int = 0
    next_try: float = 0.0


class DeviceClaimBinder:
    """Writes the claims of pods that are about to be bound."""

    def __init__(
        self, writer: ClaimWriter, read_pod: ReadPod, clock: Clock, metrics: Metrics
    ) -> None:
        self._writer, self._read_pod = writer, read_pod
        self._clock, self._metrics = clock, metrics
        self._rng = random.Random()
        # By the pod's uid.
        self._attempts: dict[str, _Attempt] = {}
        metrics.gauge_from("claim_reservations", lambda: len(self._attempts))

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is allocated and reserved for the pod; other: not possible."""
        attempt = self._attempts.get(order.uid)
        if attempt is None:
            attempt = _Attempt(Consumer.of(order), order.node, self._clock.now())
            self._attempts[order.uid] = attempt
        if attempt.is_busy:
            return ApplyResult(ApplyCode.WAITING, "an earlier attempt is being ended")
        if attempt.node != order.node:
            await self._end(attempt)
            return ApplyResult(ApplyCode.WAITING, "claims for another node are being given back")
        return await self._prepare(attempt, order)

    async def _prepare(self, attempt: _Attempt, order: Bind) -> ApplyResult:
        attempt.is_busy = True
        try:
            for choice in order.resource_claims:
                attempt.claims[choice.claim] = choice.claim_uid
                await self._writer.write(attempt.pod, choice)
            return DONE
        except ClaimError as error:
            result = error.result
        except KubernetesError as error:
            result = result_of(error)
        finally:
            attempt.is_busy = False
            attempt.touched, attempt.failures = self._clock.now(), 0
        if result.code in _ENDED:
            await self._end(attempt)
        return result

    async def settle(self, order: Bind, result: ApplyResult) -> None:
        """Ends the attempt when the result of the pod's own binding is final."""
        attempt = self._attempts.get(order.uid)
        if attempt is None or attempt.is_busy:
            return
        if result.code is ApplyCode.PLACED:
            is_bound = result.node == attempt.node
        elif result.code is ApplyCode.DONE or result.code in _ENDED:
            is_bound = result.code is ApplyCode.DONE
        else:
            # The bind is tried again, or `run` finds out.
            return
        if is_bound:
            self._forget(attempt)
        else:
            await self._end(attempt)

    async def run(self) -> None:
        """Ends attempts that nobody goes on with."""
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            now = self._clock.now()
            for attempt in list(self._attempts.values()):
                if now - attempt.touched > _IDLE_SECONDS and now >= attempt.next_try:
                    await self._resolve(attempt)

    async def close(self) -> None:
        """Ends what is open, within a short time; a bound pod keeps its claims."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                for attempt in list(self._attempts.values()):
                    await self._resolve(attempt)
        except TimeoutError:
            log.warning("claims of %d pods stay reserved", len(self._attempts))

    async def _resolve(self, attempt: _Attempt) -> None:
        """Ends an attempt by what the pod shows."""
        if attempt.is_busy:
            return
        try:
            reading = await self._read_pod(attempt.pod.namespace, attempt.pod.name)
        except ReadError as error:
            self._postpone(attempt, error)
            return
        pod = reading.object.pod if reading.object is not None else None
        if pod is not None and pod.uid == attempt.pod.uid and pod.node_name == attempt.node:
            self._forget(attempt)
        elif not attempt.is_busy:
            await self._end(attempt)

    async def _end(self, attempt: _Attempt) -> None:
        """Takes the pod out of its claims, and forgets the attempt if that succeeds."""
        attempt.is_busy = True
        try:
            for name, uid in reversed(attempt.claims.items()):
                await self._writer.undo(attempt.pod, name, uid)
            self._metrics.count("claim_undos", result="done")
            self._forget(attempt)
        except (KubernetesError, ClaimError) as error:
            self._metrics.count("claim_undos", result="failed")
            self._postpone(attempt, error)
        finally:
            attempt.is_busy = False

    def _postpone(self, attempt: _Attempt, error: Exception) -> None:
        attempt.failures += 1
        attempt.next_try = self._clock.now() + _UNDO_BACKOFF.delay(attempt.failures, self._rng)
        level = logging.INFO if isinstance(error, NotLeadingError) else logging.WARNING
        log.log(level, "claims of pod %s stay reserved: %s", attempt.pod.name, one_line(error))

    def _forget(self, attempt: _Attempt) -> None:
        if self._attempts.get(attempt.pod.uid) is attempt:
            del self._attempts[attempt.pod.uid]

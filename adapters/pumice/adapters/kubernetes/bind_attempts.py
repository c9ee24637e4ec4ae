"""Attempts to reserve volumes, devices or locks for a pod before the pod is bound.

An attempt has all reservations for one pod. It ends in one of two ways: the pod is bound and uses
the reservations, or all of them are undone. A write is noted before it is sent, because a write
whose response was lost may have succeeded. An attempt that is not continued, because its decision
was dropped or its outcome was found in another way, is ended by a sweep, which reads the pod.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pumice.adapters.kubernetes.errors import KubernetesError, NotLeadingError, one_line
from pumice.adapters.kubernetes.reserved_objects import ReservationError
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode, ApplyResult, ReadError, Reading
from pumice.v1.decision_pb2 import Bind

log = logging.getLogger(__name__)

# Time after which an attempt that was not continued is ended, and interval between sweeps.
IDLE_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 5.0
# Delays after reservations that could not be undone.
UNDO_BACKOFF: Final = Backoff(SWEEP_SECONDS, 300.0)
# Time for undoing when the process stops.
_CLOSE_SECONDS: Final = 3.0
# Results after which this decision will not bind the pod.
FINAL_FAILURES: Final = frozenset(
    {ApplyCode.FORBIDDEN, ApplyCode.INVALID, ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID}
)

ReadPod = Callable[[str, str], Awaitable[Reading]]


@dataclass(slots=True)
class BindAttempt:
    """The pod, the node, and the state of an attempt."""

    namespace: str
    name: str
    uid: str
    node: str
    touched: float
    # Whether a call works on it. Other calls wait.
    is_busy: bool = False
    # Number of failed attempts to end it, and the time of the next one.
    failures: int = 0
    next_try: float = 0.0


A = TypeVar("A", bound=BindAttempt)


class BindAttempts(Generic[A]):
    """The open attempts of one binder. ``undo`` undoes an attempt.

    ``resource`` names the reserved resource in metrics and in the log.
    """

    def __init__(
        self,
        resource: str,
        undo: Callable[[A], Awaitable[None]],
        read_pod: ReadPod,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._resource, self._undo, self._read_pod = resource, undo, read_pod
        self._clock, self._metrics = clock, metrics
        self._rng = random.Random()
        self._by_pod_uid: dict[str, A] = {}

    def __len__(self) -> int:
        return len(self._by_pod_uid)

    def __iter__(self) -> Iterator[A]:
        return iter(list(self._by_pod_uid.values()))

    def open(self, order: Bind, make: Callable[[str, str, str, str, float], A]) -> A:
        """The attempt for the pod of an order, which is made if it does not exist."""
        attempt = self._by_pod_uid.get(order.uid)
        if attempt is None:
            attempt = make(order.namespace, order.name, order.uid, order.node, self._clock.now())
            self._by_pod_uid[order.uid] = attempt
        return attempt

    async def prepare(
        self,
        order: Bind,
        make: Callable[[str, str, str, str, float], A],
        reserve: Callable[[A], Awaitable[ApplyResult]],
    ) -> ApplyResult:
        """Makes reservations with ``reserve``. A final failure undoes the attempt."""
        attempt = self.open(order, make)
        if attempt.is_busy:
            return ApplyResult(ApplyCode.WAITING, "an earlier attempt is being ended")
        if attempt.node != order.node:
            await self.end(attempt)
            reason = f"the {self._resource} reservations on another node are being undone"
            return ApplyResult(ApplyCode.WAITING, reason)
        attempt.is_busy = True
        try:
            result = await reserve(attempt)
        except ReservationError as error:
            result = error.result
        except KubernetesError as error:
            result = result_of(error)
        finally:
            attempt.is_busy = False
            attempt.touched, attempt.failures = self._clock.now(), 0
        if result.code in FINAL_FAILURES:
            await self.end(attempt)
        return result

    async def settle(self, order: Bind, result: ApplyResult) -> None:
        """Ends the attempt if the result of the bind is final."""
        attempt = self._by_pod_uid.get(order.uid)
        if attempt is None or attempt.is_busy:
            return
        is_placed_here = result.code is ApplyCode.PLACED and result.node == attempt.node
        if result.code is ApplyCode.DONE or is_placed_here:
            self._forget(attempt)
        elif result.code is ApplyCode.PLACED or result.code in FINAL_FAILURES:
            await self.end(attempt)
        # Otherwise the bind is retried, or a sweep reads the pod.

    async def run(self) -> None:
        """Sweeps until it is cancelled."""
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Ends attempts that are not continued."""
        now = self._clock.now()
        for attempt in self:
            if now - attempt.touched > IDLE_SECONDS and now >= attempt.next_try:
                await self._resolve(attempt)

    async def close(self) -> None:
        """Ends all attempts, within a short time. A bound pod keeps its reservations."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                for attempt in self:
                    await self._resolve(attempt)
        except TimeoutError:
            log.warning("%s reservations of %d pods were not undone", self._resource, len(self))

    async def end(self, attempt: A) -> None:
        """Undoes an attempt, and forgets it on success."""
        attempt.is_busy = True
        try:
            await self._undo(attempt)
            self._forget(attempt)
        except (KubernetesError, ReservationError) as error:
            self._metrics.count(f"{self._resource}_undos", result="failed")
            self._postpone(attempt, error)
        finally:
            attempt.is_busy = False

    async def _resolve(self, attempt: A) -> None:
        """Reads the pod, and ends the attempt accordingly."""
        if attempt.is_busy:
            return
        try:
            reading = await self._read_pod(attempt.namespace, attempt.name)
        except ReadError as error:
            self._postpone(attempt, error)
            return
        pod = reading.object.pod if reading.object is not None else None
        if pod is not None and pod.uid == attempt.uid and pod.node_name == attempt.node:
            self._forget(attempt)
        elif not attempt.is_busy:
            await self.end(attempt)

    def _postpone(self, attempt: A, error: Exception) -> None:
        """Leaves the attempt to a later sweep. A replaced leader cannot undo anything."""
        attempt.failures += 1
        attempt.next_try = self._clock.now() + UNDO_BACKOFF.delay(attempt.failures, self._rng)
        level = logging.INFO if isinstance(error, NotLeadingError) else logging.WARNING
        text = "the %s reservations of pod %s/%s were not undone yet: %s"
        log.log(level, text, self._resource, attempt.namespace, attempt.name, one_line(error))

    def _forget(self, attempt: A) -> None:
        if self._by_pod_uid.get(attempt.uid) is attempt:
            del self._by_pod_uid[attempt.uid]

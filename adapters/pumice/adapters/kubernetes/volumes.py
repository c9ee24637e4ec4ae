"""Binds the volumes of a pod before the pod itself is bound.

The wait for the volume controllers spans several calls of the binder, so that it holds no slot: each
call answers WAITING until the watch has shown every claim bound, or until the time is up.

An attempt is all that was reserved for one pod. It ends in one of two ways: the pod is bound and the
volumes are taken, or all reservations are undone. What was reserved is noted before it is written,
because a write whose answer was lost may have succeeded. An attempt that nobody goes on with, because
its decision was dropped or its outcome was found otherwise, is ended by `run`, which asks the pod.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.kubernetes.errors import KubernetesError, NotLeadingError, one_line
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.reservations import (
    Reservation,
    ReservationWriter,
    Undone,
    VolumeError,
)
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult, ReadError, Reading
from pumice.v1.decision_pb2 import Bind, VolumeChoice
from pumice.v1.storage_pb2 import VOLUME_PHASE_LOST, PersistentVolumeClaim

log = logging.getLogger(__name__)

_NOT_YET_SECONDS: Final = 0.25
# An attempt that was not gone on with for so long is ended, and looked for so often.
_IDLE_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 5.0
# Delays after reservations that could not be undone.
_UNDO_BACKOFF: Final = Backoff(_SWEEP_SECONDS, 300.0)
# How long the end of the process may take for undoing.
_CLOSE_SECONDS: Final = 3.0
# The outcomes of a bind after which the pod will not be bound by this decision.
_ENDED: Final = frozenset(
    {ApplyCode.FORBIDDEN, ApplyCode.INVALID, ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID}
)

ReadPod = Callable[[str, str], Awaitable[Reading]]


@dataclass(slots=True)
class _Attempt:
    """What was reserved for one pod."""

    namespace: str
    name: str
    uid: str
    node: str
    started: float
    touched: float
    # By claim; and those of which the write was answered.
    reservations: dict[str, Reservation] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    # Claims whose volume was found to fit the node.
    checked: set[str] = field(default_factory=set)
    # It is being worked on: other calls wait.
    is_busy: bool = False
    # Failed tries to end it in a row, and the time of the next one.
    failures: int = 0
    next_try: float = 0.0


@dataclass(slots=True)
class _LateWrite:
    """A write without an answer that was not found when it was undone."""

    # When to look for it again.
    due: float
    failures: int = 0


class VolumeBinder:
    """Binds or provisions the claims of pods that are about to be bound."""

    def __init__(
        self,
        writer: ReservationWriter,
        read_pod: ReadPod,
        index: ObjectIndex,
        clock: Clock,
        metrics: Metrics,
        call_seconds: float,
        limit_seconds: float,
    ) -> None:
        self._writer, self._read_pod, self._index = writer, read_pod, index
        self._clock, self._metrics = clock, metrics
        self._seconds, self._limit = call_seconds, limit_seconds
        self._rng = random.Random()
        # By the pod's uid.
        self._attempts: dict[str, _Attempt] = {}
        # The server may carry these out later.
        self._unanswered: dict[Reservation, _LateWrite] = {}
        metrics.gauge_from(
            "volume_reservations", lambda: len(self._attempts) + len(self._unanswered)
        )

    # What the binder calls.

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is bound; WAITING: come again; other: not possible, all undone."""
        attempt = self._attempt(order)
        if attempt.is_busy:
            return _waiting("an earlier attempt is being ended")
        attempt.is_busy = True
        try:
            await self._adopt(attempt, order)
            return await self._reserve(attempt, order)
        except VolumeError as error:
            return await self._fail(attempt, error.result)
        except KubernetesError as error:
            result = result_of(error)
            return await self._fail(attempt, result) if result.code in _ENDED else result
        finally:
            attempt.is_busy = False
            attempt.touched, attempt.failures = self._clock.now(), 0

    async def settle(self, order: Bind, result: ApplyResult) -> None:
        """Ends the attempt when the result of the pod's own binding is final."""
        attempt = self._attempts.get(order.uid)
        if attempt is None or attempt.is_busy:
            return
        if result.code is ApplyCode.PLACED:
            is_taken = result.node == attempt.node
        elif result.code is ApplyCode.DONE or result.code in _ENDED:
            is_taken = result.code is ApplyCode.DONE
        else:
            # The bind is tried again, or `run` finds out.
            return
        if is_taken:
            self._forget(attempt)
        else:
            await self._end(attempt)

    # Ending abandoned attempts.

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            now = self._clock.now()
            idle = [
                attempt
                for attempt in self._attempts.values()
                if now - attempt.touched > _IDLE_SECONDS and now >= attempt.next_try
            ]
            for attempt in idle:
                await self._resolve(attempt)
            await self._undo_late_writes(now)

    async def _undo_late_writes(self, now: float) -> None:
        """Looks again for writes without an answer, after the longest time of a request."""
        for reservation, late in list(self._unanswered.items()):
            if now < late.due:
                continue
            del self._unanswered[reservation]
            if self._is_held(reservation):
                continue
            try:
                undone = await self._writer.undo(reservation)
                self._metrics.count("volume_undos", result=undone.value)
            except (KubernetesError, VolumeError) as error:
                late.failures += 1
                late.due = now + _UNDO_BACKOFF.delay(late.failures, self._rng)
                self._unanswered[reservation] = late
                log.info("claim %s may stay reserved: %s", reservation.claim, one_line(error))

    async def close(self) -> None:
        """Ends what is open, within a short time; a bound pod keeps its volumes."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                for attempt in list(self._attempts.values()):
                    await self._resolve(attempt)
        except TimeoutError:
            log.warning("%d pods keep volume reservations", len(self._attempts))

    async def _resolve(self, attempt: _Attempt) -> None:
        """Ends an attempt by what the pod shows."""
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
            await self._end(attempt)

    async def _end(self, attempt: _Attempt) -> None:
        """Undoes everything, and forgets the attempt if that succeeds."""
        attempt.is_busy = True
        try:
            await self._undo(attempt, list(attempt.reservations))
            self._forget(attempt)
        except (KubernetesError, VolumeError) as error:
            self._metrics.count("volume_undos", result="failed")
            self._postpone(attempt, error)
        finally:
            attempt.is_busy = False

    def _postpone(self, attempt: _Attempt, error: Exception) -> None:
        """Leaves the reservations for now. A leader that was replaced can undo nothing."""
        attempt.failures += 1
        delay = _UNDO_BACKOFF.delay(attempt.failures, self._rng)
        attempt.next_try = self._clock.now() + delay
        level = logging.INFO if isinstance(error, NotLeadingError) else logging.WARNING
        log.log(level, "volumes of pod %s stay reserved: %s", attempt.name, one_line(error))

    async def _fail(self, attempt: _Attempt, result: ApplyResult) -> ApplyResult:
        await self._end(attempt)
        return result

    def _forget(self, attempt: _Attempt) -> None:
        if self._attempts.get(attempt.uid) is attempt:
            del self._attempts[attempt.uid]

    async def _undo(self, attempt: _Attempt, claims: list[str]) -> None:
        for claim in reversed(claims):
            reservation = attempt.reservations[claim]
            if not self._is_held(reservation, attempt):
                undone = await self._writer.undo(reservation)
                self._metrics.count("volume_undos", result=undone.value)
                if undone is Undone.ABSENT and claim not in attempt.written:
                    self._unanswered[reservation] = _LateWrite(self._clock.now() + _IDLE_SECONDS)
            attempt.written.discard(claim)
            del attempt.reservations[claim]

    def _is_held(self, reservation: Reservation, but_for: _Attempt | None = None) -> bool:
        """Whether another pod has the same reservation: pods may share a claim."""
        return any(
            other is not but_for and other.reservations.get(reservation.claim) == reservation
            for other in self._attempts.values()
        )

    # One attempt.

    def _attempt(self, order: Bind) -> _Attempt:
        now = self._clock.now()
        attempt = self._attempts.get(order.uid)
        if attempt is None:
            attempt = _Attempt(order.namespace, order.name, order.uid, order.node, now, now)
            self._attempts[order.uid] = attempt
        return attempt

    async def _adopt(self, attempt: _Attempt, order: Bind) -> None:
        """Goes on with an attempt. What the order does not want any more is undone."""
        wanted = {choice.claim: choice.volume_name for choice in order.volumes}
        other = [
            claim
            for claim, held in attempt.reservations.items()
            if wanted.get(claim) != held.volume or (not held.volume and held.node != order.node)
        ]
        now = self._clock.now()
        is_new = bool(other) or attempt.node != order.node
        if is_new or now - attempt.touched > max(_NOT_YET_SECONDS, self._seconds):
            # Another decision, or the same one made again.
            attempt.started = now
            attempt.checked.clear()
        await self._undo(attempt, other)
        attempt.node = order.node

    async def _reserve(self, attempt: _Attempt, order: Bind) -> ApplyResult:
        waiting = [
            choice.claim
            for choice in order.volumes
            if not await self._is_bound(order, choice, attempt)
        ]
        if not waiting:
            return DONE
        seconds = self._clock.now() - attempt.started
        if seconds > self._limit:
            self._metrics.count("volume_timeouts")
            raise VolumeError(f"{', '.join(waiting)} not bound within {self._limit:g} s")
        return _waiting(f"waiting for {', '.join(waiting)} to be bound")

    async def _is_bound(self, order: Bind, choice: VolumeChoice, attempt: _Attempt) -> bool:
        claim = self._index.claims.get((order.namespace, choice.claim))
        if claim is None:
            raise VolumeError(f"there is no claim {choice.claim}")
        if claim.phase == VOLUME_PHASE_LOST:
            raise VolumeError(f"claim {choice.claim} has lost its volume")
        if claim.volume_name and claim.bind_completed:
            if choice.volume_name and claim.volume_name != choice.volume_name:
                raise VolumeError(f"claim {choice.claim} was bound to {claim.volume_name}")
            if choice.claim not in attempt.checked:
                # The volume, or the node, may be another than the decision was based on.
                await self._writer.check_affinity(claim.volume_name, order.node)
                attempt.checked.add(choice.claim)
            return True
        if choice.claim in attempt.written:
            self._check_provisioning(claim, choice, attempt)
            return False
        await self._free_others(claim, choice.volume_name)
        reservation = Reservation(
            claim.namespace, claim.name, claim.uid, choice.volume_name, order.node
        )
        attempt.reservations[choice.claim] = reservation
        await self._writer.write(reservation)
        attempt.written.add(choice.claim)
        return False

    async def _free_others(self, claim: PersistentVolumeClaim, wanted: str) -> None:
        """Frees volumes that an attempt of an earlier process reserved for the claim."""
        for name in self._index.volumes_of(claim.uid):
            if name == wanted:
                continue
            other = Reservation(claim.namespace, claim.name, claim.uid, name, "")
            undone = await self._writer.undo(other)
            self._metrics.count("volume_undos", result=undone.value)
            if undone is Undone.TAKEN:
                raise VolumeError(f"claim {claim.name} is being bound to {name}")

    def _check_provisioning(
        self, claim: PersistentVolumeClaim, choice: VolumeChoice, attempt: _Attempt
    ) -> None:
        """A provisioner that cannot serve the node removes the annotation."""
        if choice.volume_name or claim.selected_node == attempt.node:
            return
        # The watch may not have shown the annotation yet.
        if self._clock.now() - attempt.started > 2 * self._seconds:
            raise VolumeError(
                f"the provisioner gave up claim {choice.claim} for node {attempt.node}"
            )


def _waiting(reason: str) -> ApplyResult:
    return ApplyResult(ApplyCode.WAITING, reason, retry_after_seconds=_NOT_YET_SECONDS)

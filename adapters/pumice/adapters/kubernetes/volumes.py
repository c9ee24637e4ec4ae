"""Binds the volumes of a pod before the pod is bound.

The wait for the volume controllers takes several calls of the binder, so that it occupies no slot:
each call returns WAITING until the watch has shown every claim bound, or until the time limit.
"""

import logging
import random
from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.kubernetes.bind_attempts import (
    FINAL_FAILURES,
    IDLE_SECONDS,
    SWEEP_SECONDS,
    UNDO_BACKOFF,
    BindAttempt,
    BindAttempts,
    ReadPod,
)
from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.reservations import Reservation, ReservationWriter, Undone
from pumice.adapters.kubernetes.reserved_objects import ReservationError
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind, VolumeChoice
from pumice.v1.storage_pb2 import VOLUME_PHASE_LOST, PersistentVolumeClaim

log = logging.getLogger(__name__)

_NOT_YET_SECONDS: Final = 0.25


@dataclass(slots=True)
class _Attempt(BindAttempt):
    """The volumes that were reserved for one pod."""

    # Time of the first attempt for the current decision.
    started: float = field(init=False)
    # Reservations by claim, and claims whose write was acknowledged.
    reservations: dict[str, Reservation] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    # Claims whose volume matches the node.
    checked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.started = self.touched


@dataclass(slots=True)
class _LateWrite:
    """A write without a response that was not found when it was undone."""

    # Time of the next check.
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
        self._writer, self._index = writer, index
        self._clock, self._metrics = clock, metrics
        self._seconds, self._limit = call_seconds, limit_seconds
        self._rng = random.Random()
        self._attempts = BindAttempts("volume", self._undo_all, read_pod, clock, metrics)
        self.settle, self.close = self._attempts.settle, self._attempts.close
        # Writes that the server may still perform.
        self._unanswered: dict[Reservation, _LateWrite] = {}
        metrics.gauge_from(
            "volume_reservations", lambda: len(self._attempts) + len(self._unanswered)
        )

    # Calls of the binder.

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is bound; WAITING: not yet; other: impossible, and all is undone."""
        attempt = self._attempts.open(order, _Attempt)
        if attempt.is_busy:
            return _waiting("an earlier attempt is being ended")
        attempt.is_busy = True
        try:
            await self._adopt(attempt, order)
            return await self._reserve(attempt, order)
        except ReservationError as error:
            return await self._fail(attempt, error.result)
        except KubernetesError as error:
            result = result_of(error)
            return await self._fail(attempt, result) if result.code in FINAL_FAILURES else result
        finally:
            attempt.is_busy = False
            attempt.touched, attempt.failures = self._clock.now(), 0

    # Abandoned attempts.

    async def run(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            await self._attempts.sweep()
            await self._undo_late_writes(self._clock.now())

    async def _undo_late_writes(self, now: float) -> None:
        """Undoes writes without a response that took effect late."""
        for reservation, late in list(self._unanswered.items()):
            if now < late.due:
                continue
            del self._unanswered[reservation]
            if self._is_held(reservation):
                continue
            try:
                undone = await self._writer.undo(reservation)
                self._metrics.count("volume_undos", result=undone.value)
            except (KubernetesError, ReservationError) as error:
                late.failures += 1
                late.due = now + UNDO_BACKOFF.delay(late.failures, self._rng)
                self._unanswered[reservation] = late
                log.info("claim %s may still be reserved: %s", reservation.claim, one_line(error))

    async def _fail(self, attempt: _Attempt, result: ApplyResult) -> ApplyResult:
        await self._attempts.end(attempt)
        return result

    async def _undo_all(self, attempt: _Attempt) -> None:
        await self._undo(attempt, list(attempt.reservations))

    async def _undo(self, attempt: _Attempt, claims: list[str]) -> None:
        for claim in reversed(claims):
            reservation = attempt.reservations[claim]
            if not self._is_held(reservation, attempt):
                undone = await self._writer.undo(reservation)
                self._metrics.count("volume_undos", result=undone.value)
                if undone is Undone.ABSENT and claim not in attempt.written:
                    self._unanswered[reservation] = _LateWrite(self._clock.now() + IDLE_SECONDS)
            attempt.written.discard(claim)
            del attempt.reservations[claim]

    def _is_held(self, reservation: Reservation, but_for: _Attempt | None = None) -> bool:
        """Whether another pod has the same reservation, because pods may share a claim."""
        return any(
            other is not but_for and other.reservations.get(reservation.claim) == reservation
            for other in self._attempts
        )

    # One attempt.

    async def _adopt(self, attempt: _Attempt, order: Bind) -> None:
        """Continues an attempt, and undoes reservations that the order no longer needs."""
        wanted = {choice.claim: choice.volume_name for choice in order.volumes}
        other = [
            claim
            for claim, held in attempt.reservations.items()
            if wanted.get(claim) != held.volume or (not held.volume and held.node != order.node)
        ]
        now = self._clock.now()
        is_new = bool(other) or attempt.node != order.node
        if is_new or now - attempt.touched > max(_NOT_YET_SECONDS, self._seconds):
            # Another decision, or a repeated one.
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
            raise ReservationError(f"{', '.join(waiting)} not bound within {self._limit:g} s")
        return _waiting(f"waiting for {', '.join(waiting)} to be bound")

    async def _is_bound(self, order: Bind, choice: VolumeChoice, attempt: _Attempt) -> bool:
        claim = self._index.claims.get((order.namespace, choice.claim))
        if claim is None:
            raise ReservationError(f"claim {choice.claim} does not exist")
        if claim.phase == VOLUME_PHASE_LOST:
            raise ReservationError(f"claim {choice.claim} has lost its volume")
        if claim.volume_name and claim.bind_completed:
            if choice.volume_name and claim.volume_name != choice.volume_name:
                raise ReservationError(f"claim {choice.claim} was bound to {claim.volume_name}")
            if choice.claim not in attempt.checked:
                # The volume or the node may differ from those that the decision was based on.
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
        """Releases volumes that an earlier process reserved for the claim."""
        for name in self._index.volumes_of(claim.uid):
            if name == wanted:
                continue
            other = Reservation(claim.namespace, claim.name, claim.uid, name, "")
            undone = await self._writer.undo(other)
            self._metrics.count("volume_undos", result=undone.value)
            if undone is Undone.TAKEN:
                raise ReservationError(f"claim {claim.name} is being bound to {name}")

    def _check_provisioning(
        self, claim: PersistentVolumeClaim, choice: VolumeChoice, attempt: _Attempt
    ) -> None:
        """Detects that the provisioner removed the annotation, because it cannot serve the node."""
        if choice.volume_name or claim.selected_node == attempt.node:
            return
        # The watch may not have shown the annotation yet.
        if self._clock.now() - attempt.started > 2 * self._seconds:
            raise ReservationError(
                f"the provisioner gave up claim {choice.claim} for node {attempt.node}"
            )


def _waiting(reason: str) -> ApplyResult:
    return ApplyResult(ApplyCode.WAITING, reason, retry_after_seconds=_NOT_YET_SECONDS)

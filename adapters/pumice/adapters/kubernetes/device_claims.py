"""Allocates the ResourceClaims of a pod before the pod itself is bound."""

from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.kubernetes.bind_attempts import (
    FINAL_FAILURES,
    SWEEP_SECONDS,
    BindAttempt,
    BindAttempts,
    ReadPod,
)
from pumice.adapters.kubernetes.claim_writer import ClaimWriter, Consumer
from pumice.adapters.kubernetes.errors import KubernetesError
from pumice.adapters.kubernetes.reserved_objects import ReservationError
from pumice.adapters.kubernetes.results import result_of
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind

# How long a bind waits for conditions of devices, as in Kubernetes, and how often it looks.
_CONDITIONS_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Attempt(BindAttempt):
    """The claims that were written for one pod."""

    # Uids of claims by name.
    claims: dict[str, str] = field(default_factory=dict)
    # Since when it waits for conditions of devices.
    waits_since: float | None = None

    @property
    def pod(self) -> Consumer:
        return Consumer(self.namespace, self.name, self.uid)


class DeviceClaimBinder:
    """Writes the claims of pods that are about to be bound."""

    def __init__(
        self, writer: ClaimWriter, read_pod: ReadPod, clock: Clock, metrics: Metrics
    ) -> None:
        self._writer, self._clock, self._metrics = writer, clock, metrics
        self._attempts = BindAttempts("claim", self._undo, read_pod, clock, metrics)
        metrics.gauge_from("claim_reservations", lambda: len(self._attempts))
        self.settle, self.close = self._attempts.settle, self._attempts.close

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is allocated and reserved for the pod; other: not possible."""
        attempt = self._attempts.open(order, _Attempt)
        if attempt.is_busy:
            return ApplyResult(ApplyCode.WAITING, "an earlier attempt is being ended")
        if attempt.node != order.node:
            await self._attempts.end(attempt)
            return ApplyResult(ApplyCode.WAITING, "claims for another node are being given back")
        return await self._prepare(attempt, order)

    async def _prepare(self, attempt: _Attempt, order: Bind) -> ApplyResult:
        attempt.is_busy = True
        try:
            waits = ""
            for choice in order.resource_claims:
                attempt.claims[choice.claim] = choice.claim_uid
                waits = await self._writer.write(attempt.pod, choice) or waits
            result = self._waiting(attempt, waits) if waits else DONE
        except ReservationError as error:
            result = error.result
        except KubernetesError as error:
            result = result_of(error)
        finally:
            attempt.is_busy = False
            attempt.touched, attempt.failures = self._clock.now(), 0
        if result.code in FINAL_FAILURES:
            await self._attempts.end(attempt)
        return result

    def _waiting(self, attempt: _Attempt, reason: str) -> ApplyResult:
        if attempt.waits_since is None:
            attempt.waits_since = self._clock.now()
        if self._clock.now() - attempt.waits_since > _CONDITIONS_SECONDS:
            return ApplyResult(ApplyCode.INVALID, f"{reason}, for too long")
        return ApplyResult(ApplyCode.WAITING, reason, retry_after_seconds=_AGAIN_SECONDS)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            await self._attempts.sweep()

    async def _undo(self, attempt: _Attempt) -> None:
        """Takes the pod out of its claims."""
        for name, uid in reversed(attempt.claims.items()):
            await self._writer.undo(attempt.pod, name, uid)
        self._metrics.count("claim_undos", result="done")

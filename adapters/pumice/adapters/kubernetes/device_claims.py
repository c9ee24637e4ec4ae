"""Allocates the ResourceClaims of a pod before the pod is bound."""

from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.kubernetes.bind_attempts import BindAttempt, BindAttempts, ReadPod
from pumice.adapters.kubernetes.claim_writer import ClaimWriter, Consumer
from pumice.adapters.kubernetes.extended_claims import ExtendedClaimWriter
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind, ResourceClaimChoice

# Time that a bind waits for conditions of devices, as in Kubernetes, and interval of checks.
_CONDITIONS_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Attempt(BindAttempt):
    """The claims that were written for one pod."""

    # Uids of claims by name.
    claims: dict[str, str] = field(default_factory=dict)
    # Names of claims that were created for the pod.
    made: set[str] = field(default_factory=set)
    # Start of the wait for conditions of devices.
    waits_since: float | None = None

    @property
    def pod(self) -> Consumer:
        return Consumer(self.namespace, self.name, self.uid)


class DeviceClaimBinder:
    """Writes the claims of pods that are about to be bound."""

    def __init__(
        self,
        writer: ClaimWriter,
        extended: ExtendedClaimWriter,
        read_pod: ReadPod,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._extended = extended
        self._writer, self._clock, self._metrics = writer, clock, metrics
        self._attempts = BindAttempts("claim", self._undo, read_pod, clock, metrics)
        metrics.gauge_from("claim_reservations", lambda: len(self._attempts))
        attempts = self._attempts
        self.settle, self.close, self.run = attempts.settle, attempts.close, attempts.run

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: every claim is allocated and reserved for the pod."""

        async def reserve(attempt: _Attempt) -> ApplyResult:
            waits = ""
            for choice in order.resource_claims:
                waits = await self._write(attempt, choice) or waits
            return self._waiting(attempt, waits) if waits else DONE

        return await self._attempts.prepare(order, _Attempt, reserve)

    async def _write(self, attempt: _Attempt, choice: ResourceClaimChoice) -> str:
        """The conditions of devices that the bind must wait for; empty: none."""
        if not choice.requests:
            attempt.claims[choice.claim] = choice.claim_uid
            return await self._writer.write(attempt.pod, choice)
        attempt.made.add(choice.claim)
        made = ResourceClaimChoice()
        made.CopyFrom(choice)
        made.claim_uid = await self._extended.make(attempt.pod, choice)
        waits = await self._writer.write(attempt.pod, made)
        await self._extended.write_name(attempt.pod, choice)
        return waits

    def _waiting(self, attempt: _Attempt, reason: str) -> ApplyResult:
        if attempt.waits_since is None:
            attempt.waits_since = self._clock.now()
        if self._clock.now() - attempt.waits_since > _CONDITIONS_SECONDS:
            return ApplyResult(ApplyCode.INVALID, f"{reason}, for too long")
        return ApplyResult(ApplyCode.WAITING, reason, retry_after_seconds=_AGAIN_SECONDS)

    async def _undo(self, attempt: _Attempt) -> None:
        """Removes the pod from its claims."""
        for name, uid in reversed(attempt.claims.items()):
            await self._writer.undo(attempt.pod, name, uid)
        for name in sorted(attempt.made):
            await self._extended.undo(attempt.pod, name)
        self._metrics.count("claim_undos", result="done")

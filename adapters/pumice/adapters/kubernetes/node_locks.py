"""Locks the node of a pod that shares a device, before the pod is bound.

The lock is an annotation of the node with a time, as in Volcano. The device plugin of the node
removes it when the pod has its device. A lock expires after five minutes.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.bind_attempts import BindAttempt, BindAttempts, ReadPod
from pumice.adapters.kubernetes.reserved_objects import (
    ReservationError,
    ReservedObjects,
    retry_conflicts,
)
from pumice.adapters.kubernetes.resources import NODES
from pumice.adapters.kubernetes.session import METADATA_ONLY
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind

_VALID: Final = timedelta(minutes=5)
_AGAIN_SECONDS: Final = 1.0
_DECODE: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class _Attempt(BindAttempt):
    """The lock that was acquired for one pod."""

    lock: str = ""
    # The value of the annotation, which distinguishes the lock from those of others.
    value: str = ""


class NodeLockBinder:
    """Acquires the locks of nodes, and releases those of pods that are not bound."""

    def __init__(
        self, objects: ReservedObjects, read_pod: ReadPod, clock: Clock, metrics: Metrics
    ) -> None:
        self._objects, self._clock, self._metrics = objects, clock, metrics
        self._attempts = BindAttempts("lock", self._undo, read_pod, clock, metrics)
        metrics.gauge_from("lock_reservations", lambda: len(self._attempts))
        attempts = self._attempts
        self.settle, self.close, self.run = attempts.settle, attempts.close, attempts.run

    async def prepare(self, order: Bind) -> ApplyResult:
        """DONE: the node is locked for the pod; WAITING: it is locked for another pod."""
        lock = lock_of(order)

        async def reserve(attempt: _Attempt) -> ApplyResult:
            attempt.lock = lock
            return await retry_conflicts(lambda: self._acquire(attempt))

        return await self._attempts.prepare(order, _Attempt, reserve)

    async def _acquire(self, attempt: _Attempt) -> ApplyResult:
        metadata = await self._read(attempt.node)
        if metadata is None:
            raise ReservationError(f"node {attempt.node} does not exist")
        now = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC)
        held = (metadata.get("annotations") or {}).get(attempt.lock, "")
        if held and held == attempt.value:
            return DONE
        if held and not _has_expired(held, now):
            reason = f"node {attempt.node} has been locked within 5 minutes"
            return ApplyResult(ApplyCode.WAITING, reason, retry_after_seconds=_AGAIN_SECONDS)
        attempt.value = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond:06}Z"
        await self._write(attempt, metadata, attempt.value)
        return DONE

    async def _undo(self, attempt: _Attempt) -> None:
        async def undo() -> None:
            metadata = await self._read(attempt.node)
            held = (metadata or {}).get("annotations") or {}
            if metadata is not None and attempt.value and held.get(attempt.lock) == attempt.value:
                await self._write(attempt, metadata, None)

        await retry_conflicts(undo)
        self._metrics.count("lock_undos", result="done")

    async def _read(self, node: str) -> dict[str, Any] | None:
        path = NODES.path(name=node)
        found = await self._objects.read(path, _DECODE, _uid_of, METADATA_ONLY)
        return None if found is None else found["metadata"]

    async def _write(self, attempt: _Attempt, metadata: dict[str, Any], value: str | None) -> None:
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**version, "annotations": {attempt.lock: value}}}
        await self._objects.patch(NODES.path(name=attempt.node), patch)


def lock_of(order: Bind) -> str:
    """The annotation that locks the node; empty: none."""
    if not order.devices:
        return ""
    return next((device.node_lock for device in order.devices if device.node_lock), "")


def _uid_of(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("uid", "")) if isinstance(metadata, dict) else ""


def _has_expired(value: str, now: datetime) -> bool:
    """Whether a lock has expired. A lock with an unreadable time never expires, as in Volcano."""
    try:
        since = datetime.fromisoformat(value)
    except ValueError:
        return False
    return since.tzinfo is not None and now - since > _VALID

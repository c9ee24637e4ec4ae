"""Leadership: one Lease, the epoch in its annotation, and a local answer to "may I act now?".

An old leader that was paused finds its lease out of date before its next call leaves; a call that
left in time ends, one way or another, before anybody else can take the lease.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    one_line,
)
from pumice.adapters.kubernetes.options import LeaseOptions
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

EPOCH: Final = "pumice.sh/epoch"
_ENCODE: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Record:
    """A lease as it was read."""

    body: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.body.setdefault("spec", {})
        return spec

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    @property
    def version(self) -> str:
        return str(self.body.get("metadata", {}).get("resourceVersion", ""))

    @property
    def epoch(self) -> int:
        annotations = self.body.get("metadata", {}).get("annotations") or {}
        text = annotations.get(EPOCH, "0")
        return int(text) if text.isdigit() else 0

    @property
    def duration(self) -> float:
        return float(self.spec.get("leaseDurationSeconds") or 0)


class LeaseEpochs:
    """Epochs from a Lease. Run `run` beside whoever asks for them."""

    def __init__(
        self,
        api: ApiSession,
        options: LeaseOptions,
        clock: Clock,
        metrics: Metrics,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_lost = on_lost
        self._api, self._options = api, options
        self._clock, self._metrics = clock, metrics
        base = "/apis/coordination.k8s.io/v1/namespaces"
        self._collection = f"{base}/{options.namespace}/leases"
        self._path = f"{self._collection}/{options.name}"
        self._record: _Record | None = None
        # The version that was last seen of somebody else's lease, and when it was first seen.
        self._seen = ""
        self._seen_at = 0.0
        self._epoch = 0
        # Above which an epoch must be, because a core fenced that one.
        self._floor = 0
        self._spoken = 0
        self._renewed_at = 0.0
        self._renewed_at_ms = 0
        self._elected = asyncio.Event()
        self._wants_new = asyncio.Event()

    # What the runtime asks.

    async def current(self) -> int:
        while not self._is_good():
            await self._elected.wait()
            if not self._is_good():
                # Elected once, not renewed in time and not noticed yet.
                await self._clock.sleep(self._options.retry_period_seconds / 10)
        # Only an epoch that somebody speaks with may act.
        self._spoken = self._epoch
        return self._epoch

    async def renew(self, above: int) -> int:
        self._floor = max(self._floor, above)
        if self._epoch <= self._floor:
            self._step_down("a core serves a higher epoch")
        return await self.current()

    def may_act(self) -> bool:
        return self._spoken == self._epoch and self._is_good()

    def _is_good(self) -> bool:
        if not self._elected.is_set():
            return False
        limit = self._options.renew_deadline_seconds
        # The first clock stands still while a machine is suspended, the second can be set back.
        return (
            self._clock.now() - self._renewed_at < limit
            and self._clock.unix_ms() - self._renewed_at_ms < limit * 1000
        )

    # Keeping it.

    async def run(self) -> None:
        while True:
            try:
                await self._step()
            except KubernetesError as error:
                self._metrics.count("lease_failures")
                level = logging.ERROR if not isinstance(error, ApiError) else logging.WARNING
                log.log(level, "lease %s: %s", self._options.name, one_line(error))
            if self._elected.is_set() and not self._is_good():
                self._step_down("the lease was not renewed in time")
            await self._rest()

    async def _rest(self) -> None:
        """A retry period, or less when there is a reason."""
        wait = asyncio.ensure_future(self._clock.sleep(self._options.retry_period_seconds))
        hurry = asyncio.ensure_future(self._wants_new.wait())
        try:
            await asyncio.wait({wait, hurry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
            hurry.cancel()
            await asyncio.gather(wait, hurry, return_exceptions=True)
            self._wants_new.clear()

    async def _step(self) -> None:
        if self._elected.is_set() and self._record is not None:
            await self._keep(self._record)
        else:
            await self._try_to_get()

    async def _keep(self, record: _Record) -> None:
        body = self._written(record, self._epoch, acquires=False)
        try:
            await self._write("PUT", self._path, body)
        except ApiError as error:
            if error.status not in (CONFLICT, NOT_FOUND):
                raise
            found = await self._read()
            if found is None or found.holder != self._options.identity:
                self._step_down("somebody else has the lease")
                raise
            # Our own write whose answer was lost, or a label that somebody put on it.
            self._record = found
            await self._write("PUT", self._path, self._written(found, self._epoch, acquires=False))

    async def _try_to_get(self) -> None:
        found = await self._read()
        if found is None:
            epoch = self._next_epoch(0)
            empty = _Record({"metadata": {"namespace": self._options.namespace}})
            body = self._written(empty, epoch, acquires=True)
            await self._write("POST", self._collection, body)
            self._win(epoch)
            return
        if self._is_taken(found):
            return
        epoch = self._next_epoch(found.epoch)
        await self._write("PUT", self._path, self._written(found, epoch, acquires=True))
        self._win(epoch)

    def _is_taken(self, found: _Record) -> bool:
        """By the time since the holder was last seen to renew, not by anybody's clock."""
        if found.version != self._seen:
            self._seen, self._seen_at = found.version, self._clock.now()
        if not found.holder or found.holder == self._options.identity:
            return False
        return self._clock.now() < self._seen_at + found.duration

    def _next_epoch(self, stored: int) -> int:
        return max(stored, self._floor, self._clock.unix_ms()) + 1

    async def _read(self) -> _Record | None:
        try:
            body = await self._api.call("GET", self._path, seconds=self._call_seconds, urgent=True)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return _Record(msgspec.json.decode(body))

    async def _write(self, method: str, path: str, body: dict[str, Any]) -> None:
        began, began_ms = self._clock.now(), self._clock.unix_ms()
        answer = await self._api.call(
            method, path, _ENCODE(body), seconds=self._call_seconds, urgent=True
        )
        self._record = _Record(msgspec.json.decode(answer))
        # Counted from before the call: the others cannot have seen it earlier.
        self._renewed_at, self._renewed_at_ms = began, began_ms

    @property
    def _call_seconds(self) -> float:
        return max(self._options.retry_period_seconds, self._options.renew_deadline_seconds / 2)

    def _written(self, record: _Record, epoch: int, *, acquires: bool) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC)
        text = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = dict(record.body.get("metadata", {}))
        metadata["name"] = self._options.name
        metadata["annotations"] = {**(metadata.get("annotations") or {}), EPOCH: str(epoch)}
        # Whoever wrote the object last has no say in who wrote it before.
        metadata.pop("managedFields", None)
        spec = dict(record.spec)
        if acquires:
            if record.holder != self._options.identity:
                spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
            spec["acquireTime"] = text
        spec["holderIdentity"] = self._options.identity
        spec["leaseDurationSeconds"] = max(1, round(self._options.duration_seconds))
        spec["renewTime"] = text
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }

    def _win(self, epoch: int) -> None:
        self._epoch = epoch
        self._elected.set()
        self._metrics.count("elections")
        self._metrics.gauge("leads", 1)
        log.info("this adapter leads (lease %s, epoch %d)", self._options.name, epoch)

    def _step_down(self, reason: str) -> None:
        if not self._elected.is_set():
            return
        self._elected.clear()
        self._record = None
        self._wants_new.set()
        self._metrics.gauge("leads", 0)
        log.warning("this adapter does not lead any more: %s", reason)
        self.on_lost()

    async def release(self) -> None:
        """At the end, when nothing is in flight: the next leader need not wait."""
        record = self._record
        if not self._elected.is_set() or record is None:
            return
        self._elected.clear()
        body = self._written(record, self._epoch, acquires=False)
        body["spec"].update(holderIdentity="", leaseDurationSeconds=1)
        try:
            await self._write("PUT", self._path, body)
        except KubernetesError as error:
            log.info("the lease was not given back: %s", one_line(error))

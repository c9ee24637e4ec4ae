"""Leader election by a Lease, with the epoch in an annotation, and a local check before each write.

An old leader that was suspended finds its lease expired before it sends the next call. A call that
was sent in time ends before another process can acquire the lease.
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
    LostAnswerError,
    one_line,
)
from pumice.adapters.kubernetes.object_head import UNREADABLE
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
        return int(text) if text.isdecimal() else 0

    @property
    def duration(self) -> float:
        return float(self.spec.get("leaseDurationSeconds") or 0)


def _record(body: bytes) -> _Record:
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE as error:
        raise LostAnswerError(f"the response is not a lease: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
        raise LostAnswerError("the response is not a lease: it has no metadata")
    return _Record(found)


class LeaseEpochs:
    """Leader election by a Lease, as a source of epochs. `run` must be running."""

    def __init__(
        self,
        api: ApiSession,
        options: LeaseOptions,
        clock: Clock,
        metrics: Metrics,
        on_lost: Callable[[], None] = lambda: None,
        why_not_candidate: Callable[[], str] = lambda: "",
    ) -> None:
        self.on_lost = on_lost
        # Called before each attempt to acquire the lease: "", or the reason not to try.
        self.why_not_candidate = why_not_candidate
        self._api, self._options = api, options
        self._clock, self._metrics = clock, metrics
        base = "/apis/coordination.k8s.io/v1/namespaces"
        self._collection = f"{base}/{options.namespace}/leases"
        self._path = f"{self._collection}/{options.name}"
        self._record: _Record | None = None
        # The last version of the lease of another holder, and the time at which it was first seen.
        self._seen = ""
        self._seen_at = 0.0
        self._epoch = 0
        # The next epoch must be higher than this one, which a core fenced.
        self._floor = 0
        self._used_epoch = 0
        self._renewed_at = 0.0
        self._renewed_at_ms = 0
        self._failing_since: float | None = None
        self._problem = ""
        self._failures = 0
        self._elected = asyncio.Event()
        self._check_requested = asyncio.Event()
        # The last log line about waiting for the lease.
        self._logged = ""
        # The reason to release the lease; "": none.
        self._resignation = ""

    # For the runtime.

    async def current(self) -> int:
        while not self._is_good():
            await self._elected.wait()
            if not self._is_good():
                # The lease has expired, which `run` has not noticed yet.
                await self._clock.sleep(self._options.retry_period_seconds / 10)
        # Writes are allowed only while the runtime uses the current epoch.
        self._used_epoch = self._epoch
        return self._epoch

    async def renew(self, above: int) -> int:
        self._floor = max(self._floor, above)
        if self._epoch <= self._floor:
            self._step_down("a core serves a higher epoch")
        return await self.current()

    def may_act(self) -> bool:
        return self._used_epoch == self._epoch and self._is_good()

    def _is_good(self) -> bool:
        if not self._elected.is_set():
            return False
        limit = self._options.renew_deadline_seconds
        # The first clock stops while a machine is suspended, and the second can be set back.
        return (
            self._clock.now() - self._renewed_at < limit
            and self._clock.unix_ms() - self._renewed_at_ms < limit * 1000
        )

    # Acquiring and renewing.

    async def run(self) -> None:
        while True:
            try:
                await self._step()
                self._failing_since, self._problem, self._failures = None, "", 0
            except KubernetesError as error:
                self._note_failure(error)
            if self._elected.is_set() and not self._is_good():
                self._step_down("the lease was not renewed in time")
            await self._wait_for_retry()

    def _note_failure(self, error: KubernetesError) -> None:
        if self._failing_since is None:
            self._failing_since = self._clock.now()
        self._failures += 1
        self._metrics.count("lease_failures")
        problem, self._problem = self._problem, one_line(error)
        # The same problem is logged at powers of two only.
        if self._problem != problem or self._failures & (self._failures - 1) == 0:
            level = logging.ERROR if not isinstance(error, ApiError) else logging.WARNING
            log.log(level, "lease %s: %s", self._options.name, self._problem)

    def why_failing(self) -> str:
        """Why the lease was neither read nor renewed for its whole duration; "": it was."""
        if self._failing_since is None:
            return ""
        seconds = self._clock.now() - self._failing_since
        return self._problem if seconds > self._options.duration_seconds else ""

    def check_soon(self) -> None:
        """Checks the lease at once, because it may have changed."""
        self._check_requested.set()

    @property
    def leads(self) -> bool:
        return self._elected.is_set()

    async def _wait_for_retry(self) -> None:
        """Sleeps for a retry period, or until a check is requested."""
        wait = asyncio.ensure_future(self._clock.sleep(self._options.retry_period_seconds))
        hurry = asyncio.ensure_future(self._check_requested.wait())
        try:
            await asyncio.wait({wait, hurry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wait.cancel()
            hurry.cancel()
            await asyncio.gather(wait, hurry, return_exceptions=True)
            self._check_requested.clear()

    async def _step(self) -> None:
        if self._elected.is_set() and self._record is not None:
            if self._resignation:
                await self._resign(self._record)
            else:
                await self._renew(self._record)
        else:
            self._resignation = ""
            await self._try_to_acquire()

    async def _renew(self, record: _Record) -> None:
        body = self._held_body(record, self._epoch, acquires=False)
        try:
            await self._write("PUT", self._path, body)
        except ApiError as error:
            if error.status not in (CONFLICT, NOT_FOUND):
                raise
            found = await self._read()
            if found is None or found.holder != self._options.identity:
                self._step_down("another process has the lease")
                raise
            # The response to the last write was lost, or the object was changed in another way.
            self._record = found
            await self._write(
                "PUT", self._path, self._held_body(found, self._epoch, acquires=False)
            )

    async def _try_to_acquire(self) -> None:
        reason = self.why_not_candidate()
        if reason:
            self._log_once(f"not a candidate: {reason}")
            return
        found = await self._read()
        if found is None:
            epoch = self._next_epoch(0)
            empty = _Record({"metadata": {"namespace": self._options.namespace}})
            body = self._held_body(empty, epoch, acquires=True)
            await self._write("POST", self._collection, body)
            self._become_leader(epoch)
            return
        if self._is_taken(found):
            since = found.spec.get("acquireTime") or "an unknown time"
            self._log_once(f"waiting for the leader {found.holder}, elected at {since}")
            return
        epoch = self._next_epoch(found.epoch)
        await self._write("PUT", self._path, self._held_body(found, epoch, acquires=True))
        self._become_leader(epoch)

    def _is_taken(self, record: _Record) -> bool:
        """Whether another holder renewed recently, by the local clock."""
        if record.version != self._seen:
            self._seen, self._seen_at = record.version, self._clock.now()
        if not record.holder or record.holder == self._options.identity:
            return False
        return self._clock.now() < self._seen_at + record.duration

    def _next_epoch(self, stored: int) -> int:
        return max(stored, self._floor, self._clock.unix_ms()) + 1

    async def _read(self) -> _Record | None:
        try:
            body = await self._api.call("GET", self._path, seconds=self._call_seconds, urgent=True)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return _record(body)

    async def _write(self, method: str, path: str, body: dict[str, Any]) -> None:
        began, began_ms = self._clock.now(), self._clock.unix_ms()
        answer = await self._api.call(
            method, path, _ENCODE(body), seconds=self._call_seconds, urgent=True
        )
        self._record = _record(answer)
        # The time before the call, because other candidates cannot have seen the renewal earlier.
        self._renewed_at, self._renewed_at_ms = began, began_ms

    @property
    def _call_seconds(self) -> float:
        return max(self._options.retry_period_seconds, self._options.renew_deadline_seconds / 2)

    def _held_body(self, record: _Record, epoch: int, *, acquires: bool) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.unix_ms() / 1000, UTC)
        text = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = dict(record.body.get("metadata", {}))
        metadata["name"] = self._options.name
        metadata["annotations"] = {**(metadata.get("annotations") or {}), EPOCH: str(epoch)}
        # The API server maintains managedFields.
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

    def _log_once(self, text: str) -> None:
        """Logs a state of the wait for the lease when it changes."""
        if text != self._logged:
            self._logged = text
            log.info("lease %s/%s: %s", self._options.namespace, self._options.name, text)

    def _become_leader(self, epoch: int) -> None:
        self._epoch = epoch
        self._logged = ""
        self._elected.set()
        self._metrics.count("elections")
        self._metrics.gauge("leads", 1)
        log.info("this process is the leader (lease %s, epoch %d)", self._options.name, epoch)

    def _step_down(self, reason: str) -> None:
        if not self._elected.is_set():
            return
        self._elected.clear()
        self._record = None
        self._check_requested.set()
        self._metrics.gauge("leads", 0)
        log.warning("this process is no longer the leader: %s", reason)
        self.on_lost()

    def resign(self, reason: str) -> None:
        """Releases the lease soon, without ending the process, so that another candidate leads."""
        self._resignation = reason
        self.check_soon()

    async def _resign(self, record: _Record) -> None:
        self._step_down(self._resignation)
        self._resignation = ""
        await self._write_release(record)

    async def release(self) -> None:
        """Releases the lease when the process ends and nothing is in flight."""
        record = self._record
        if not self._elected.is_set() or record is None:
            return
        self._elected.clear()
        await self._write_release(record)
        self._metrics.gauge("leads", 0)
        log.info("lease %s released", self._options.name)

    async def _write_release(self, record: _Record) -> None:
        try:
            try:
                await self._write("PUT", self._path, self._released_body(record))
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                # A renewal that was in flight came first.
                found = await self._read()
                if found is not None and found.holder == self._options.identity:
                    await self._write("PUT", self._path, self._released_body(found))
        except KubernetesError as error:
            log.warning("the lease was not released: %s", one_line(error))
        finally:
            self._record = None

    def _released_body(self, record: _Record) -> dict[str, Any]:
        body = self._held_body(record, self._epoch, acquires=False)
        body["spec"].update(holderIdentity="", leaseDurationSeconds=1)
        return body

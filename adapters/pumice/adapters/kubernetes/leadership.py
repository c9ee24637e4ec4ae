"""Releases the lease while the core of the leader does not work, so that a standby leads.

A standby watches the lease, so that it notices a release before its next poll.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

import msgspec

from pumice.adapters.kubernetes.definitions import Definitions
from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.lease import LeaseEpochs
from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.options import LeaseOptions
from pumice.adapters.kubernetes.reflector import Reflector
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.core_monitor import CoreMonitor
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.runner import AdapterRuntime

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
# The core of a candidate must have responded within this time.
_STANDBY_SECONDS = 3.0

LEASES: Final = Resource(
    KindNumber(0), "Lease", "leases", "coordination.k8s.io", "v1", namespaced=True
)


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_LEASE: Final = msgspec.json.Decoder(_Lease)


class LeaseStore:
    """Receives one Lease from a reflector, and calls back if the lease has no holder."""

    def __init__(self, name: str, on_free: Callable[[], None]) -> None:
        self._name, self._on_free = name, on_free

    @property
    def source(self) -> Source:
        return Source(LEASES, f"metadata.name={self._name}")

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        if head.metadata.name != self._name:
            return
        try:
            lease = _LEASE.decode(raw)
        except msgspec.MsgspecError as error:
            log.warning("the lease %s cannot be read: %s", self._name, error)
            return
        if not lease.spec.holder_identity:
            self._on_free()

    def delete(self, head: Head) -> None:
        if head.metadata.name == self._name:
            self._on_free()

    def begin_list(self) -> None:
        """Does nothing, because there is at most one object."""

    def end_list(self, version: str) -> None:
        """Does nothing, because there is at most one object."""

    async def wait_for_space(self) -> None:
        """Does nothing, because nothing is queued."""


class Leadership:
    """Runs the lease beside a runtime, and releases it while the core does not work."""

    def __init__(
        self,
        api: ApiSession,
        lease: LeaseEpochs,
        options: LeaseOptions,
        core_timeout_seconds: float,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._api, self._lease, self._options = api, lease, options
        self._core_timeout_seconds = core_timeout_seconds
        self._clock, self._metrics = clock, metrics
        # Until this time, other candidates go first.
        self._candidate_from = 0.0
        self._monitor: CoreMonitor | None = None

    async def run(self, runtime: AdapterRuntime, monitor: CoreMonitor) -> None:
        """Runs until it is cancelled."""
        self._monitor = monitor
        self._lease.on_lost = runtime.cut
        self._lease.why_not_candidate = self._why_not_candidate
        tasks = [
            asyncio.create_task(work)
            for work in (self._lease.run(), self._watch_lease(), self._watch_core(runtime, monitor))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_tasks(*tasks)

    def _why_not_candidate(self) -> str:
        if self._monitor is not None:
            limit = min(_STANDBY_SECONDS, self._core_timeout_seconds)
            if reason := self._monitor.why_silent(limit):
                return reason
        if self._clock.now() < self._candidate_from:
            return "the core of this adapter did not work; other candidates go first"
        return ""

    async def _watch_core(self, runtime: AdapterRuntime, monitor: CoreMonitor) -> None:
        was_candidate = False
        while True:
            await self._clock.sleep(_POLL_SECONDS)
            if not self._lease.leads:
                is_candidate = not self._why_not_candidate()
                if is_candidate and not was_candidate:
                    # The core works again, so the election need not wait for the retry period.
                    self._lease.check_soon()
                was_candidate = is_candidate
            elif reason := monitor.why_silent(self._core_timeout_seconds):
                was_candidate = False
                await self._resign(runtime, monitor, reason)

    async def _resign(self, runtime: AdapterRuntime, monitor: CoreMonitor, reason: str) -> None:
        await runtime.finish_calls()
        if monitor.answers:
            # With a core that hangs but responds, this adapter would lead again at once.
            self._candidate_from = self._clock.now() + self._options.duration_seconds
        self._metrics.count("resignations")
        self._lease.resign(reason)
        await self._until_resigned()

    async def _until_resigned(self) -> None:
        while self._lease.leads:
            await self._clock.sleep(_POLL_SECONDS)

    async def _watch_lease(self) -> None:
        await watch_lease(self._api, self._lease, self._options, self._clock, self._metrics)


async def watch_lease(
    api: ApiSession, lease: LeaseEpochs, options: LeaseOptions, clock: Clock, metrics: Metrics
) -> None:
    """Watches the lease, so that the election notices a release at once. Runs until cancelled."""
    store = LeaseStore(options.name, lease.check_soon)
    rng = random.Random()
    reflector = Reflector(
        store.source,
        store,
        api,
        Definitions(clock, rng),
        RetryPolicy(clock, metrics),
        clock,
        rng,
        metrics,
        namespace=options.namespace,
    )
    try:
        await reflector.run()
    except KubernetesError as error:
        log.warning("the lease is polled, because it cannot be watched: %s", one_line(error))
        await asyncio.Event().wait()

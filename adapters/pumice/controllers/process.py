"""The controllers process: connects the API session, leader election and the loop."""

import asyncio
import gc
import logging

from pumice.adapters.kubernetes.api import AccessSource
from pumice.adapters.kubernetes.health import serve_pages
from pumice.adapters.kubernetes.leadership import watch_lease
from pumice.adapters.kubernetes.lease import LeaseEpochs
from pumice.adapters.kubernetes.process import check, until_first_ends
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Clock, SystemClock, end_tasks
from pumice.adapters.runtime.health import Health
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.shutdown import Shutdown
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.registry import CONTROLLERS
from pumice.controllers.runtime.loop import ControllerLoop
from pumice.controllers.settings import ControllersSettings
from pumice.controllers.volcano_metrics import JobLatencies, VolcanoMetrics

log = logging.getLogger(__name__)


async def run_controllers(settings: ControllersSettings, shutdown: Shutdown | None = None) -> None:
    """Runs controllers until they are shut down or cancelled. Raises AdapterError if they cannot continue."""
    shutdown = shutdown or Shutdown()
    # Most objects live long and are in no cycles, so frequent collections would only cost time.
    gc.set_threshold(50_000, 20, 50)
    clock, metrics = SystemClock(), Metrics(CONTROLLER_SERIES)
    health = Health(metrics)
    api = ApiSession(
        AccessSource(settings.kubeconfig, settings.context, settings.master),
        TokenBucket(settings.qps, settings.burst, clock),
        clock,
        metrics,
        connections=settings.connections,
        user_agent="pumice-controllers",
    )
    for remark in settings.remarks:
        log.warning("%s", remark)
    log.info("controllers: %s", ", ".join(settings.controllers) or "none")
    await api.open()
    try:
        await check(api, RetryPolicy(clock, metrics))
        async with serve_pages(settings, metrics, health):
            await _serve(settings, api, clock, metrics, health, shutdown)
    finally:
        await api.close()


async def _serve(
    settings: ControllersSettings,
    api: ApiSession,
    clock: Clock,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
) -> None:
    lease = None
    if settings.lease is not None:
        lease = LeaseEpochs(api, settings.lease, clock, metrics)
        health.add("lease", lease.why_failing)
    may_act = lease.may_act if lease is not None else lambda: True
    loop = ControllerLoop(
        [CONTROLLERS[name](settings.options) for name in settings.controllers],
        api,
        settings.loop,
        clock,
        metrics,
        may_act=may_act,
    )
    health.add("watches", loop.why_stale)
    metrics.registry.register(VolcanoMetrics(loop, may_act))
    JobLatencies(loop, metrics, metrics.registry)
    work = [loop.watch(), _lead(loop, lease, settings, shutdown, metrics)]
    if lease is not None and settings.lease is not None:
        work += [lease.run(), watch_lease(api, lease, settings.lease, clock, metrics)]
    try:
        await until_first_ends(*work)
    finally:
        if lease is not None:
            await lease.release()


async def _lead(
    loop: ControllerLoop,
    lease: LeaseEpochs | None,
    settings: ControllersSettings,
    shutdown: Shutdown,
    metrics: Metrics,
) -> None:
    """Reconciles whenever this process leads. Returns after a drain."""
    draining = asyncio.Event()

    def drain() -> None:
        draining.set()
        loop.drain()

    shutdown.offer(drain)
    drain_task = asyncio.create_task(draining.wait())
    try:
        while not draining.is_set():
            await _lead_once(loop, lease, drain_task, settings.drain_seconds, metrics)
    finally:
        await end_tasks(drain_task)


async def _lead_once(
    loop: ControllerLoop,
    lease: LeaseEpochs | None,
    draining: "asyncio.Task[bool]",
    drain_seconds: float,
    metrics: Metrics,
) -> None:
    """Waits for the lease, and reconciles until the lease is lost or the process drains."""
    lease_lost = asyncio.Event()
    if lease is not None:
        lease.on_lost = lease_lost.set
        elected = asyncio.ensure_future(lease.current())
        await asyncio.wait([elected, draining], return_when=asyncio.FIRST_COMPLETED)
        await end_tasks(elected)
        if draining.done():
            return
    work = asyncio.create_task(loop.work())
    lost = asyncio.create_task(lease_lost.wait())
    try:
        await asyncio.wait([work, lost, draining], return_when=asyncio.FIRST_COMPLETED)
        if draining.done() and not work.done() and not lost.done():
            await asyncio.wait([work], timeout=drain_seconds)
            if not work.done():
                metrics.count("drain_timeouts")
                log.warning("writes did not end within %g s", drain_seconds)
        if work.done():
            work.result()
    finally:
        await end_tasks(work, lost)

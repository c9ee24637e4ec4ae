"""Runs an adapter process: API session, leader election, world and runtime."""

import asyncio
import gc
import logging
from collections.abc import Coroutine
from typing import Any

from pumice.adapters.kubernetes.api import AccessSource
from pumice.adapters.kubernetes.configuration_store import ConfigMapConfigurationStore
from pumice.adapters.kubernetes.errors import (
    ApiError,
    BadCredentialsError,
    LostAnswerError,
    UnreachableError,
    one_line,
)
from pumice.adapters.kubernetes.health import serve_pages
from pumice.adapters.kubernetes.leadership import Leadership
from pumice.adapters.kubernetes.lease import LeaseEpochs
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.settings import AdapterSettings
from pumice.adapters.kubernetes.world import KubernetesWorld
from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.core_monitor import CoreMonitor
from pumice.adapters.runtime.health import Health
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.shutdown import Shutdown
from pumice.adapters.shadow.comparison import Comparison
from pumice.adapters.shadow.node_equivalence import NodeEquivalence
from pumice.adapters.shadow.options import ShadowOptions
from pumice.adapters.shadow.report import Reporter
from pumice.adapters.shadow.world import ShadowWorld

log = logging.getLogger(__name__)

# Number of attempts, for about a minute, before an unreachable API server is an error.
_FIRST_TRIES = 9


async def run_adapter(
    settings: AdapterSettings, open_channel: ChannelFactory, shutdown: Shutdown | None = None
) -> None:
    """Runs until it is shut down or cancelled. Raises AdapterError if it cannot continue."""
    shutdown = shutdown or Shutdown()
    # Most objects live long and are not in cycles, so frequent collections only cost time.
    gc.set_threshold(50_000, 20, 50)
    clock, metrics = SystemClock(), Metrics()
    health = Health(metrics)
    source = AccessSource(settings.kubeconfig, settings.context, settings.master)
    rate_limit = TokenBucket(settings.qps, settings.burst, clock)
    api = ApiSession(
        source,
        rate_limit,
        clock,
        metrics,
        connections=settings.connections,
        read_only=settings.shadow is not None,
    )
    for remark in settings.remarks:
        log.warning("%s", remark)
    await api.open()
    try:
        await check(api, RetryPolicy(clock, metrics))
        async with serve_pages(settings, metrics, health):
            serve = _serve if settings.shadow is None else _serve_shadow
            await serve(settings, open_channel, api, clock, metrics, health, shutdown)
    finally:
        await api.close()


async def check(api: ApiSession, retries: RetryPolicy) -> None:
    """Checks that the API server responds and accepts the credentials."""
    refusal = None
    try:
        async for attempt in retries.retrying("the API server", tries=_FIRST_TRIES):
            with attempt:
                refusal = await _get_version(api)
    except (LostAnswerError, ApiError) as error:
        raise UnreachableError(api.server, one_line(error)) from error
    if refusal is not None:
        raise refusal


async def _get_version(api: ApiSession) -> BadCredentialsError | None:
    try:
        await api.call("GET", "/version")
    except BadCredentialsError as error:
        # A retry does not help.
        return error
    except ApiError as error:
        # Even a refusal shows that the credentials are valid.
        if error.is_transient:
            raise
    return None


async def _serve(
    settings: AdapterSettings,
    open_channel: ChannelFactory,
    api: ApiSession,
    clock: SystemClock,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
) -> None:
    lease = None
    if settings.lease is not None:
        lease = LeaseEpochs(api, settings.lease, clock, metrics)
        health.add("lease", lease.why_failing)
    may_act = lease.may_act if lease is not None else lambda: True
    world = KubernetesWorld(api, settings.world, clock, metrics, may_act=may_act, health=health)
    store = None
    if settings.kept_configuration is not None:
        retries, report = RetryPolicy(clock, metrics), world.report_refused_configuration
        store = ConfigMapConfigurationStore(
            api, *settings.kept_configuration, retries, clock, may_act, report
        )
    runtime = AdapterRuntime(
        world,
        open_channel,
        settings.runtime,
        epochs=lease,
        clock=clock,
        metrics=metrics,
        configurations=store,
    )
    health.add("configuration", runtime.configurations.why_none)
    leads = (lambda: lease.leads) if lease is not None else (lambda: True)
    monitor = CoreMonitor(open_channel, runtime, leads, clock, metrics)
    health.add("core", lambda: monitor.why_silent(settings.core_timeout_seconds))
    shutdown.offer(runtime.drain)
    work = [runtime.run(), monitor.run()]
    if lease is not None and settings.lease is not None:
        leadership = Leadership(
            api, lease, settings.lease, settings.core_timeout_seconds, clock, metrics
        )
        work.append(leadership.run(runtime, monitor))
    try:
        await until_first_ends(*work)
    finally:
        if lease is not None:
            await lease.release()


async def until_first_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Runs all until the first one ends or fails, and then ends the others."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(*tasks)


async def _serve_shadow(
    settings: AdapterSettings,
    open_channel: ChannelFactory,
    api: ApiSession,
    clock: SystemClock,
    metrics: Metrics,
    health: Health,
    _: Shutdown,
) -> None:
    """Runs in shadow mode, which needs no lease because it writes nothing."""
    options = settings.shadow or ShadowOptions()
    reporter = Reporter(options.scheduler, clock, options.report)
    nodes = NodeEquivalence(options.wait_seconds)
    comparison = Comparison(options.wait_seconds, reporter.difference, nodes.are_equivalent)

    def serving_stream() -> int:
        is_serving = runtime.is_served and runtime.configurations.is_valid
        return metrics.counted("streams") if is_serving else 0

    world = ShadowWorld(
        KubernetesWorld(api, settings.world, clock, metrics, may_act=lambda: False, health=health),
        comparison,
        settings.world.selection.scheduler_names,
        clock,
        metrics,
        nodes=nodes,
        serving_stream=serving_stream,
    )
    runtime = AdapterRuntime(world, open_channel, settings.runtime, clock=clock, metrics=metrics)
    health.add("configuration", runtime.configurations.why_none)

    async def summarize() -> None:
        while True:
            await clock.sleep(options.every_seconds)
            if not runtime.configurations.why_none():
                reporter.summary(comparison.summary(clock.now()))

    log.info("running as a shadow of %s; nothing is written", options.scheduler)
    summaries = asyncio.create_task(summarize())
    try:
        await runtime.run()
    finally:
        await end_tasks(summaries)
        if problem := runtime.configurations.why_none():
            reporter.refuse(problem)
        else:
            reporter.end(comparison.summary(clock.now()))

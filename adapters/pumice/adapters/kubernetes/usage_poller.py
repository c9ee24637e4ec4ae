"""Polls the usage of nodes, and publishes it for plugins."""

import asyncio
import logging
import random
from collections.abc import Callable

import aiohttp

from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.usage_settings import UsageSettings, usage_settings
from pumice.adapters.kubernetes.usage_sources import UsageError, Usages, UsageSource
from pumice.adapters.runtime.clock import Backoff, Clock, within
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DataSeen, WorldEvent
from pumice.v1.delta_pb2 import PluginData

log = logging.getLogger(__name__)

_PLUGIN = "usage"
# Maximum time of one poll, and maximum delay after failures.
_POLL_SECONDS = 20.0
_DELAY_SECONDS = 300.0


class UsagePoller:
    """Polls the source that the configuration names, once per interval.

    Failures are logged and counted, and delay the next poll. The core uses the last values until
    they are too old.
    """

    def __init__(
        self,
        api: ApiSession,
        publish: Callable[[WorldEvent], None],
        clock: Clock,
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self._api, self._publish = api, publish
        self._clock, self._metrics, self._rng = clock, metrics, rng
        self._settings: UsageSettings | None = None
        self._changed = asyncio.Event()
        self._known: set[str] = set()

    def configure(self, scheduler_conf: str) -> None:
        settings = usage_settings(scheduler_conf)
        if settings != self._settings:
            self._settings = settings
            self._changed.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            settings = self._settings
            if settings is None:
                self._publish_usages({})
                await self._changed.wait()
                failures = 0
                continue
            failures = 0 if await self._poll(settings) else failures + 1
            await self._wait(self._delay(settings, failures))

    def _delay(self, settings: UsageSettings, failures: int) -> float:
        if not failures:
            return settings.interval_seconds
        longest = max(_DELAY_SECONDS, settings.interval_seconds)
        return Backoff(settings.interval_seconds, longest).delay(failures, self._rng)

    async def _wait(self, seconds: float) -> None:
        """Waits for the next poll, or until another source is configured."""
        waiting = asyncio.ensure_future(self._changed.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    async def _poll(self, settings: UsageSettings) -> bool:
        """Polls once; returns whether the source responded."""
        source = UsageSource(settings, self._api, _POLL_SECONDS)
        now = self._clock.unix_ms() / 1000
        try:
            found = await within(self._clock, _POLL_SECONDS, source.poll(now))
        except (UsageError, KubernetesError, aiohttp.ClientError, TimeoutError, OSError) as error:
            self._metrics.count("usage_polls", result="failed")
            log.warning("the usage of nodes cannot be polled: %s", one_line(error))
            return False
        self._metrics.count("usage_polls", result="done")
        self._publish_usages(found)
        return True

    def _publish_usages(self, usages: Usages) -> None:
        for node, usage in sorted(usages.items()):
            numbers = {"cpu": usage.cpu, "memory": usage.memory, "time": usage.time}
            known = {key: number for key, number in numbers.items() if number is not None}
            self._publish(DataSeen(PluginData(plugin=_PLUGIN, name=node, numbers=known)))
        for node in sorted(self._known.difference(usages)):
            self._publish(DataSeen(PluginData(plugin=_PLUGIN, name=node)))
        self._known = set(usages)

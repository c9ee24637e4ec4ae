"""Polls UFM while its source is enabled, and keeps the last valid answer."""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks
from pumice.controllers.hypernode import ufm_client
from pumice.controllers.hypernode.ufm import UfmSettings, hyper_nodes
from pumice.controllers.hypernode.ufm_client import UfmError
from pumice.controllers.runtime.objects import Manifest

log = logging.getLogger(__name__)

# Delays after failed polls, if they are shorter than the interval.
_RETRY: Final = Backoff(5.0, 600.0)


class UfmPoller:
    """The HyperNodes that follow from the last valid answer, and the problem since then."""

    def __init__(self) -> None:
        # None: there was no valid answer yet.
        self.found: dict[str, Manifest] | None = None
        self.problem = ""
        self._settings: UfmSettings | None = None
        self._changed = asyncio.Event()

    def set(self, settings: UfmSettings | None) -> None:
        """Takes new settings, and forgets the results of other settings."""
        if settings != self._settings:
            self._settings = settings
            self.found, self.problem = None, ""
            self._changed.set()

    async def run(self, api: ApiSession, clock: Clock, on_result: Callable[[], None]) -> None:
        """Polls until it is cancelled, and calls a function after every result."""
        rng = random.Random()
        failures = 0
        while True:
            settings = self._settings
            self._changed.clear()
            if settings is None:
                failures = 0
                await self._changed.wait()
                continue
            has_answer = await self._poll(api, settings)
            if settings != self._settings:
                continue
            on_result()
            failures = 0 if has_answer else failures + 1
            wait = settings.interval_seconds
            if failures:
                wait = min(wait, _RETRY.delay(failures, rng))
            await self._pause(clock, wait)

    async def _poll(self, api: ApiSession, settings: UfmSettings) -> bool:
        try:
            username, password = await ufm_client.credentials(api, settings)
            ports = await ufm_client.ports(settings, username, password)
        except UfmError as error:
            log.warning("discovery from UFM: %s", error)
            if settings == self._settings:
                self.problem = str(error)
            return False
        if settings == self._settings:
            self.found, self.problem = hyper_nodes(ports), ""
            if not self.found:
                self.problem = "UFM names no computer that is connected to a switch"
        return True

    async def _pause(self, clock: Clock, seconds: float) -> None:
        """Waits, but not longer than until the settings change."""
        wait = asyncio.ensure_future(clock.sleep(seconds))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({wait, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(wait, changed)

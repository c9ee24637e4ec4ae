"""A reflector that watches only while objects of another watch need it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from pumice.adapters.kubernetes.reflector import Reflector
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.watches import Change

# Interval between checks whether an open watch is still needed.
_CHECK_SECONDS: Final = 60.0


class OnDemandReflector:
    """Fills a cache while its watch is needed, and empties the cache otherwise.

    The first list is always read, because its objects may keep the watch open too.
    """

    def __init__(
        self,
        make: Callable[[], Reflector],
        cache: ObjectCache[Any],
        needing: ObjectCache[Any],
        needing_listed: asyncio.Event,
        clock: Clock,
    ) -> None:
        self.listed = asyncio.Event()
        self._make, self._cache, self._needing = make, cache, needing
        self._needing_listed, self._clock = needing_listed, clock
        self._reflector: Reflector | None = None
        self._wanted = asyncio.Event()
        needing.listeners.append(self._on_change)

    @property
    def resource(self) -> Resource:
        return self._cache.watch.resource

    def why_stale(self) -> str:
        if self._reflector is not None:
            return self._reflector.why_stale()
        return "" if self.listed.is_set() else "not listed yet"

    async def run(self) -> None:
        """Watches while it is needed, until it is cancelled."""
        while True:
            await self._follow()
            if self._is_needed():
                # Between the check and its end, the reflector read events that need the watch.
                continue
            self._cache.close()
            await self._wanted.wait()

    async def _follow(self) -> None:
        """Lists and watches until no object needs the watch any more."""
        self._cache.open()
        self._reflector = self._make()
        work = asyncio.create_task(self._reflector.run())
        unneeded = asyncio.create_task(self._until_unneeded(self._reflector))
        try:
            await asyncio.wait([work, unneeded], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            await end_tasks(work, unneeded)
            self._reflector = None

    async def _until_unneeded(self, reflector: Reflector) -> None:
        await reflector.listed.wait()
        self.listed.set()
        await self._needing_listed.wait()
        while self._is_needed():
            await self._clock.sleep(_CHECK_SECONDS)
        self._wanted.clear()

    def _is_needed(self) -> bool:
        return len(self._needing) > 0 or any(map(self._cache.watch.needs_itself, self._cache))

    def _on_change(self, change: Change[Any]) -> None:
        if change.new is not None:
            self._wanted.set()

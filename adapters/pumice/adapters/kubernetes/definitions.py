"""Custom resources that come and go: told by their definitions, not by asking again and again."""

import asyncio
import random
from typing import Final

import msgspec

from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.resources import POD_GROUPS, QUEUES, Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.objects import KindNumber

DEFINITIONS: Final = Resource(
    KindNumber(0),
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
)

# From a definition to an API that serves it.
_SOON: Final = Backoff(0.2, 30.0)
# Kinds of Kubernetes itself, which come with another version of the server.
_SELDOM: Final = Backoff(60.0, 600.0)
# When definitions may not be watched.
_BLIND: Final = Backoff(5.0, 120.0)


class Definitions:
    """A store of CustomResourceDefinitions; wakes those who wait for one of them."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock, self._rng = clock, rng
        self._present: set[str] = set()
        self._listing: set[str] = set()
        self._news = asyncio.Event()
        # Nobody may see definitions, or nobody tries to.
        self.is_blind = True

    async def wait_for(self, source: Source, misses: int) -> None:
        """Waits until a list of the source is worth a try."""
        name = source.resource.full_name
        if not source.resource.custom:
            await self._clock.sleep(_SELDOM.delay(misses + 1, self._rng))
            return
        while not self.is_blind and name not in self._present:
            await self._news.wait()
        backoff = _BLIND if self.is_blind else _SOON
        await self._clock.sleep(backoff.delay(misses + 1, self._rng))

    def is_absent(self, source: Source) -> bool:
        resource = source.resource
        if not resource.custom:
            return False
        is_ancient = resource in (*POD_GROUPS[1:], *QUEUES[1:])
        return is_ancient or (not self.is_blind and resource.full_name not in self._present)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # The store.

    def begin_list(self) -> None:
        self._listing = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        name = head.metadata.name
        self._listing.add(name)
        self._present.add(name)
        self._tell()

    def end_list(self) -> None:
        self.is_blind = False
        self._present = set(self._listing)
        self._tell()

    def delete(self, head: Head) -> None:
        self._present.discard(head.metadata.name)

    async def wait_for_space(self) -> None:
        """Nobody is behind."""

"""Discovers custom resources by a watch of their definitions, instead of lists that fail."""

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

# Delays before a list of a missing resource is retried: after its definition was seen, ...
_AFTER_DEFINITION: Final = Backoff(0.2, 30.0)
# ... for built-in kinds, which appear only with another version of the server, ...
_BUILT_IN: Final = Backoff(60.0, 600.0)
# ... and when definitions cannot be watched.
_WITHOUT_DEFINITIONS: Final = Backoff(5.0, 120.0)


class Definitions:
    """The store of CustomResourceDefinitions, on which reflectors wait for missing resources."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock, self._rng = clock, rng
        self._present: set[str] = set()
        self._listing: set[str] = set()
        self._changed = asyncio.Event()
        # Whether definitions were not listed, or cannot be.
        self.is_unknown = True

    async def wait_for(self, source: Source, misses: int) -> None:
        """Returns when a list of the source should be retried."""
        name = source.resource.full_name
        if not source.resource.custom:
            await self._clock.sleep(_BUILT_IN.delay(misses + 1, self._rng))
            return
        while not self.is_unknown and name not in self._present:
            await self._changed.wait()
        backoff = _WITHOUT_DEFINITIONS if self.is_unknown else _AFTER_DEFINITION
        await self._clock.sleep(backoff.delay(misses + 1, self._rng))

    def is_absent(self, source: Source) -> bool:
        resource = source.resource
        if not resource.custom:
            return False
        is_of_kube_batch = resource in (*POD_GROUPS[1:], *QUEUES[1:])
        return is_of_kube_batch or (not self.is_unknown and resource.full_name not in self._present)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # Calls of the reflector.

    def begin_list(self) -> None:
        self._listing = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        name = head.metadata.name
        self._listing.add(name)
        self._present.add(name)
        self._notify()

    def end_list(self, version: str) -> None:
        self.is_unknown = False
        self._present = set(self._listing)
        self._notify()

    def delete(self, head: Head) -> None:
        self._present.discard(head.metadata.name)

    async def wait_for_space(self) -> None:
        """Does nothing, because there is no consumer to wait for."""

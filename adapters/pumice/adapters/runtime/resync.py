"""The resync queue: reads objects again and sends them to the core.

It contains pods of failed decisions, and objects that the core requested. An object that is added
again before it was sent waits longer each time.
"""

import logging
import random
from typing import Protocol

from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import Identity, KindNumber, identity, shown_kind
from pumice.adapters.runtime.work_queue import WorkQueue
from pumice.adapters.runtime.world import ReadError, World
from pumice.v1.object_pb2 import KIND_POD, ClusterObject

log = logging.getLogger(__name__)


class ObjectHandler(Protocol):
    """Receives objects that were read again."""

    def revision_of(self, kind: KindNumber, uid: str) -> int:
        """A number that changes with every version of the object; 0: it does not exist."""
        ...

    def update(self, cluster_object: ClusterObject) -> None: ...

    def delete(self, kind: KindNumber, uid: str) -> None: ...


class ResyncQueue:
    """Reads each object, with growing delays, until a version was sent to the core."""

    def __init__(
        self,
        world: World,
        handler: ObjectHandler,
        backoff: Backoff,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
    ) -> None:
        self._world = world
        self._handler = handler
        self._metrics = metrics
        self._keys: WorkQueue[Identity] = WorkQueue(backoff, clock, rng)

    def add(self, who: Identity, reason: str) -> None:
        delay = self._keys.retry(who)
        kind = shown_kind(who.kind)
        self._metrics.count("resyncs", kind=kind)
        self._metrics.gauge("resync_queue_length", len(self._keys))
        log.info("resync of %s %s in %.2f s: %s", kind, _name(who), delay, reason)

    def forget(self, who: Identity) -> None:
        self._keys.forget(who)

    def __len__(self) -> int:
        return len(self._keys)

    async def run(self) -> None:
        while True:
            who = await self._keys.get()
            self._metrics.gauge("resync_queue_length", len(self._keys))
            try:
                await self._resync(who)
            finally:
                self._keys.done(who)

    async def _resync(self, who: Identity) -> None:
        held = self._handler.revision_of(who.kind, who.uid)
        try:
            found = await self._read(who)
        except ReadError as error:
            self._metrics.count("resync_failures", kind=shown_kind(who.kind))
            self.add(who, f"it could not be read: {error}")
            return
        if self._handler.revision_of(who.kind, who.uid) != held:
            # The watch has reported a change in between, so this version may be older.
            self.add(who, "it changed while it was read")
            return
        if found is None or identity(found).uid != who.uid:
            self._handler.delete(who.kind, who.uid)
        if found is not None:
            self._handler.update(found)
        self._keys.forget(who)

    async def _read(self, who: Identity) -> ClusterObject | None:
        try:
            if who.kind == KIND_POD:
                reading = await self._world.read_pod(who.namespace, who.name)
            else:
                reading = await self._world.read_object(who.kind, who.namespace, who.name)
        except (OSError, TimeoutError) as error:
            raise ReadError(str(error) or type(error).__name__) from error
        return reading.object


def pod_identity(uid: str, namespace: str, name: str) -> Identity:
    return Identity(KIND_POD, uid, namespace, name)


def _name(who: Identity) -> str:
    return f"{who.namespace}/{who.name}" if who.namespace else who.name

"""A queue of events, which are written beside the acts that they report."""

import asyncio
import logging
from collections import deque
from typing import Final

from pumice.adapters.kubernetes.errors import KubernetesError, WithheldError, one_line
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.session import Fence
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.acts import Emit
from pumice.controllers.runtime.objects import shown_key
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

MOST_EVENTS: Final = 5000


class EventQueue:
    """A bounded queue of events. When the queue is full, the oldest event is dropped."""

    def __init__(self, recorder: EventRecorder, metrics: Metrics, fence: Fence) -> None:
        self._recorder, self._metrics, self._fence = recorder, metrics, fence
        self._waiting: deque[Emit] = deque()
        self._added = asyncio.Event()
        metrics.gauge_from("event_queue_length", lambda: len(self._waiting))

    def put(self, event: Emit) -> None:
        if not self._fence():
            return
        if len(self._waiting) >= MOST_EVENTS:
            self._waiting.popleft()
            self._metrics.count("dropped_events", cause="queue full")
        self._waiting.append(event)
        self._added.set()

    async def run(self) -> None:
        """Writes one event after the other, until it is cancelled."""
        try:
            while True:
                await self._added.wait()
                self._added.clear()
                await self.drain()
        finally:
            await self._recorder.stop()

    async def drain(self) -> None:
        """Writes the events that are queued."""
        while self._waiting:
            await self._write(self._waiting.popleft())

    async def _write(self, event: Emit) -> None:
        about = event.about
        message = Event(
            namespace=about.namespace,
            name=about.name,
            uid=about.uid,
            warning=event.warning,
            reason=event.reason,
            message=event.message,
        )
        try:
            await self._recorder.write(message, about.resource)
        except Exception as error:
            # After a bug in one event, the others are written.
            if not isinstance(error, KubernetesError):
                log.exception("event %s", event.reason)
            self._metrics.count("dropped_events", cause="refused")
            name = shown_key((about.namespace, about.name))
            level = logging.DEBUG if isinstance(error, WithheldError) else logging.INFO
            log.log(level, "dropped event %s on %s: %s", event.reason, name, one_line(error))

"""Warning events about invalid objects, which the leader writes."""

import logging
from typing import Final, Protocol

from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import Fence
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

_NOT_LEADING_SECONDS: Final = 1.0
# Maximum number of queued events.
_MOST_WAITING: Final = 1000


class Named(Protocol):
    """The object of an event."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


class WarningEvents:
    """The last warning of each object, until it is written."""

    def __init__(
        self,
        events: EventRecorder,
        retries: RetryPolicy,
        may_act: Fence,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._events, self._retries, self._may_act = events, retries, may_act
        self._clock, self._metrics = clock, metrics
        self._waiting: dict[str, Event] = {}

    def put(self, kind: KindNumber, about: Named, reason: str, message: str) -> bool:
        """Queues a warning; returns whether the caller must start `write`."""
        if not (about.uid and about.name):
            return False
        if len(self._waiting) >= _MOST_WAITING and about.uid not in self._waiting:
            self._metrics.count("dropped_events", cause="queue full")
            return False
        is_first = not self._waiting
        self._waiting[about.uid] = Event(
            kind=kind,
            namespace=about.namespace,
            name=about.name,
            uid=about.uid,
            warning=True,
            reason=reason,
            message=message,
        )
        return is_first

    async def write(self) -> None:
        """Writes warnings until the queue is empty."""
        while self._waiting:
            # Only the leader writes, and this adapter may lead later.
            while not self._may_act():
                await self._clock.sleep(_NOT_LEADING_SECONDS)
            uid, event = next(iter(self._waiting.items()))
            await self._write(event)
            if self._waiting.get(uid) is event:
                del self._waiting[uid]

    async def _write(self, event: Event) -> None:
        try:
            async for attempt in self._retries.retrying(f"event on {event.name}", tries=5):
                with attempt:
                    await self._events.write(event)
        except KubernetesError as error:
            log.warning(
                "cannot write an event on %s %s: %s", event.namespace, event.name, one_line(error)
            )

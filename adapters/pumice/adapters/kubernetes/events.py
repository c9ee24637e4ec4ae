"""An event recorder: writes core/v1 events, and counts an event that comes again.

The number of remembered events, of different texts per object and reason, and of attempts at one
write is limited. Dropped events are counted by cause.
"""

import asyncio
import hashlib
import logging
import secrets
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    NamespaceTerminatingError,
    one_line,
)
from pumice.adapters.kubernetes.missing_rights import ApiCalls
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.quantities import shown_time
from pumice.adapters.kubernetes.resources import EVENTS, Resource, resources_of
from pumice.adapters.kubernetes.session import MERGE, METADATA_ONLY, Fence
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

_ENCODE: Final = msgspec.json.Encoder().encode
_REMEMBERED: Final = 20_000
# The count of an event that comes again is written after this time, then after twice as long.
_FIRST_GAP_SECONDS: Final = 1.0
_LONGEST_GAP_SECONDS: Final = 300.0
# The write of a count is tried this many times; then it is dropped.
_COUNT_TRIES: Final = 5
# After so many different texts for one reason and object in this time, the texts share one event.
_MOST_TEXTS: Final = 10
_TEXTS_SECONDS: Final = 600.0
_LONGEST_TEXT: Final = 1024
_LONGEST_NAME: Final = 230


@dataclass(slots=True)
class _Written:
    """An event that was written."""

    event: Event
    resource: Resource
    namespace: str
    name: str
    message: str
    gap: float
    count: int = 1
    # The part of the count that is not written yet.
    behind: int = 0
    due: float = 0.0
    flush: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class _Texts:
    """When one reason had a new text on one object."""

    times: deque[float] = field(default_factory=deque)


class EventRecorder:
    """Writes core/v1 events."""

    def __init__(
        self,
        api: ApiCalls,
        index: ObjectIndex,
        component: str,
        clock: Clock,
        metrics: Metrics,
        fence: Fence,
        seconds: float,
    ) -> None:
        self._api, self._index, self._component = api, index, component
        self._clock, self._metrics = clock, metrics
        self._fence, self._seconds = fence, seconds
        self._nonce = secrets.token_hex(8)
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()
        self._texts: OrderedDict[tuple[str, ...], _Texts] = OrderedDict()

    async def write(self, event: Event, resource: Resource | None = None) -> None:
        """Raises KubernetesError when the event could not be written now.

        The resource is that of the object; without one, it follows from the event's kind.
        """
        if event.namespace in self._index.terminating:
            self._drop("namespace terminating")
            return
        try:
            await self._write(event, resource or self._resource(event))
        except NamespaceTerminatingError:
            self._metrics.count("terminating_namespaces", call="event")
            self._drop("namespace terminating")
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._drop("namespace gone")

    def _drop(self, cause: str) -> None:
        self._metrics.count("dropped_events", cause=cause)

    async def _write(self, event: Event, resource: Resource) -> None:
        key, message = self._key(event)
        known = self._written.get(key)
        if known is None:
            await self._create(key, event, resource, message)
            return
        self._written.move_to_end(key)
        known.count += 1
        known.behind += 1
        known.message = message
        self._metrics.count("repeated_events")
        wait = known.due - self._clock.now()
        if wait > 0:
            if known.flush is None:
                known.flush = asyncio.get_running_loop().create_task(
                    self._flush_later(key, known, wait)
                )
            return
        try:
            await self._bump(key, known)
        except KubernetesError:
            # The caller tries again, and that try is counted.
            known.count -= 1
            known.behind -= 1
            raise

    async def stop(self) -> None:
        tasks = [known.flush for known in self._written.values() if known.flush is not None]
        await end_tasks(*tasks)

    def _key(self, event: Event) -> tuple[tuple[str, ...], str]:
        """The key of an event, and the text it is written with."""
        message = event.message[:_LONGEST_TEXT]
        subject = (event.uid, event.reason, str(event.warning))
        key = (*subject, message)
        if key in self._written:
            return key, message
        texts = self._texts.setdefault(subject, _Texts())
        self._texts.move_to_end(subject)
        while len(self._texts) > _REMEMBERED:
            self._texts.popitem(last=False)
        now = self._clock.now()
        while texts.times and texts.times[0] < now - _TEXTS_SECONDS:
            texts.times.popleft()
        if len(texts.times) < _MOST_TEXTS:
            texts.times.append(now)
            return key, message
        combined = f"(combined from similar events): {message}"
        return (*subject, ""), combined[:_LONGEST_TEXT]

    async def _create(
        self, key: tuple[str, ...], event: Event, resource: Resource, message: str
    ) -> None:
        namespace = event.namespace or "default"
        # The same event gets the same name, so that a repeated call does not write it twice.
        digest = hashlib.blake2b("\0".join((self._nonce, *key)).encode(), digest_size=8)
        # Labels of a name must not end with a dash, wherever the name is cut.
        name = f"{event.name[:_LONGEST_NAME].rstrip('-.')}.{digest.hexdigest()}"
        body = self._body(event, resource, namespace, name, message)
        try:
            await self._api.call(
                "POST",
                EVENTS.path(namespace),
                _ENCODE(body),
                accept=METADATA_ONLY,
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        known = _Written(event, resource, namespace, name, message, _FIRST_GAP_SECONDS)
        known.due = self._clock.now() + known.gap
        self._written[key] = known
        while len(self._written) > _REMEMBERED:
            _, oldest = self._written.popitem(last=False)
            if oldest.flush is not None:
                oldest.flush.cancel()
                self._drop("count forgotten")

    async def _bump(self, key: tuple[str, ...], event: _Written) -> None:
        now = shown_time(self._clock.unix_ms() * 1_000_000)
        patch = {"count": event.count, "lastTimestamp": now, "message": event.message}
        try:
            await self._api.call(
                "PATCH",
                EVENTS.path(event.namespace, event.name),
                _ENCODE(patch),
                content_type=MERGE,
                accept=METADATA_ONLY,
                seconds=self._seconds,
                fence=self._fence,
            )
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            # Events live for an hour; this one is created again.
            self._written.pop(key, None)
            await self._create(key, event.event, event.resource, event.message)
            return
        event.behind = 0
        event.gap = min(event.gap * 2, _LONGEST_GAP_SECONDS)
        event.due = self._clock.now() + event.gap

    async def _flush_later(self, key: tuple[str, ...], event: _Written, wait: float) -> None:
        for _ in range(_COUNT_TRIES):
            await self._clock.sleep(wait)
            try:
                await self._bump(key, event)
                break
            except KubernetesError as error:
                log.info("count of event %s not written: %s", event.name, one_line(error))
                wait = event.gap = min(event.gap * 2, _LONGEST_GAP_SECONDS)
                if isinstance(error, ApiError) and not error.is_transient:
                    self._drop("refused")
                    break
        else:
            self._drop("given up")
        event.flush = None

    def _body(
        self, event: Event, resource: Resource, namespace: str, name: str, message: str
    ) -> dict[str, Any]:
        now = shown_time(self._clock.unix_ms() * 1_000_000)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": name},
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.name,
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }

    def _resource(self, event: Event) -> Resource:
        placed = self._index.resources.get(event.uid)
        return placed if placed is not None else resources_of(event.kind)[0]

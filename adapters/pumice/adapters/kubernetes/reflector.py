"""A reflector: lists one resource in pages, watches it, and keeps a store the same as it.

It behaves like client-go's reflector. A watch that ends is opened again at the version it has
reached. An error that says that the version is not available, or an ERROR event of any code, leads
to a new list, after a delay that grows while lists follow each other. The reflector does not
interpret objects; what is specific to a resource is in the `Source` and the `Store`.
"""

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import aiohttp
import msgspec

from pumice.adapters.kubernetes.errors import (
    EXPIRED,
    NOT_FOUND,
    THROTTLED,
    ApiError,
    KubernetesError,
    LostAnswerError,
    MissingRightsError,
    one_line,
)
from pumice.adapters.kubernetes.object_head import HEAD, UNREADABLE, Head
from pumice.adapters.kubernetes.refusals import failure
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.responses import ERROR_OBJECT, PAGE, WATCH_EVENT, Page, WatchEvent
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    ApiSession,
)
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
# How long one watch runs before the server ends it, at least and at most.
_WATCH_SECONDS: Final = (300, 600)
# Bookmarks come about once a minute; a connection that is silent for longer may be dead.
_QUIET_SECONDS: Final = 150.0
_LONGEST_LINE: Final = 64 << 20
# Delays between lists that follow each other. A list after a watch of _STEADY_SECONDS gets the
# first delay again.
_LIST_BACKOFF: Final = Backoff(1.0, 30.0)
_STEADY_SECONDS: Final = 120.0
# Delays after watches that end within _SHORT_SECONDS.
_WATCH_BACKOFF: Final = Backoff(0.5, 10.0)
_SHORT_SECONDS: Final = 1.0
# After so many watches in a row that were refused or stayed silent, the resource is listed again.
# A watch of a server that cannot be reached, or is busy, does not count.
_FRUITLESS_WATCHES: Final = 3
# A resource without an open watch for so long is stale.
_STALE_SECONDS: Final = 60.0
_LONGEST_PROBLEM: Final = 200
# The pause between two reads of a watch, as a share of the duration of a call, and its limits. After a
# larger read there is no pause: more events wait already, and a watch that is read too slowly is ended.
_PAUSE_SHARE: Final = 0.25
_SHORTEST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.025
_PAUSE_BYTES: Final = 32 << 10


class Store(Protocol):
    """Receives the objects of one resource."""

    def begin_list(self) -> None:
        """A new list begins: objects that are not in it are deleted at its end."""
        ...

    def upsert(self, head: Head, raw: msgspec.Raw) -> None: ...

    def end_list(self, version: str) -> None:
        """The list has ended, and shows the resource as of this version; "": it is missing."""
        ...

    def delete(self, head: Head) -> None: ...

    async def wait_for_space(self) -> None:
        """Called between chunks; waits while the consumers of the store are behind."""
        ...


class Discovery(Protocol):
    """Knows whether the API server serves a resource."""

    async def wait_for(self, source: Source, misses: int) -> None:
        """Returns when a missing resource should be listed again."""
        ...

    def is_absent(self, source: Source) -> bool:
        """Whether the server refuses a list only because it does not have the resource."""
        ...


class _RelistNeeded(Exception):  # noqa: N818 - control flow, not an error
    """The watch cannot go on from the version it has reached."""


class Reflector:
    """Keeps a store the same as a resource of the API server."""

    def __init__(
        self,
        source: Source,
        store: Store,
        api: ApiSession,
        discovery: Discovery,
        retries: RetryPolicy,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        *,
        namespace: str = "",
        metadata_only: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> None:
        # Set once the store has the first list, or once the resource is known to be missing.
        self.listed = asyncio.Event()
        # Set while the API server has the resource.
        self.found = asyncio.Event()
        self._source, self._store, self._api = source, store, api
        self._discovery, self._retries = discovery, retries
        self._clock, self._rng, self._metrics = clock, rng, metrics
        self._path = source.resource.path(namespace)
        self._list_accept = METADATA_LIST if metadata_only else JSON
        self._watch_accept = METADATA_ONLY if metadata_only else JSON
        self._page_size = page_size
        self._version = ""
        self._label = source.resource.full_name
        self._is_watching = False
        self._fruitless = 0
        # Why the last list or watch failed; "" after one that did not.
        self._problem = ""
        # When the store was last known to follow the server.
        self._followed_at = clock.now()

    @property
    def resource(self) -> Resource:
        return self._source.resource

    def why_stale(self) -> str:
        """Why the store may be out of date; "" when it follows the server."""
        because = f" ({self._problem})" if self._problem else ""
        if not self.listed.is_set():
            return f"not listed yet{because}"
        if self._is_watching or not self.found.is_set():
            return ""
        seconds = self._clock.now() - self._followed_at
        return f"not watched for {seconds:.0f} s{because}" if seconds > _STALE_SECONDS else ""

    async def run(self) -> None:
        """Lists and watches until it is cancelled."""
        lists_in_a_row = 0
        page_size = self._page_size
        while True:
            began = self._clock.now()
            try:
                await self._list_when_found(page_size)
            except ApiError as error:
                if error.status == EXPIRED:
                    # The page token has expired: the next list has one page.
                    self._metrics.count("expired_lists", resource=self._label)
                    page_size = 0
                else:
                    log.error("list of %s: %s", self._source.shown, one_line(error))
            else:
                page_size = self._page_size
                await self._watch()
            steady = self._clock.now() - began >= _STEADY_SECONDS
            lists_in_a_row = 1 if steady else lists_in_a_row + 1
            await self._clock.sleep(_LIST_BACKOFF.delay(lists_in_a_row, self._rng))

    async def _list_when_found(self, page_size: int) -> None:
        """Lists the resource, once the API server has it."""
        misses = 0
        while True:
            try:
                await self._list(page_size)
                break
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
            if not misses:
                log.info("the cluster has no %s; waiting for it to appear", self._source.shown)
            self.found.clear()
            self._store.begin_list()
            self._store.end_list("")
            self.listed.set()
            await self._discovery.wait_for(self._source, misses)
            misses += 1
        if misses:
            log.info("the cluster has %s now", self._source.shown)
        self.found.set()
        self.listed.set()

    # The list.

    async def _list(self, page_size: int) -> None:
        began = self._clock.now()
        self._store.begin_list()
        token = ""
        while True:
            page = await self._page(page_size, token)
            for raw in page.items or ():
                self._upsert(raw)
            await self._store.wait_for_space()
            if not page.metadata.continue_:
                break
            if page.metadata.continue_ == token:
                raise ApiError(EXPIRED, "Expired", "the server repeats a page token")
            token = page.metadata.continue_
        self._version = page.metadata.resource_version
        self._store.end_list(self._version)
        self._followed_at = self._clock.now()
        self._metrics.count("lists", resource=self._label)
        self._metrics.observe(
            "list_duration_seconds", self._followed_at - began, resource=self._label
        )

    async def _page(self, size: int, token: str) -> Page:
        query = self._query()
        if size:
            query["limit"] = str(size)
        if token:
            query["continue"] = token
        async for attempt in self._retries.retrying(f"list of {self._source.shown}"):
            with attempt, self._noting_problem():
                return await self._page_once(query)
        raise AssertionError("retries end with a result or an error")

    async def _page_once(self, query: dict[str, str]) -> Page:
        try:
            body = await self._api.page(self._path, query, self._list_accept)
            page = PAGE.decode(body)
        except MissingRightsError as error:
            # The server checks rights first, so it refuses resources that it does not have.
            if self._discovery.is_absent(self._source):
                raise ApiError(NOT_FOUND, "NotFound", str(error)) from error
            raise
        except UNREADABLE as error:
            raise LostAnswerError(f"the answer is not a list: {error}") from error
        if not page.kind.endswith("List") or not page.metadata.resource_version:
            # An empty list deletes all objects, so no other response may be read as one.
            raise LostAnswerError(f"the answer is not a list: its kind is {page.kind[:80]!r}")
        return page

    def _upsert(self, raw: msgspec.Raw) -> Head | None:
        try:
            head = HEAD.decode(raw)
        except UNREADABLE as error:
            self._metrics.count("malformed_objects")
            log.error("an object of %s was ignored: %s", self._source.shown, error)
            return None
        self._store.upsert(head, raw)
        return head

    @contextmanager
    def _noting_problem(self) -> Iterator[None]:
        """Notes why a list or watch fails, for the health of the adapter."""
        try:
            yield
        except KubernetesError as error:
            self._problem = one_line(error)[:_LONGEST_PROBLEM]
            raise
        self._problem = ""

    def _query(self) -> dict[str, str]:
        selectors = {
            "fieldSelector": self._source.field_selector,
            "labelSelector": self._source.label_selector,
        }
        return {name: text for name, text in selectors.items() if text}

    # The watch.

    async def _watch(self) -> None:
        """Watches until a new list is needed."""
        short = self._fruitless = 0
        while True:
            began = self._clock.now()
            try:
                async for attempt in self._retries.retrying(f"watch of {self._source.shown}"):
                    with attempt, self._noting_problem():
                        await self._watch_once()
            except (KubernetesError, _RelistNeeded) as error:
                log.info("watch of %s: %s; listing again", self._source.shown, one_line(error))
                self._metrics.count("relists", resource=self._label)
                return
            if self._clock.now() - began >= _SHORT_SECONDS:
                short = 0
            else:
                short += 1
                await self._clock.sleep(_WATCH_BACKOFF.delay(short, self._rng))

    async def _watch_once(self) -> None:
        seconds = self._rng.randint(*_WATCH_SECONDS)
        query = {
            **self._query(),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        first = self._version
        limit = min(_QUIET_SECONDS, seconds)
        self._metrics.count("watches", resource=self._label)
        began = self._clock.now()
        try:
            async with self._api.stream(
                self._path, query, seconds + 30.0, limit, self._watch_accept
            ) as content:
                self._is_watching = True
                await self._read(content)
        except KubernetesError as error:
            code = str(error.status) if isinstance(error, ApiError) else "none"
            self._metrics.count("watch_failures", resource=self._label, code=code)
            if isinstance(error, ApiError) and error.status != THROTTLED:
                self._give_up_version_after_some(error)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if self._version == first:
                if isinstance(error, TimeoutError):
                    self._give_up_version_after_some(error)
                raise LostAnswerError(f"the watch broke: {one_line(error)}") from error
            # It made progress, so the next one may begin without a delay.
            log.info("watch of %s broke: %s", self._source.shown, one_line(error))
        finally:
            if self._is_watching:
                self._followed_at = self._clock.now()
                self._is_watching = False
            self._metrics.observe(
                "watch_duration_seconds", self._clock.now() - began, resource=self._label
            )

    def _give_up_version_after_some(self, error: Exception) -> None:
        self._fruitless += 1
        if self._fruitless >= _FRUITLESS_WATCHES:
            raise _RelistNeeded(one_line(error)) from error

    async def _read(self, content: aiohttp.StreamReader) -> None:
        rest = b""
        async for chunk in content.iter_any():
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_LINE:
                raise _RelistNeeded(f"a line is longer than {_LONGEST_LINE} bytes")
            for line in lines:
                if line:
                    self._handle_line(line)
            await self._store.wait_for_space()
            if len(chunk) < _PAUSE_BYTES:
                await self._pause()

    async def _pause(self) -> None:
        """Lets more events arrive while calls are slow: several events at once cost less CPU time.

        A change waits for a part of the time that the answer to it takes at present.
        """
        seconds = self._api.durations.mean * _PAUSE_SHARE
        if seconds >= _SHORTEST_PAUSE_SECONDS:
            await self._clock.sleep(min(seconds, _LONGEST_PAUSE_SECONDS))

    def _handle_line(self, line: bytes) -> None:
        try:
            event = WATCH_EVENT.decode(line)
            head = self._apply(event)
        except UNREADABLE as error:
            # The next watch would begin with the same line.
            raise _RelistNeeded(f"a watch event cannot be read: {error}") from error
        self._fruitless = 0
        if head is not None and head.metadata.resource_version:
            self._version = head.metadata.resource_version

    def _apply(self, event: WatchEvent) -> Head | None:
        match event.type:
            case "ADDED" | "MODIFIED":
                return self._upsert(event.object)
            case "DELETED":
                head = HEAD.decode(event.object)
                self._store.delete(head)
                return head
            case "BOOKMARK":
                self._metrics.count("bookmarks", resource=self._label)
                return HEAD.decode(event.object)
            case "ERROR":
                error = failure(ERROR_OBJECT.decode(event.object).code, bytes(event.object))
                self._metrics.count("watch_failures", resource=self._label, code=str(error.status))
                raise _RelistNeeded(one_line(error))
            case _:
                return None

"""One resource, listed in pages and then watched, for as long as the adapter lives."""

import asyncio
import logging
import random
from typing import Final, Protocol

import aiohttp
import msgspec

from pumice.adapters.kubernetes.errors import (
    EXPIRED,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    LostAnswerError,
    MissingRightsError,
    one_line,
)
from pumice.adapters.kubernetes.patience import Patience
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import (
    JSON,
    METADATA_LIST,
    METADATA_ONLY,
    ApiSession,
    failure,
)
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
# How long one watch runs before the server ends it, at least and at most.
_WATCH_SECONDS: Final = (300, 600)
# Bookmarks come about once a minute; a connection that is silent for longer may be dead.
_QUIET_SECONDS: Final = 150.0
_LONGEST_LINE: Final = 64 << 20
# A watch that ends sooner than this is not begun again at once.
_SHORT_SECONDS: Final = 1.0


class Owner(msgspec.Struct, gc=False):
    """Whom an object belongs to."""

    name: str = ""


class HeadMetadata(msgspec.Struct, rename="camel", gc=False):
    """What names an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[Owner] = []


class Head(msgspec.Struct, gc=False):
    """As much of an object as the watch itself needs."""

    metadata: HeadMetadata = msgspec.field(default_factory=HeadMetadata)


class _Listing(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Listing = msgspec.field(default_factory=_Listing)
    items: list[msgspec.Raw] | None = None


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Refusal(msgspec.Struct):
    code: int = 500


_HEAD: Final = msgspec.json.Decoder(Head)
_PAGE: Final = msgspec.json.Decoder(_Page)
_CHANGE: Final = msgspec.json.Decoder(_Change)
_REFUSAL: Final = msgspec.json.Decoder(_Refusal)


class Sink(Protocol):
    """Where objects go."""

    def begin(self) -> None:
        """A new list: what is not in it is gone at its end."""
        ...

    def put(self, head: Head, raw: msgspec.Raw) -> None: ...

    def end(self) -> None: ...

    def drop(self, head: Head) -> None: ...

    async def breathe(self) -> None:
        """Called now and then; waits while those behind are not done with what came before."""
        ...


class Appearance(Protocol):
    """Knows when a resource that is missing may be there."""

    async def appears(self, source: Source, misses: int) -> None: ...

    def is_absent(self, source: Source) -> bool:
        """Whether a refusal means no more than that there is no such resource."""
        ...


class Reflector:
    """Keeps a sink the same as a resource of the API server."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        api: ApiSession,
        appearance: Appearance,
        patience: Patience,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        *,
        namespace: str = "",
        metadata_only: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> None:
        # Set once the sink has all there was, or once it is known that there is no such resource.
        self.listed = asyncio.Event()
        # Set while there is such a resource.
        self.found = asyncio.Event()
        self._source, self._sink, self._api = source, sink, api
        self._appearance, self._patience = appearance, patience
        self._clock, self._rng, self._metrics = clock, rng, metrics
        self._path = source.resource.path(namespace)
        self._list_accept = METADATA_LIST if metadata_only else JSON
        self._watch_accept = METADATA_ONLY if metadata_only else JSON
        self._page_size = page_size
        self._version = ""
        self._label = source.resource.full_name

    @property
    def resource(self) -> Resource:
        return self._source.resource

    async def run(self) -> None:
        misses = 0
        while True:
            try:
                await self._list()
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
                self._miss(misses)
                await self._appearance.appears(self._source, misses)
                misses += 1
                continue
            if misses:
                log.info("%s is there now", self._source.shown)
            misses = 0
            self.found.set()
            self.listed.set()
            await self._watch()

    def _miss(self, misses: int) -> None:
        if not misses:
            log.info("the cluster has no %s; waiting for it to appear", self._source.shown)
        self.found.clear()
        self._sink.begin()
        self._sink.end()
        self.listed.set()

    # The list.

    async def _list(self) -> None:
        size = self._page_size
        while True:
            try:
                await self._list_pages(size)
            except ApiError as error:
                if error.status != EXPIRED:
                    raise
                # The list took longer than the server remembers: the next one is in one piece.
                self._metrics.count("expired_lists", resource=self._label)
                size = 0
            else:
                self._metrics.count("lists", resource=self._label)
                return

    async def _list_pages(self, size: int) -> None:
        self._sink.begin()
        token = ""
        while True:
            page = await self._page(size, token)
            for raw in page.items or ():
                self._put(raw)
            await self._sink.breathe()
            token = page.metadata.continue_
            if not token:
                break
        self._sink.end()
        self._version = page.metadata.resource_version

    async def _page(self, size: int, token: str) -> _Page:
        query = self._query()
        if size:
            query["limit"] = str(size)
        if token:
            query["continue"] = token
        async for attempt in self._patience.retrying(f"list of {self._source.shown}"):
            with attempt:
                return await self._page_once(query)
        raise AssertionError("retries end with a result or an error")

    async def _page_once(self, query: dict[str, str]) -> _Page:
        try:
            body = await self._api.page(self._path, query, self._list_accept)
            return _PAGE.decode(body)
        except MissingRightsError as error:
            # Rights are checked first, so what is not there is refused, too.
            if self._appearance.is_absent(self._source):
                raise ApiError(NOT_FOUND, "NotFound", str(error)) from error
            raise
        except msgspec.MsgspecError as error:
            raise LostAnswerError(f"a list that is not one: {error}") from error

    def _put(self, raw: msgspec.Raw) -> Head | None:
        try:
            head = _HEAD.decode(raw)
        except msgspec.MsgspecError as error:
            self._metrics.count("nonsense_objects")
            log.error("an object of %s was left out: %s", self._source.shown, error)
            return None
        self._sink.put(head, raw)
        return head

    def _query(self) -> dict[str, str]:
        selector = self._source.field_selector
        return {"fieldSelector": selector} if selector else {}

    # The watch.

    async def _watch(self) -> None:
        """Until a new list is needed."""
        while True:
            began = self._clock.now()
            try:
                async for attempt in self._patience.retrying(f"watch of {self._source.shown}"):
                    with attempt:
                        await self._watch_once()
            except ApiError as error:
                if error.status not in (EXPIRED, NOT_FOUND):
                    raise
                log.info("watch of %s: %s; listing anew", self._source.shown, one_line(error))
                self._metrics.count("relists", resource=self._label)
                return
            if self._clock.now() - began < _SHORT_SECONDS:
                await self._clock.sleep(_SHORT_SECONDS * (0.2 + self._rng.random() * 0.8))

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
        async with self._api.stream(
            self._path, query, seconds + 30.0, limit, self._watch_accept
        ) as content:
            try:
                await self._read(content)
            except KubernetesError:
                raise
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError) as error:
                if self._version == first:
                    raise LostAnswerError(f"the watch broke: {one_line(error)}") from error
                # It had worked until then, so the next one may begin without a penalty.
                log.info("watch of %s broke: %s", self._source.shown, one_line(error))

    async def _read(self, content: aiohttp.StreamReader) -> None:
        rest = b""
        async for chunk in content.iter_any():
            lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_LINE:
                raise LostAnswerError("a change that has no end")
            for line in lines:
                if line:
                    self._take(line)
            await self._sink.breathe()

    def _take(self, line: bytes) -> None:
        change = _CHANGE.decode(line)
        match change.type:
            case "ADDED" | "MODIFIED":
                head = self._put(change.object)
            case "DELETED":
                head = _HEAD.decode(change.object)
                self._sink.drop(head)
            case "BOOKMARK":
                head = _HEAD.decode(change.object)
                self._metrics.count("bookmarks", resource=self._label)
            case "ERROR":
                raise failure(_REFUSAL.decode(change.object).code, bytes(change.object))
            case _:
                return
        if head is not None and head.metadata.resource_version:
            self._version = head.metadata.resource_version

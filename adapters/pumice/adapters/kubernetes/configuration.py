"""Reads the scheduler configuration from a file or a ConfigMap, again after each change."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import (
    ConfigurationMissing,
    ConfigurationSeen,
    WorldEvent,
)
from pumice.v1.configuration_pb2 import Configuration

log = logging.getLogger(__name__)

CONFIG_MAPS: Final = Resource(KindNumber(0), "ConfigMap", "configmaps", namespaced=True)

Publish = Callable[[WorldEvent], None]


class ConfigurationFeed:
    """Publishes each new scheduler configuration, together with the settings from flags."""

    def __init__(self, base: Configuration, publish: Publish) -> None:
        # Set after the first configuration was read, or was found missing.
        self.is_known = asyncio.Event()
        self._base, self._publish = base, publish
        self._last: str | None = None

    def put(self, text: str, source: str) -> None:
        if text != self._last:
            self._last = text
            configuration = Configuration()
            configuration.CopyFrom(self._base)
            configuration.scheduler_conf = text
            self._publish(ConfigurationSeen(configuration, source))
        self.is_known.set()

    def put_missing(self, source: str, problem: str) -> None:
        self._last = None
        self._publish(ConfigurationMissing(self._base, source, problem))
        self.is_known.set()


class ConfigurationFile:
    """Polls a file. It follows symbolic links, which mounted ConfigMaps use."""

    def __init__(
        self, path: Path, feed: ConfigurationFeed, clock: Clock, poll_seconds: float
    ) -> None:
        self._path, self._feed = path, feed
        self._clock, self._poll_seconds = clock, poll_seconds
        self._version: tuple[int, int, int] | None = None

    def read(self) -> None:
        """Reads the file for the first time. Raises NoAccessError."""
        try:
            self._version = self._read_version()
            self._feed.put(self._path.read_text(encoding="utf-8"), self._source)
        except (OSError, UnicodeDecodeError) as error:
            raise NoAccessError(f"the scheduler configuration cannot be read: {error}") from error

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._poll_seconds)
            try:
                version = self._read_version()
                if version == self._version:
                    continue
                text = self._path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                if self._version is not None:
                    log.error("%s: %s; the last configuration stays in use", self._path, error)
                self._version = None
                continue
            self._version = version
            self._feed.put(text, self._source)

    @property
    def _source(self) -> str:
        return f"file {self._path}"

    def _read_version(self) -> tuple[int, int, int]:
        stat = self._path.stat()
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


_DATA: Final = msgspec.json.Decoder(_Data)


class ConfigMapStore:
    """Receives one key of one ConfigMap from a reflector."""

    def __init__(
        self,
        key: ConfigMapKey,
        on_text: Callable[[str], None],
        on_invalid: Callable[[str], None],
        on_missing: Callable[[], None],
        on_seen: Callable[[Head], None] = lambda _: None,
    ) -> None:
        self._key, self._on_seen = key, on_seen
        # They get the text of the key, why the ConfigMap has none, or that there is no ConfigMap.
        self._on_text, self._on_invalid, self._on_missing = on_text, on_invalid, on_missing
        self._is_present = False

    @property
    def source(self) -> Source:
        return Source(CONFIG_MAPS, f"metadata.name={self._key.name}")

    def begin_list(self) -> None:
        self._is_present = False

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        if not self._is_selected(head):
            return
        self._is_present = True
        self._on_seen(head)
        try:
            text = _DATA.decode(raw).data.get(self._key.key)
        except msgspec.MsgspecError as error:
            self._on_invalid(f"{self._key} cannot be read: {error}")
            return
        if text is None:
            self._on_invalid(f"{self._key} does not exist")
        else:
            self._on_text(text)

    def end_list(self, version: str) -> None:
        if not self._is_present:
            self._on_missing()

    def delete(self, head: Head) -> None:
        if self._is_selected(head):
            self._on_missing()

    def _is_selected(self, head: Head) -> bool:
        where = (head.metadata.namespace, head.metadata.name)
        return where == (self._key.namespace, self._key.name)

    async def wait_for_space(self) -> None:
        """Does nothing, because there is at most one object."""


def configuration_store(
    key: ConfigMapKey, feed: ConfigurationFeed, on_seen: Callable[[Head], None]
) -> ConfigMapStore:
    """A store that puts the scheduler configuration of a ConfigMap into a feed."""
    source = str(key)
    missing = f"ConfigMap {key.namespace}/{key.name} does not exist"
    return ConfigMapStore(
        key,
        lambda text: feed.put(text, source),
        lambda problem: feed.put_missing(source, problem),
        lambda: feed.put_missing(source, missing),
        on_seen,
    )

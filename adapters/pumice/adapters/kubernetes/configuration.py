"""The scheduler's configuration, from a file or a ConfigMap, told anew whenever it changes."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.adapters.kubernetes.reflector import Head
from pumice.adapters.kubernetes.resources import Resource
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ConfigurationSeen
from pumice.v1.configuration_pb2 import Configuration

log = logging.getLogger(__name__)

_CONFIG_MAPS: Final = Resource(KindNumber(0), "ConfigMap", "configmaps", namespaced=True)

Tell = Callable[[ConfigurationSeen], None]


class Teller:
    """Puts a text into the rest of the configuration and tells it, if it is another one."""

    def __init__(self, rest: Configuration, tell: Tell) -> None:
        self.told = asyncio.Event()
        self._rest, self._tell = rest, tell
        self._last: str | None = None

    def say(self, text: str) -> None:
        if text == self._last:
            return
        self._last = text
        configuration = Configuration()
        configuration.CopyFrom(self._rest)
        configuration.scheduler_conf = text
        self._tell(ConfigurationSeen(configuration))
        self.told.set()


class ConfigurationFile:
    """A file, looked at now and then; through symbolic links, as ConfigMaps are mounted."""

    def __init__(self, path: Path, teller: Teller, clock: Clock, poll_seconds: float) -> None:
        self._path, self._teller = path, teller
        self._clock, self._poll_seconds = clock, poll_seconds
        self._mark: tuple[int, int, int] | None = None

    def read(self) -> None:
        """The first time. Raises NoAccessError."""
        try:
            self._mark = self._marked()
            self._teller.say(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise NoAccessError(f"the scheduler configuration cannot be read: {error}") from error

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._poll_seconds)
            try:
                mark = self._marked()
                if mark == self._mark:
                    continue
                text = self._path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                if self._mark is not None:
                    log.error("%s: %s; the last configuration stays", self._path, error)
                self._mark = None
                continue
            self._mark = mark
            log.info("the configuration was read from %s again", self._path)
            self._teller.say(text)

    def _marked(self) -> tuple[int, int, int]:
        stat = self._path.stat()
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


_DATA: Final = msgspec.json.Decoder(_Data)


class ConfigMapSink:
    """Takes one ConfigMap from a watch."""

    def __init__(self, key: ConfigMapKey, teller: Teller) -> None:
        self._key, self._teller = key, teller
        self._is_there = False

    @property
    def source(self) -> Source:
        return Source(_CONFIG_MAPS, f"metadata.name={self._key.name}")

    def begin_list(self) -> None:
        self._is_there = False

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        if head.metadata.name != self._key.name:
            return
        self._is_there = True
        try:
            text = _DATA.decode(raw).data.get(self._key.key)
        except msgspec.MsgspecError as error:
            log.error("the ConfigMap %s cannot be read: %s", self._key.name, error)
            return
        if text is None:
            log.error("the ConfigMap %s has no key %s", self._key.name, self._key.key)
            return
        self._teller.say(text)

    def end_list(self) -> None:
        if not self._is_there:
            self._miss()

    def delete(self, head: Head) -> None:
        if head.metadata.name == self._key.name:
            self._miss()

    async def wait_for_space(self) -> None:
        """There is one object at most."""

    def _miss(self) -> None:
        where = f"{self._key.namespace}/{self._key.name}"
        log.warning("there is no ConfigMap %s; the last configuration stays", where)
        if not self._teller.told.is_set():
            # A cluster without one is scheduled by the built-in default.
            self._teller.say("")

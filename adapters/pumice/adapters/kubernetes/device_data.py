"""Watches the ConfigMaps that the plugin deviceshare needs, and publishes their data."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pumice.adapters.kubernetes.configuration import ConfigMapStore
from pumice.adapters.kubernetes.device_settings import (
    PLUGIN,
    DeviceConfigError,
    DeviceSettings,
    check_config,
    device_settings,
)
from pumice.adapters.kubernetes.npu_info import NpuInfoStore
from pumice.adapters.kubernetes.options import ConfigMapKey
from pumice.adapters.kubernetes.reflector import Reflector, Store
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.runtime.clock import Clock, end_tasks, within
from pumice.adapters.runtime.world import ConfigurationSeen, DataSeen, WorldEvent
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.delta_pb2 import PluginData

log = logging.getLogger(__name__)

# Time that the start of the adapter waits for data about devices.
_LONGEST_SECONDS: Final = 10.0

Publish = Callable[[WorldEvent], None]
# Makes a reflector of a source, a store and a namespace.
MakeReflector = Callable[[Source, Store, str], Reflector]


class DeviceDataWatcher:
    """Watches the ConfigMaps that the current scheduler configuration needs.

    It publishes each scheduler configuration together with its device configuration.
    """

    def __init__(self, make: MakeReflector, publish: Publish, clock: Clock) -> None:
        # Set when all needed ConfigMaps were read, or cannot be read.
        self.is_known = asyncio.Event()
        self._make, self._publish, self._clock = make, publish, clock
        self._settings = DeviceSettings()
        self._changed = asyncio.Event()
        self._last: ConfigurationSeen | None = None
        self._text = ""

    def handle(self, event: ConfigurationSeen) -> None:
        """Publishes a scheduler configuration as soon as its device configuration is known."""
        self._last = event
        settings = device_settings(event.configuration.scheduler_conf)
        if settings != self._settings:
            if settings.config_map != self._settings.config_map:
                self._text = ""
            self._settings = settings
            self.is_known.clear()
            self._changed.set()
        if self.is_known.is_set() or settings.config_map is None:
            self._publish_configuration()

    def _check_device_config(self, key: ConfigMapKey, text: str) -> None:
        try:
            check_config(text)
        except DeviceConfigError as error:
            self._keep_device_config(f"{key}: {error}")
        else:
            self._set_device_config(text)

    def _keep_device_config(self, problem: str) -> None:
        log.error("%s; the device configuration stays unchanged", problem)

    def _set_device_config(self, text: str) -> None:
        """Publishes the device configuration; "": the core uses its default."""
        if text != self._text:
            self._text = text
            if self.is_known.is_set():
                self._publish_configuration()

    def _publish_configuration(self) -> None:
        if self._last is not None:
            configuration = Configuration()
            configuration.CopyFrom(self._last.configuration)
            configuration.device_config = self._text
            self._publish(ConfigurationSeen(configuration, self._last.source))

    async def run(self) -> None:
        while True:
            self._changed.clear()
            watching = asyncio.ensure_future(self._watch(self._settings))
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({watching, changed}, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
                await changed
            finally:
                await end_tasks(watching, changed)

    async def _watch(self, settings: DeviceSettings) -> None:
        reflectors = []
        if settings.config_map is not None:
            key = settings.config_map
            store = ConfigMapStore(
                key,
                partial(self._check_device_config, key),
                self._keep_device_config,
                lambda: self._set_device_config(""),
            )
            reflectors.append(self._make(store.source, store, key.namespace))
        if settings.npus is not None:
            npus = NpuInfoStore(self._publish_npus)
            reflectors.append(self._make(settings.npus.source, npus, settings.npus.namespace))
        running = (reflector.run() for reflector in reflectors)
        await asyncio.gather(self._note_listed(reflectors, settings), *running)

    async def _note_listed(self, reflectors: Sequence[Reflector], settings: DeviceSettings) -> None:
        """Waits until the ConfigMaps were listed, up to a limit, as Volcano does."""
        for reflector in reflectors:
            try:
                await within(self._clock, _LONGEST_SECONDS, reflector.listed.wait())
            except TimeoutError:
                problem = "data about devices cannot be read: %s; the built-in data is used"
                log.error(problem, reflector.why_stale())
        if settings.config_map is not None:
            self._publish_configuration()
        self.is_known.set()

    def _publish_npus(self, node: str, texts: dict[str, str]) -> None:
        data = PluginData(plugin=PLUGIN, name=f"npu/{node}", texts=texts)
        self._publish(DataSeen(data))

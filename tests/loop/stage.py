"""A real core and the real runtime in one process, over real sockets, each of which may die."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pumice.adapters.runtime.clock import Backoff, end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.world import World
from pumice.server.core_environment import CoreEnvironment
from pumice.server.limits import Limits
from pumice.server.recording.files import RecordingOptions
from pumice.server.server import CoreServer, ServerOptions
from pumice.v1.delta_pb2 import KindDigest
from tests.loop.proxy import ServedWire, Wire

CLUSTER = "loop"
# Only for a test that fails: everything here takes moments.
_LONGEST_SECONDS = 60.0


async def until(happened: Callable[[], object], what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _LONGEST_SECONDS
    while not happened():
        assert loop.time() < end, f"still not so after {_LONGEST_SECONDS:g} s: {what}"
        await asyncio.sleep(0.005)


def quick(**settings: Any) -> RuntimeOptions:
    """An adapter that does not wait long before it tries again."""
    options: dict[str, Any] = {
        "flush_seconds": 0.001,
        "reconnect": Backoff(0.005, 0.05),
        "apply_backoff": Backoff(0.005, 0.05),
        "resync_backoff": Backoff(0.005, 0.05),
        "status_backoff": Backoff(0.005, 0.05),
        **settings,
    }
    return RuntimeOptions(CLUSTER, "adapter", **options)


class LiveCore:
    """One life of a core."""

    def __init__(
        self, address: str, limits: Limits, recording: RecordingOptions | None = None
    ) -> None:
        self.env = CoreEnvironment(limits=limits, recording=recording)
        self._server = CoreServer(ServerOptions(address, env=self.env))

    async def start(self) -> None:
        await self._server.start()

    async def crash(self) -> None:
        """Ends it without a word to anybody."""
        server = self._server._server
        assert server is not None
        await server.stop(None)
        await self._server._clusters.stop()

    def metric(self, name: str) -> float:
        value = self.env.metrics.registry.get_sample_value(name, {"cluster": CLUSTER})
        return value or 0.0

    async def digests(self) -> list[KindDigest]:
        cluster = self._server._clusters.of(CLUSTER)
        return await cluster.owner.call(lambda served: served.state.sums.write())


class Stage:
    """A core behind a wire, and adapters that come and go."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        recording: RecordingOptions | None = None,
    ) -> None:
        self._recording = recording
        self._address = f"unix:{folder}/core.sock"
        self._limits = limits or Limits()
        self._wire = ServedWire(self._address, f"unix:{folder}/wire.sock")
        self._tasks: list[asyncio.Task[None]] = []
        self.open_channel = channel_factory(self._wire.address)
        self.cores: list[LiveCore] = []

    @property
    def core(self) -> LiveCore:
        return self.cores[-1]

    @property
    def wire(self) -> Wire:
        return self._wire.wire

    async def start_core(self) -> LiveCore:
        self.cores.append(LiveCore(self._address, self._limits, self._recording))
        await self.core.start()
        return self.core

    def start_adapter(self, world: World, **settings: Any) -> AdapterRuntime:
        runtime = AdapterRuntime(world, self.open_channel, quick(**settings))
        self._tasks.append(asyncio.create_task(runtime.run()))
        return runtime

    def metric(self, name: str) -> float:
        """Over all lives of the core."""
        return sum(core.metric(name) for core in self.cores)

    async def agrees_with(self, runtime: AdapterRuntime) -> bool:
        """Whether core and adapter hold the same, when nothing is under way."""
        await until(lambda: runtime.is_idle, "the adapter has nothing left to do")
        return await self.core.digests() == runtime._outbox.digests()

    async def __aenter__(self) -> "Stage":
        await self._wire.__aenter__()
        await self.start_core()
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._tasks)
        await self._wire.__aexit__()
        await self.core.crash()
        # Streams that ended in the middle of something complain when they are collected; here,
        # not in somebody else's test.
        gc.collect()

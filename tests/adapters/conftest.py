"""A fake core on a socket, and adapters that talk to it."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pumice.adapters.runtime.clock import Backoff, end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.adapters.runtime.epochs import Epochs
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from tests.adapters.fake_core import FakeCore, running_core
from tests.adapters.fake_world import FakeWorld


class Stage:
    """A core, and as many adapters as a test starts."""

    def __init__(self, core: FakeCore, address: str) -> None:
        self.core = core
        self.address = address
        self.world = FakeWorld()
        self._numbers = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []

    def adapter(self, epochs: Epochs | None = None, **options: Any) -> AdapterRuntime:
        settings: dict[str, Any] = {
            "flush_seconds": 0.0,
            "reconnect": Backoff(0.001, 0.002),
            "refusal_backoff": Backoff(0.001, 0.002),
            "apply_backoff": Backoff(0.001, 0.002),
            "resync_backoff": Backoff(0.001, 0.002),
            "drain_timeout_seconds": 0.2,
            **options,
        }
        return AdapterRuntime(
            self.world,
            channel_factory(self.address),
            RuntimeOptions("cluster", "adapter", **settings),
            epochs=epochs,
            new_incarnation=lambda: f"life-{next(self._numbers)}",
        )

    def start(self, adapter: AdapterRuntime) -> "asyncio.Task[None]":
        task = asyncio.create_task(adapter.run())
        self._tasks.append(task)
        return task

    async def close(self) -> None:
        await end_tasks(*self._tasks)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    # Paths of sockets are short; pytest's own folders are not.
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            made = Stage(core, address)
            try:
                yield made
            finally:
                await made.close()

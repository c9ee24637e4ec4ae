"""A core whose sessions last as long as a test wants them to."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from pumice.core.configuration import Arguments, PluginOptions
from pumice.core.registry import Registry
from pumice.core.session.session import Session
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    node,
    queue,
    running_core,
)

WAITING = configuration(
    'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: waiting\n'
)


class Hold:
    """Keeps sessions from going on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()


@asynccontextmanager
async def holding_core(socket_folder: Path, hold: Hold) -> AsyncIterator[RunningCore]:
    """A core with a plugin, named ``waiting``, that keeps its sessions."""

    class WaitingPlugin:
        """A session takes as long as the test wants it to."""

        name: ClassVar[str] = "waiting"
        api: ClassVar[int] = 1
        arguments: ClassVar[type[Arguments]] = Arguments

        def __init__(self, options: PluginOptions) -> None:
            pass

        def open(self, session: Session) -> None:
            if not hold.let_go.is_set():
                hold.reached.set()
                hold.let_go.wait(30)

    async with running_core(socket_folder, registry=Registry([WaitingPlugin])) as running:
        yield running
        hold.let_go.set()


async def hold_a_session(
    core: RunningCore, hold: Hold, adapter: ScriptedAdapter, *changes: Any
) -> None:
    """Makes a session begin and not end."""
    hold.let_go.clear()
    await adapter.tell(*changes)
    core.clock.advance(1)
    assert await asyncio.to_thread(hold.reached.wait, 30)


async def in_a_session(core: RunningCore, hold: Hold, *changes: Any) -> int:
    """Holds a session after one that bound a job; returns the op that it is based on."""
    adapter = await core.served([queue(), node("n1"), *gang("job", 2)], WAITING)
    await adapter.decisions()
    await hold_a_session(core, hold, adapter, *changes)
    return adapter.seq

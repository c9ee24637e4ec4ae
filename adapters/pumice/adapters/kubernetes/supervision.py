"""Two processes as one: a core and its adapter over a Unix socket, started again when they end."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pumice.adapters.runtime.clock import Clock

log = logging.getLogger(__name__)

# Both are commands of the same program.
PROGRAM: Final = (sys.executable, "-c", "from pumice.cli.main import main; main()")
_GRACE_SECONDS: Final = 20.0
_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 30.0
# A process that ran for so long was well.
_WELL_SECONDS: Final = 60.0
BAD_INPUT: Final = 2
_TOKENS: Final = ("PUMICE_TOKEN", "PUMICE_TOKEN_FILE")


class Child:
    """One process that is kept running."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        clock: Clock,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._command, self._clock, self._environment = command, clock, environment
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> int:
        """Until it ends with bad input, which no new start changes; returns that code."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            began = self._clock.now()
            self._process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment
            )
            code = await self._process.wait()
            if code == BAD_INPUT:
                return code
            if self._clock.now() - began > _WELL_SECONDS:
                wait = _FIRST_WAIT_SECONDS
            log.error("the %s ended with code %d; again in %.1f s", self.name, code, wait)
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)

    async def stop(self) -> None:
        """Asks it to end, and insists after a while."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            log.error("the %s does not end; killing it", self.name)
            process.kill()
            await process.wait()


async def supervise(
    address: str, for_core: Sequence[str], for_adapter: Sequence[str], clock: Clock
) -> int:
    """Runs both until one of them cannot be, or until it is cancelled."""
    listen = ("core", "--listen", address, *for_core)
    core = Child("core", (*PROGRAM, *listen), clock)
    connect = ("adapter", "kubernetes", "--core", address, *for_adapter)
    # This core asks for no token; one in the environment is for another.
    environment = {name: text for name, text in os.environ.items() if name not in _TOKENS}
    adapter = Child("adapter", (*PROGRAM, *connect), clock, environment)
    tasks = [asyncio.create_task(child.run()) for child in (core, adapter)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The adapter first: what it has in flight can still be told.
        await adapter.stop()
        await core.stop()

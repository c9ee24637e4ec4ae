"""Runs the processes of `pumice run`: a core, its adapter and controllers, and restarts them."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pumice.adapters.runtime.clock import Clock

log = logging.getLogger(__name__)

# All processes run commands of this program.
PROGRAM: Final = (sys.executable, "-c", "from pumice.cli.main import main; main()")
# Grace period of the core after its adapter has ended.
_CORE_GRACE_SECONDS: Final = 5.0
_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 30.0
# A process that ran for this time is restarted at once.
_WELL_SECONDS: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
BAD_INPUT: Final = 2
_TOKENS: Final = ("PUMICE_TOKEN", "PUMICE_TOKEN_FILE")


class Child:
    """One process, which is restarted when it ends."""

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
        """Runs until the process exits because of invalid input; returns the exit code."""
        failures = 0
        while True:
            began = self._clock.now()
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                # Ctrl-C reaches only the parent, which stops its children in order.
                start_new_session=True,
                preexec_fn=_ends_with_parent(),
            )
            code = await self._process.wait()
            if code == BAD_INPUT:
                return code
            ran_well = self._clock.now() - began >= _WELL_SECONDS
            failures = 0 if ran_well else failures + 1
            wait = _restart_delay(failures)
            log.error("the %s ended with code %d; restart in %.1f s", self.name, code, wait)
            await self._clock.sleep(wait)

    async def stop(self, grace_seconds: float) -> None:
        """Sends SIGTERM, and SIGKILL after the grace period."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await process.wait()
        except TimeoutError:
            log.error("the %s did not end within %g s; killing it", self.name, grace_seconds)
            process.kill()
            await process.wait()


def _restart_delay(failures: int) -> float:
    """The delay before a restart, which doubles with every early end."""
    if not failures:
        return 0.0
    return min(_FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 10), _LONGEST_WAIT_SECONDS)


def _ends_with_parent() -> "Callable[[], None] | None":
    """A function that makes a new child get SIGTERM when this process ends in any way."""
    if not sys.platform.startswith("linux"):
        return None
    # Loaded before the fork, because a forked child should not load libraries.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def set_up() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            # The parent ended before the call of prctl.
            os._exit(1)

    return set_up


async def supervise(
    address: str,
    for_core: Sequence[str],
    for_adapter: Sequence[str],
    clock: Clock,
    adapter_grace_seconds: float,
    for_controllers: Sequence[str] | None = None,
) -> int:
    """Runs all processes until one exits because of invalid input, or until it is cancelled."""
    listen = ("core", "--listen", address, *for_core)
    core = Child("core", (*PROGRAM, *listen), clock)
    connect = ("adapter", "kubernetes", "--core", address, *for_adapter)
    # This core needs no token. A token in the environment is for another core.
    environment = {name: text for name, text in os.environ.items() if name not in _TOKENS}
    adapter = Child("adapter", (*PROGRAM, *connect), clock, environment)
    children = [core, adapter]
    if for_controllers is not None:
        command = (*PROGRAM, "controllers", *for_controllers)
        children.append(Child("controllers", command, clock))
    tasks = [asyncio.create_task(child.run()) for child in children]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The core stops last, because it receives the outcomes of decisions in flight.
        await asyncio.gather(*(child.stop(adapter_grace_seconds) for child in children[1:]))
        await core.stop(_CORE_GRACE_SECONDS)

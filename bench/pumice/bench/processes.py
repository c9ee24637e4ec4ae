"""A core in another process, and the CPU time and memory of processes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
PROGRAM = (sys.executable, "-c", "from pumice.cli.main import main; main()")
_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 60


def in_other_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function in another process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()


def cpu_seconds(pid: int) -> float:
    """User and system CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def control_plane_pids() -> list[int]:
    """The process ids of a control plane on this machine; empty if it runs elsewhere."""
    return [int(pid) for pid in os.environ.get("CONTROL_PLANE_PIDS", "").split(",") if pid]


def resident_bytes(pid: int, word: str = "VmRSS") -> int:
    """Resident memory of a process and its descendants; with ``VmHWM``, the peak of each."""
    found = re.search(rf"^{word}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[1]) * 1024 + sum(resident_bytes(int(child), word) for child in started)


@dataclass(frozen=True, slots=True)
class CoreProcess:
    """Address and process id of a core."""

    address: str
    pid: int


@asynccontextmanager
async def core_process(*options: str, record: Path | None = None) -> AsyncIterator[CoreProcess]:
    """Runs a core on a Unix socket in this context, optionally with a recording."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        address = f"unix:{Path(folder) / 'core.sock'}"
        recording = () if record is None else ("--record", str(record))
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *("core", "--listen", address, "--log-level", "error", *recording, *options),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(_START_SECONDS):
                if not await process.stdout.readline():
                    raise RuntimeError(f"the core exited with {await process.wait()} at startup")
            yield CoreProcess(address, process.pid)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

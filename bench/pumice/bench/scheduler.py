"""Core and adapter as processes, with the CPU time of each."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.bench.processes import PROGRAM, cpu_seconds


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds of adapter and core."""

    adapter: float
    core: float

    def __sub__(self, other: CpuTimes) -> CpuTimes:
        return CpuTimes(self.adapter - other.adapter, self.core - other.core)

    @property
    def both(self) -> float:
        return self.adapter + self.core


@dataclass(slots=True)
class Scheduler:
    """The processes of core and adapter, in this order."""

    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    began: float = 0.0

    def cpu_times(self) -> CpuTimes:
        core, adapter = (cpu_seconds(process.pid) for process in self.processes)
        return CpuTimes(adapter, core)


@asynccontextmanager
async def scheduling(kubeconfig: str) -> AsyncIterator[Scheduler]:
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        core = f"unix:{Path(folder) / 'core.sock'}"
        adapter = ("adapter", "kubernetes", "--core", core, "--kubeconfig", kubeconfig)
        commands = (("core", "--listen", core), adapter)
        scheduler = Scheduler(began=time.perf_counter())
        try:
            for command in commands:
                process = await asyncio.create_subprocess_exec(
                    *PROGRAM,
                    *command,
                    *("--log-level", "error"),
                    stdout=asyncio.subprocess.DEVNULL,
                )
                scheduler.processes.append(process)
            yield scheduler
        finally:
            for process in reversed(scheduler.processes):
                process.terminate()
                await process.wait()

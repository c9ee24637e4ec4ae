"""Latency of a frontend's requests: Schedule of a small manifest on a live cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from pathlib import Path

from pumice.bench.clusters import Size
from pumice.bench.processes import core_process
from pumice.bench.results import Result, spread
from pumice.bench.steady_state import with_unschedulable
from pumice.bench.wire_adapter import connected, snapshot_of
from pumice.bench.wire_clusters import labelled
from pumice.client import AsyncClient, JobVerdict, ScheduleResult

_QUESTIONS = 50
_CALLERS = 100
# Waiting gangs of the cluster, which no response may contain.
_WAITING = 50
_WARM_UP_SECONDS = 60.0
_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, namespace: portal}}
spec:
  minAvailable: 4
  queue: queue-0
  tasks:
  - name: worker
    replicas: 4
    template:
      spec: {{containers: [{{name: main, resources: {{requests: {{cpu: "{cpu}", memory: 1Gi}}}}}}]}}
"""


def portal(size: Size, questions: int = _QUESTIONS, callers: int = _CALLERS) -> list[Result]:
    """Measures Schedule of a manifest: sequential calls, then many concurrent callers."""
    return [asyncio.run(_portal(size, questions, callers))]


async def _portal(size: Size, questions: int, callers: int) -> Result:
    held = snapshot_of(labelled(with_unschedulable(size, _WAITING)))
    async with core_process("--replica-at-start") as core, connected(core.address) as adapter:
        await held.send(adapter)
        await held.end(adapter)
        async with AsyncClient(address=core.address, timeout_seconds=_WARM_UP_SECONDS) as client:
            # The first response shows that the replica is ready.
            await client.schedule(_JOB.format(name="warm", cpu=1))
            async with AsyncClient(address=core.address) as another:
                first = await _ask(another, "first", "1", JobVerdict.PLACED)
            cpu_began = _cpu_seconds(core.pid)
            placed = [
                await _ask(client, f"placed-{n}", "1", JobVerdict.PLACED) for n in range(questions)
            ]
            waiting = [
                await _ask(client, f"waiting-{n}", "4000", JobVerdict.NEVER_FITS)
                for n in range(questions)
            ]
            cpu = _cpu_seconds(core.pid) - cpu_began
            began = time.perf_counter()
            at_once = await asyncio.gather(
                *(_ask(client, f"at-once-{n}", "1", JobVerdict.PLACED) for n in range(callers))
            )
            all_s = time.perf_counter() - began
    figures = {
        "nodes": size.nodes,
        "running": size.pods,
        "callers": callers,
        "first_ms": round(first * 1000, 1),
        "cpu_ms": round(cpu * 1000 / (2 * questions), 1),
        **spread("placed", placed),
        **spread("waiting", waiting),
        **spread("at_once", at_once),
        "all_at_once_s": round(all_s, 3),
    }
    measured = (
        "Schedule of a manifest with a gang of four on the live cluster, with the client library: "
        "sequential calls for gangs that fit and that never fit, then many concurrent callers"
    )
    return Result("portal", measured, figures)


def _cpu_seconds(core: int) -> float:
    """CPU time of the core, its replicas and the forks that have ended."""
    found, waiting = 0, [core]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        # The name may contain spaces. After it: user and system time, of the process and its children.
        fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        found += sum(map(int, fields[11:15]))
        for thread in (folder / "task").iterdir():
            waiting += map(int, (thread / "children").read_text().split())
    return found / os.sysconf("SC_CLK_TCK")


async def _ask(client: AsyncClient, name: str, cpu: str, verdict: JobVerdict) -> float:
    taken, result = await _timed(client.schedule(_JOB.format(name=name, cpu=cpu)))
    assert [each.verdict for each in result.jobs] == [verdict], result.jobs
    return taken


async def _timed(call: Awaitable[ScheduleResult]) -> tuple[float, ScheduleResult]:
    began = time.perf_counter()
    result = await call
    return time.perf_counter() - began, result

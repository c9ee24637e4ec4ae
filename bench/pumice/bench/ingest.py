"""Rate at which a core applies changes, measured between processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from pumice.bench.clusters import Size
from pumice.bench.processes import core_process, cpu_seconds
from pumice.bench.results import Result
from pumice.bench.wire_adapter import BATCH_OPS, BenchAdapter, batches_of, connected, snapshot_of
from pumice.bench.wire_clusters import labelled, running_cluster, single_pod, upsert
from pumice.core.model.pod import Pod
from pumice.v1 import delta_pb2

_SMALL_BATCH_OPS = 10
_SMALL_SHARE = 10


def ingest(size: Size) -> list[Result]:
    """Sends a snapshot to an empty core, then changes of pods in large and in small messages."""
    return asyncio.run(_ingest(size))


async def _ingest(size: Size) -> list[Result]:
    held = snapshot_of([*running_cluster(size), *labelled(single_pod(size.jobs))])
    async with core_process() as core, connected(core.address) as adapter:
        before = cpu_seconds(core.pid)
        seconds = await held.send(adapter)
        cpu = cpu_seconds(core.pid) - before
        results = [_result("ingest snapshot", size, held.count, BATCH_OPS, seconds, cpu)]
        await held.end(adapter)
        await adapter.until_decided(1)
        for number, batch_ops in enumerate((BATCH_OPS, _SMALL_BATCH_OPS)):
            share = 1 if batch_ops == BATCH_OPS else _SMALL_SHARE
            batches = [*batches_of(_changes(size, number, share), batch_ops)]
            results.append(await _changed(adapter, core.pid, size, batches))
    return results


def _changes(size: Size, number: int, share: int) -> Iterator[delta_pb2.Op]:
    """A label change of every pod, or of every n-th pod."""
    pods = (item for item in running_cluster(size) if isinstance(item, Pod))
    for place, pod in enumerate(labelled(pods, round=str(number))):
        if place % share == 0:
            yield upsert(pod, revision=2 + number)


async def _changed(
    adapter: BenchAdapter, pid: int, size: Size, batches: list[list[delta_pb2.Op]]
) -> Result:
    count = sum(len(batch) for batch in batches)
    before, began = cpu_seconds(pid), time.perf_counter()
    for batch in batches:
        await adapter.send_ops(batch)
    await adapter.until_acknowledged(adapter.seq)
    seconds, cpu = time.perf_counter() - began, cpu_seconds(pid) - before
    assert not adapter.rejected, f"{adapter.rejected} objects set aside"
    return _result("ingest", size, count, len(batches[0]), seconds, cpu)


def _result(
    bench: str, size: Size, count: int, batch_ops: int, seconds: float, cpu: float
) -> Result:
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "deltas": count,
        "deltas_per_message": batch_ops,
        "seconds": round(seconds, 3),
        "deltas_per_s": round(count / seconds),
        "core_cpu_us_per_delta": round(1e6 * cpu / count, 1),
    }
    what = "a snapshot" if bench == "ingest snapshot" else "changes of pods while sessions run"
    measured = f"{what}, process to process, from the first message until the last acknowledgement"
    return Result(bench, measured, figures)

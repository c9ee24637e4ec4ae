"""Memory of a core that records."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pumice.bench.clusters import Size
from pumice.bench.processes import core_process, resident_bytes
from pumice.bench.results import Result
from pumice.bench.wire_adapter import BenchAdapter, batches_of, connected, snapshot_of
from pumice.bench.wire_clusters import labelled, pending_cluster, single_pod, upsert
from pumice.core.model.pod import Pod, PodPhase
from pumice.v1 import decision_pb2, delta_pb2

_APPLIED = decision_pb2.OUTCOME_CODE_APPLIED
_SESSIONS = 3
_MEASURED = (
    "resident set of a recording core process after all pods were bound, their outcomes came "
    "back, and two more sessions placed a pod of each class; per pod: the difference to a core "
    "with a quarter of the pods, divided by those it had less; per node: the difference between "
    "that one and one with half its nodes, divided by those it had less"
)


@dataclass(slots=True)
class _Held:
    """Memory of one core after its sessions."""

    empty: int
    after: list[int]
    most: int
    recorded: int
    bound: int
    last_session: int


def memory(size: Size) -> Result:
    few_pods = replace(size, jobs=max(1, size.jobs // 4))
    few_of_both = replace(few_pods, nodes=max(1, size.nodes // 2))
    whole, fewer, fewest = (asyncio.run(_measure(held)) for held in (size, few_pods, few_of_both))
    resident, base = whole.after[-1], fewer.after[-1]
    per_pod = (resident - base) / max(1, size.pods - few_pods.pods)
    per_node = (base - fewest.after[-1]) / max(1, size.nodes - few_of_both.nodes)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "classes": size.classes,
        "bound": whole.bound,
        "sessions": len(whole.after),
        "last_session": whole.last_session,
        "empty_bytes": whole.empty,
        "after_each_session_bytes": whole.after,
        "resident_bytes": resident,
        "resident_mib": round(resident / 2**20),
        "most_bytes": whole.most,
        "bytes_per_node": round(per_node),
        "bytes_per_pod": round(per_pod),
        "recording_bytes": whole.recorded,
    }
    return Result("memory", _MEASURED, figures)


async def _measure(size: Size) -> _Held:
    held = snapshot_of(pending_cluster(size))
    pods = {thing.uid: thing for thing in pending_cluster(size) if isinstance(thing, Pod)}
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        async with (
            core_process(record=Path(folder)) as core,
            connected(core.address) as adapter,
        ):
            empty = resident_bytes(core.pid)
            await held.send(adapter)
            await held.end(adapter)
            await adapter.until_decided(size.pending_pods)
            await _carry_out(adapter, pods)
            after = [resident_bytes(core.pid)]
            while len(after) < _SESSIONS:
                await _arrive(adapter, size, size.jobs + len(after) * size.classes, pods)
                after.append(resident_bytes(core.pid))
            most = resident_bytes(core.pid, "VmHWM")
            recorded = sum(file.stat().st_size for file in Path(folder).rglob("*.pumice"))
    return _Held(empty, after, most, recorded, adapter.decided, adapter.session)


async def _arrive(adapter: BenchAdapter, size: Size, first: int, pods: dict[str, Pod]) -> None:
    """Adds a pod of each class and waits until it runs."""
    arriving = [
        thing for number in range(size.classes) for thing in single_pod(first + number, number)
    ]
    pods.update((thing.uid, thing) for thing in arriving if isinstance(thing, Pod))
    expected = adapter.decided + size.classes
    await adapter.send_objects(labelled(arriving))
    await adapter.until_decided(expected)
    await _carry_out(adapter, pods)


async def _carry_out(adapter: BenchAdapter, pods: dict[str, Pod]) -> None:
    """Reports every decision as done, and every pod as running where it was sent."""
    decisions, adapter.decisions = adapter.decisions, []
    for batch in batches_of(_outcomes(decisions, pods)):
        await adapter.send_ops(batch)
    await adapter.until_acknowledged(adapter.seq)


def _outcomes(
    decisions: list[decision_pb2.Decision], pods: dict[str, Pod]
) -> Iterator[delta_pb2.Op]:
    for decision in decisions:
        bind = decision.bind
        running = replace(pods[bind.uid], node_name=bind.node, phase=PodPhase.RUNNING)
        yield upsert(running, revision=2)
        outcome = decision_pb2.Outcome(decision_id=decision.id, code=_APPLIED)
        yield delta_pb2.Op(outcome=outcome)

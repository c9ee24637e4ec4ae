"""Memory of a core that records."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.processes import core_process, resident_bytes
from pumice.bench.results import Result
from pumice.bench.wire_adapter import BenchAdapter, batches_of, connected, snapshot_of
from pumice.bench.wire_clusters import labelled, pending_cluster, upsert
from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod, PodPhase, PodSpec
from pumice.v1 import decision_pb2, delta_pb2, object_pb2

_APPLIED = decision_pb2.OUTCOME_CODE_APPLIED
_SESSIONS = 3
_MEASURED = (
    "resident set of a recording core process after all pods were bound, the core had all outcomes, "
    "and two more sessions placed a pod of each class; resident_mib: after another hour, in which "
    "gangs ended and new ones arrived, one session per minute; per pod: the difference from a core "
    "with a quarter of the pods, divided by the difference in pods; per node: the difference between "
    "that core and one with half its nodes, divided by the difference in nodes"
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


def memory(size: Size, minutes: int = 60) -> Result:
    few_pods = replace(size, jobs=max(1, size.jobs // 4))
    few_of_both = replace(few_pods, nodes=max(1, size.nodes // 2))
    whole = asyncio.run(_measure(size, minutes))
    fewer, fewest = (asyncio.run(_measure(held, 0)) for held in (few_pods, few_of_both))
    resident, base = whole.after[_SESSIONS - 1], fewer.after[-1]
    hour = whole.after[_SESSIONS:] or [resident]
    per_pod = (resident - base) / max(1, size.pods - few_pods.pods)
    per_node = (base - fewest.after[-1]) / max(1, size.nodes - few_of_both.nodes)
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "classes": size.classes,
        "bound": whole.bound,
        "sessions": _SESSIONS,
        "last_session": whole.last_session,
        "empty_bytes": whole.empty,
        "after_each_session_bytes": whole.after,
        "resident_bytes": resident,
        "minutes": minutes,
        "resident_mib": round(hour[-1] / 2**20),
        # From the first quarter of the hour to its end.
        "growth_mib": round((hour[-1] - hour[len(hour) // 4]) / 2**20, 1),
        "most_bytes": whole.most,
        "bytes_per_node": round(per_node),
        "bytes_per_pod": round(per_pod),
        "recording_bytes": whole.recorded,
    }
    return Result("memory", _MEASURED, figures)


async def _measure(size: Size, minutes: int) -> _Held:
    held = snapshot_of(pending_cluster(size))
    pods = {item.uid: item for item in pending_cluster(size) if isinstance(item, Pod)}
    gangs = (pod for pod in pods.values() if pod.group_name.startswith("job-"))
    specs = [*dict.fromkeys(pod.spec for pod in gangs)]
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        async with (
            core_process(record=Path(folder)) as core,
            connected(core.address) as adapter,
        ):
            empty = resident_bytes(core.pid)
            await held.send(adapter)
            await held.end(adapter)
            await adapter.until_decided(size.pending_pods)
            await _apply_decisions(adapter, pods)
            after = [resident_bytes(core.pid)]
            while len(after) < _SESSIONS:
                await _arrive(adapter, size.jobs + len(after) * len(specs), specs, pods)
                after.append(resident_bytes(core.pid))
            first = size.jobs + _SESSIONS * len(specs)
            for minute in range(minutes):
                await _replace_gangs(adapter, size, minute, first, specs, pods)
                after.append(resident_bytes(core.pid))
            most = resident_bytes(core.pid, "VmHWM")
            recorded = sum(file.stat().st_size for file in Path(folder).rglob("*.pumice"))
    return _Held(empty, after, most, recorded, adapter.decided, adapter.session)


async def _arrive(
    adapter: BenchAdapter, first: int, specs: list[PodSpec], pods: dict[str, Pod]
) -> None:
    """Adds a pod of each class and waits until it runs."""
    arriving = [
        item
        for number, spec in enumerate(specs)
        for item in clusters.pending_job(first + number, 1, spec, "queue-0")
    ]
    pods.update((item.uid, item) for item in arriving if isinstance(item, Pod))
    expected = adapter.decided + len(specs)
    await adapter.send_objects(labelled(arriving))
    await adapter.until_decided(expected)
    await _apply_decisions(adapter, pods)


async def _replace_gangs(
    adapter: BenchAdapter,
    size: Size,
    minute: int,
    first: int,
    specs: list[PodSpec],
    pods: dict[str, Pod],
) -> None:
    """One minute of the cluster: gangs end and are deleted; the same number arrives and runs."""
    count = gangs_per_minute(size)
    arriving: list[ClusterObject] = []
    for number in range(minute * count, (minute + 1) * count):
        # The oldest gang: one of the first ones, or one of an earlier minute.
        oldest = number if number < size.jobs else first + number - size.jobs
        name = f"job-{oldest:05d}"
        gone = [f"uid-{name}-{index}" for index in range(size.size)]
        ops = [_deletion(object_pb2.KIND_POD, uid) for uid in gone]
        await adapter.send_ops([*ops, _deletion(object_pb2.KIND_POD_GROUP, f"uid-{name}")])
        for uid in gone:
            del pods[uid]
        spec = specs[number % len(specs)]
        arriving += clusters.pending_job(first + number, size.size, spec, "queue-0")
    pods.update((item.uid, item) for item in arriving if isinstance(item, Pod))
    expected = adapter.decided + count * size.size
    await adapter.send_objects(labelled(arriving))
    await adapter.until_decided(expected)
    await _apply_decisions(adapter, pods)


def gangs_per_minute(size: Size) -> int:
    """Thirty gangs, which are five pods per second with ten pods each; at most a tenth of all gangs."""
    return max(1, min(30, size.jobs // 10))


def _deletion(kind: object_pb2.Kind.ValueType, uid: str) -> delta_pb2.Op:
    return delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=uid))


async def _apply_decisions(adapter: BenchAdapter, pods: dict[str, Pod]) -> None:
    """Reports every decision as applied, and every pod as running on its node."""
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

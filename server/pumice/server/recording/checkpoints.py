"""Writes checkpoints of a cluster into recordings, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.core.cache.assumptions import Assumption, CoolDown
from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.cache.storage import VolumeReservation
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.server.digests import KindSums
from pumice.server.state import ClusterState
from pumice.server.wire import (
    ObjectReader,
    read_plugin_data,
    write_object,
    write_plugin_data,
    write_upsert,
)
from pumice.server.wire.devices import ALLOCATION
from pumice.server.wire.times import timestamp
from pumice.v1 import cluster_service_pb2, delta_pb2, reason_pb2
from pumice.v1 import recording_pb2 as pb

# Size of a part, well below the message limit.
_PART_BYTES = 1024 * 1024
# Number of objects that are written in about a millisecond.
_OBJECTS_PER_YIELD = 32
_CODES = {
    code: reason_pb2.ReasonCode.ValueType(
        dict(reason_pb2.ReasonCode.items()).get(f"REASON_CODE_{code.name}", 0)
    )
    for code in ReasonCode
}
_CODES_BACK = {number: code for code, number in _CODES.items()}


class StateCheckpoint:
    """The state of a cluster at one op. Another thread writes it later."""

    def __init__(self, state: ClusterState, identity: tuple[str, int]) -> None:
        self.engine = state.engine.checkpoint()
        self.seq = state.applied_seq
        self.incarnation, self.epoch = identity
        effective = state.effective
        self.configuration = None if effective is None else effective.message
        self.config_hash = state.config_hash
        self.capabilities = sorted(state.capabilities)
        self.rejected = list(state.quarantined.values())

    def write(self, yield_thread: Callable[[], None] | None = None) -> list[pb.RecordingCheckpoint]:
        """The parts in order. ``yield_thread`` is called regularly, to let other threads run."""
        parts = list(self._parts(yield_thread))
        for number, part in enumerate(parts):
            part.seq, part.session = self.seq, self.engine.session
            part.part, part.part_count = number, len(parts)
        return parts

    def _parts(self, yield_thread: Callable[[], None] | None) -> Iterator[pb.RecordingCheckpoint]:
        part, size = self._first(), 0
        for number, item in enumerate(self.engine.objects):
            if yield_thread is not None and not number % _OBJECTS_PER_YIELD:
                yield_thread()
            upsert = write_upsert(write_object(item), 1)
            length = upsert.ByteSize()
            if size and size + length > _PART_BYTES:
                yield part
                part, size = pb.RecordingCheckpoint(), 0
            part.objects.append(upsert)
            size += length
        yield part
        yield from _memory_parts(self.engine)

    def _first(self) -> pb.RecordingCheckpoint:
        checkpoint = self.engine
        return pb.RecordingCheckpoint(
            incarnation=self.incarnation,
            epoch=self.epoch,
            configuration=self.configuration,
            effective_config_hash=self.config_hash,
            capabilities=map(cluster_service_pb2.Capability.ValueType, self.capabilities),
            rejected=self.rejected,
            cool_downs=[_write_cool_down(job, state) for job, state in checkpoint.cool_downs],
            broken_gangs=[
                pb.BrokenGang(job=j, begin_time=timestamp(since)) for j, since in checkpoint.broken
            ],
            broken_gangs_scanned=checkpoint.broken_scanned,
            assumed_volumes=[
                pb.AssumedVolume(name=name, claim=v.claim_key, claim_uid=v.claim_uid, pod_uid=pod)
                for name, pod, v in checkpoint.volumes
                if v.volume_name
            ],
            assumed_claims=[
                pb.AssumedClaim(claim=claim, node=v.node, pod_uid=pod)
                for claim, pod, v in checkpoint.volumes
                if not v.volume_name
            ],
            releasing_nodes=checkpoint.releasing_nodes,
            plugin_times={name: timestamp(time) for name, time in checkpoint.plugin_times},
            assumed_devices=[
                pb.AssumedDevices(claim=claim, pod_uid=pod, allocation=ALLOCATION.write(given))
                for claim, pod, given in checkpoint.devices
            ],
        )


def _memory_parts(checkpoint: Checkpoint) -> Iterator[pb.RecordingCheckpoint]:
    """Parts with the engine's data about jobs, pods, plugins and assumed decisions."""
    part, size = pb.RecordingCheckpoint(), 0
    for message in _memory_messages(checkpoint):
        if isinstance(message, pb.AssumedDecision):
            part.assumed.append(message)
        elif isinstance(message, pb.JobMemory):
            part.jobs.append(message)
        elif isinstance(message, delta_pb2.PluginData):
            part.plugin_data.append(message)
        else:
            part.pods.append(message)
        size += message.ByteSize()
        if size > _PART_BYTES:
            yield part
            part, size = pb.RecordingCheckpoint(), 0
    if size:
        yield part


def _memory_messages(
    checkpoint: Checkpoint,
) -> Iterator[pb.AssumedDecision | pb.JobMemory | pb.PodMemory | delta_pb2.PluginData]:
    for assumed in checkpoint.assumptions:
        yield pb.AssumedDecision(
            decision_id=assumed.decision_id,
            pod_uid=assumed.pod_uid,
            job=assumed.job_id,
            node=assumed.node_name,
            evict=assumed.status is TaskStatus.RELEASING,
            decision_time=timestamp(assumed.since_ns),
            applied=assumed.applied,
            expired=assumed.expired,
            annotations=dict(assumed.annotations),
        )
    for job_id in checkpoint.closed_jobs:
        yield pb.JobMemory(job=job_id, status_written=True)
    for uid, (reason, message, nominated) in checkpoint.reported_conditions:
        yield pb.PodMemory(uid=uid, reason=reason, message=message, nominated_node_name=nominated)
    for plugin, name, values in checkpoint.plugin_data:
        yield write_plugin_data(plugin, name, values)


def _write_cool_down(job_id: str, state: CoolDown) -> pb.CoolDown:
    return pb.CoolDown(
        job=job_id,
        failure_count=state.failures,
        end_time=timestamp(state.until_ns),
        last_decision_time=None if state.decided_ns < 0 else timestamp(state.decided_ns),
        node=state.node_name,
        code=_CODES[state.code],
    )


# Reading.


def restore(
    state: ClusterState, parts: Sequence[pb.RecordingCheckpoint], reader: ObjectReader
) -> None:
    """Restores a checkpoint into a new state. Raises ObjectError for an invalid object."""
    first = parts[0]
    state.set_capabilities(first.capabilities)
    if first.HasField("configuration"):
        state.configure(first.configuration)
    state.applied_seq = first.seq
    state.engine.restore(_read(parts, reader))
    state.quarantined = {(item.kind, item.uid): item for item in first.rejected}
    _count(state.sums, parts)


def _count(sums: KindSums, parts: Iterable[pb.RecordingCheckpoint]) -> None:
    """Adds the objects to the digests. Revisions in checkpoints are 1."""
    for part in parts:
        for upsert in part.objects:
            sums.put(upsert.kind, upsert.uid, upsert.revision)
        for rejected in part.rejected:
            sums.put(rejected.kind, rejected.uid, 1)


def _read(parts: Sequence[pb.RecordingCheckpoint], reader: ObjectReader) -> Checkpoint:
    first = parts[0]
    objects = (reader.read(upsert.object) for part in parts for upsert in part.objects)
    return Checkpoint(
        first.session,
        tuple(item for item in objects if item is not None),
        tuple(_read_assumed(item) for part in parts for item in part.assumed),
        tuple((item.job, _read_cool_down(item)) for item in first.cool_downs),
        tuple((item.job, _time(item.begin_time)) for item in first.broken_gangs),
        first.broken_gangs_scanned,
        (
            *(
                (v.name, v.pod_uid, VolumeReservation(v.claim, v.claim_uid, v.name))
                for v in first.assumed_volumes
            ),
            *(
                (c.claim, c.pod_uid, VolumeReservation(c.claim, node=c.node))
                for c in first.assumed_claims
            ),
        ),
        tuple(m.job for part in parts for m in part.jobs if m.status_written),
        tuple(
            (m.uid, (m.reason, m.message, m.nominated_node_name))
            for part in parts
            for m in part.pods
        ),
        tuple(first.releasing_nodes),
        tuple(
            (data.plugin, data.name, data.values)
            for part in parts
            for data in map(read_plugin_data, part.plugin_data)
        ),
        tuple(sorted((name, _time(time)) for name, time in first.plugin_times.items())),
        tuple(
            (d.claim, d.pod_uid, ALLOCATION.read("allocation", d.allocation))
            for d in first.assumed_devices
        ),
    )


def _time(message: Timestamp) -> int:
    return message.ToNanoseconds()


def _read_assumed(item: pb.AssumedDecision) -> Assumption:
    status = TaskStatus.RELEASING if item.evict else TaskStatus.BINDING
    return Assumption(
        item.decision_id,
        item.pod_uid,
        item.job,
        status,
        item.node,
        _time(item.decision_time),
        tuple(sorted(item.annotations.items())),
        item.applied,
        item.expired,
    )


def _read_cool_down(item: pb.CoolDown) -> CoolDown:
    code = _CODES_BACK.get(item.code, ReasonCode.COOLING_DOWN)
    decided_ns = _time(item.last_decision_time) if item.HasField("last_decision_time") else -1
    return CoolDown(item.failure_count, _time(item.end_time), decided_ns, item.node, code)

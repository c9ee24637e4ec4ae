"""Random histories of a cluster, played on a core's state and recorded as they happen."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pumice.core.decisions import SessionResult
from pumice.server.ops import OpReader
from pumice.server.plugins import installed_registry
from pumice.server.recording.entries import origin
from pumice.server.recording.files import RecordingFiles, RecordingOptions
from pumice.server.recording.recorder import Recorder
from pumice.server.state import ClusterState
from pumice.server.wire import decision_batches, status_batches, write_upsert
from pumice.server.wire.times import timestamp
from pumice.v1 import cluster_service_pb2, decision_pb2, delta_pb2, object_pb2, pod_pb2
from tests.server.running import SECOND, START, configuration, group, node, outcome, pod, queue

EVICTING = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
PACKING = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
  - name: binpack
"""
OLDER = PACKING.replace("enqueue, ", "").replace("binpack", "nodeorder")
_Response = cluster_service_pb2.ConnectResponse


class Walk:
    """One cluster to which things happen; everybody who records it is told."""

    def __init__(self, seed: int, conf: str = EVICTING, **fields: Any) -> None:
        self.rng = random.Random(seed)
        registry = installed_registry()
        self.state = ClusterState(registry, "core-")
        self.origin = origin("walk", "core", registry)
        self.recorders: list[Recorder] = []
        # Failures of all recorders.
        self.failures = 0
        self.now_ns = START
        self.results: list[SessionResult] = []
        self._reader = OpReader()
        self._seq = 0
        self._jobs = 0
        self._pods: dict[str, object_pb2.ClusterObject] = {}
        self._unseen: list[decision_pb2.Decision] = []
        self._first = [
            configuration(conf, **fields),
            *self._upserts(
                [
                    *(queue(name, weight=weight) for name, weight in (("a", 1), ("b", 3))),
                    *(node(f"n{number}", 6000) for number in range(5)),
                ]
            ),
        ]

    def record(self, path: Path, **options: int) -> Recorder:
        """From now on, into a folder or file."""
        files = RecordingFiles(RecordingOptions(path, **options), "walk")
        recorder = Recorder(self.origin, files, self._count_failure)
        recorder.start(self.state, self.now_ns)
        self.recorders.append(recorder)
        return recorder

    def _count_failure(self) -> None:
        self.failures += 1

    def close(self) -> None:
        for recorder in self.recorders:
            recorder.close()

    def run(self, sessions: int, between: Callable[[int], None] | None = None) -> None:
        if self._first:
            self.take(self._first)
            self._first = []
        for number in range(sessions):
            self.now_ns += self.rng.randrange(SECOND // 4, SECOND)
            self.take(self._happenings())
            self.session()
            if between is not None:
                between(number + 1)

    def take(self, ops: Sequence[delta_pb2.Op]) -> None:
        first_seq = self._seq + 1
        self._seq += len(ops)
        numbered = list(self._reader.read_ops(first_seq, ops))
        rejected, _ = self.state.apply(numbered, self.now_ns)
        for recorder in self.recorders:
            batch = delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops)
            recorder.on_batch(batch, rejected, self.now_ns)

    def session(self) -> None:
        self.now_ns += 1
        self.state.expire(self.now_ns)
        result = self.state.session(self.now_ns)
        self.results.append(result)
        batches = decision_batches(result, epoch=1, based_on_seq=self._seq)
        responses = [_Response(decision_batch=batch) for batch in batches]
        responses += [_Response(status_batch=b) for b in status_batches(result, epoch=1)]
        for recorder in self.recorders:
            recorder.on_session(self.state, result, responses, 1)
        for response in responses:
            self._unseen += response.decision_batch.decisions

    # What happens between sessions.

    def _upserts(self, objects: Sequence[object_pb2.ClusterObject]) -> list[delta_pb2.Op]:
        for item in objects:
            if item.HasField("pod"):
                self._pods[item.pod.uid] = item
        return [delta_pb2.Op(upsert=write_upsert(_copied(item), 1)) for item in objects]

    def _happenings(self) -> list[delta_pb2.Op]:
        ops: list[delta_pb2.Op] = []
        for decision in self._taken():
            ops += self._carry_out(decision)
        for uid in self.rng.sample(sorted(self._pods), min(3, len(self._pods))):
            ops += self._move_on(self._pods[uid])
        if self.rng.random() < 0.6:
            ops += self._new_job()
        if self.rng.random() < 0.05:
            ops.append(self._node_changes())
        return ops

    def _taken(self) -> list[decision_pb2.Decision]:
        """Most decisions are carried out at once, some later."""
        late = [d for d in self._unseen if self.rng.random() < 0.2]
        now = [d for d in self._unseen if d not in late]
        self._unseen = late
        return now

    def _carry_out(self, decision: decision_pb2.Decision) -> list[delta_pb2.Op]:
        codes = decision_pb2.OutcomeCode
        if self.rng.random() < 0.15:
            return [outcome(decision.id, codes.OUTCOME_CODE_FAILED)]
        done = outcome(decision.id, codes.OUTCOME_CODE_APPLIED)
        held = self._pods.get(decision.bind.uid or decision.evict.uid)
        if held is None:
            return [outcome(decision.id, codes.OUTCOME_CODE_GONE)]
        if decision.HasField("bind"):
            held.pod.node_name = decision.bind.node
            held.pod.phase = pod_pb2.POD_PHASE_RUNNING
        else:
            held.pod.terminating = True
        return [done, *self._upserts([held])]

    def _move_on(self, held: object_pb2.ClusterObject) -> list[delta_pb2.Op]:
        if held.pod.terminating or held.pod.phase == pod_pb2.POD_PHASE_SUCCEEDED:
            del self._pods[held.pod.uid]
            ref = object_pb2.ObjectRef(kind=object_pb2.KIND_POD, uid=held.pod.uid)
            return [delta_pb2.Op(tombstone=ref)]
        if held.pod.phase == pod_pb2.POD_PHASE_RUNNING and self.rng.random() < 0.5:
            held.pod.phase = pod_pb2.POD_PHASE_SUCCEEDED
            return self._upserts([held])
        return []

    def _new_job(self) -> list[delta_pb2.Op]:
        self._jobs += 1
        name, size = f"job-{self._jobs:03d}", self.rng.randrange(1, 5)
        minimum = self.rng.choice([size, max(size // 2, 1)])
        where = self.rng.choice("ab")
        cpu, created = self.rng.choice([500, 1000, 2500]), START + self._jobs * SECOND
        members = [
            pod(name, number, cpu, creation_time=timestamp(created), priority=self._jobs % 3)
            for number in range(size)
        ]
        made = group(name, minimum, queue=where, creation_time=timestamp(created))
        return self._upserts([made, *members])

    def _node_changes(self) -> delta_pb2.Op:
        changed = node(f"n{self.rng.randrange(5)}", self.rng.choice([4000, 6000, 9000]))
        return self._upserts([changed])[0]


def _copied(item: object_pb2.ClusterObject) -> object_pb2.ClusterObject:
    copied = object_pb2.ClusterObject()
    copied.CopyFrom(item)
    return copied


def recorded(path: Path, seed: int = 1, sessions: int = 30, conf: str = EVICTING) -> Walk:
    """A walk in one file."""
    walk = Walk(seed, conf)
    walk.record(path)
    walk.run(sessions)
    walk.close()
    return walk

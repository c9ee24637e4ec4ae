"""Speed of replays, compared with the recorded time, and of what-if runs."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pumice.bench import clusters
from pumice.bench.clusters import Size
from pumice.bench.results import Result
from pumice.bench.wire_clusters import labelled, upsert
from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod, PodPhase
from pumice.evaluation import Candidate, Options
from pumice.evaluation.processes import judge
from pumice.recordings import Recording
from pumice.server.local import compare_recording
from pumice.server.ops import OpReader
from pumice.server.plugins import installed_registry
from pumice.server.recording.entries import origin
from pumice.server.recording.files import RecordingFiles, RecordingOptions
from pumice.server.recording.recorder import Recorder
from pumice.server.state import ClusterState
from pumice.server.wire import decision_batches, status_batches
from pumice.v1 import configuration_pb2, decision_pb2, delta_pb2, object_pb2
from pumice.v1.cluster_service_pb2 import ConnectResponse

PERIODS = 3600
# The id of the core; decision ids begin with it.
_CORE = "bench"
_PERIOD_NS = 10**9
_START_NS = 1_700_000_000 * 10**9
_GANGS_PER_PERIOD = 2
# Pods run for one to two minutes.
_LEAST_PERIODS, _SPREAD = 60, 60


def replay(size: Size, periods: int = PERIODS) -> Result:
    """Records two new gangs in each period, then replays the recording."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        path = Path(folder) / "hour.pumice"
        _RecordedCluster(size, path).record(periods)
        began = time.perf_counter()
        with Recording(path) as recording:
            found = compare_recording(recording)
        taken = time.perf_counter() - began
        assert found.identical
        figures: dict[str, object] = {
            "nodes": size.nodes,
            "periods": periods,
            "pods_per_period": _GANGS_PER_PERIOD * size.size,
            "decisions": found.decisions,
            "recording_bytes": path.stat().st_size,
            "replay_s": round(taken, 2),
            "times_real_time": round(periods * _PERIOD_NS / 1e9 / taken, 1),
        }
    measured = (
        "replay of a recording, with the comparison of every session and the reading of the file; the "
        "recording comes from a core's recorder in this process and a cluster that applies decisions "
        "at once"
    )
    return Result("replay", measured, figures)


def judge_candidates(size: Size, periods: int = PERIODS, processes: int = 2) -> Result:
    """Records an hour, then runs three configurations over it."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:
        path = Path(folder) / "hour.pumice"
        _RecordedCluster(size, path).record(periods)
        candidates = [Candidate(text, name=name) for name, text in _CANDIDATES.items()]
        before, began = _cpu_seconds(), time.perf_counter()
        with judge([path], Options(), processes) as run_all:
            runs = run_all(candidates)
        taken, used = time.perf_counter() - began, _cpu_seconds() - before
        assert not any(run.faults for run in runs)
        figures: dict[str, object] = {
            "nodes": size.nodes,
            "periods": periods,
            "candidates": len(runs),
            "processes": processes,
            "jobs": len(runs[0].old.jobs),
            "judged_s": round(taken, 1),
            "cpu_s": round(used, 1),
            "cpu_s_on_two": round(used / len(runs) * -(-len(runs) // 2), 1),
        }
    measured = (
        "what-if runs of three configurations over a recorded hour, in two processes, with verdicts; "
        "every session is simulated, because each configuration places the first gang differently"
    )
    return Result("judge", measured, figures)


def _cpu_seconds() -> float:
    """CPU time of this process and of its child processes that have ended."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _configuration(*plugins: str) -> str:
    named = "\n".join(f"  - {text}" for text in ("name: gang", *plugins))
    return f'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n{named}\n'


_SHARES = ("name: drf", "name: predicates", "name: proportion")
_CANDIDATES = {
    "packed": _configuration(*_SHARES, "name: binpack"),
    "full-first": _configuration(
        *_SHARES,
        "{name: nodeorder, arguments: {leastrequested.weight: 0, mostrequested.weight: 1}}",
    ),
    "by-name": _configuration(*_SHARES),
}


class _RecordedCluster:
    """A cluster and the state of a core, without a stream; records its sessions."""

    def __init__(self, size: Size, path: Path) -> None:
        registry = installed_registry()
        self._size = size
        self._state = ClusterState(registry, f"{_CORE}-")
        self._recorder = Recorder(
            origin("bench", _CORE, registry), RecordingFiles(RecordingOptions(path), "bench")
        )
        self._reader = OpReader()
        self._now_ns, self._seq, self._jobs = _START_NS, 0, 0
        self._pending: dict[str, Pod] = {}
        self._ending: dict[int, list[Pod]] = defaultdict(list)
        self._outcomes: list[delta_pb2.Op] = []

    def record(self, periods: int) -> None:
        self._recorder.start(self._state, self._now_ns)
        configuration = delta_pb2.Op(configuration=configuration_pb2.Configuration())
        self._apply([configuration, *map(upsert, clusters.empty(self._size))])
        for period in range(periods):
            self._now_ns += _PERIOD_NS
            self._apply([*self._outcomes, *self._ended(period), *self._arrived()])
            self._outcomes = [*self._session(period)]
        self._recorder.close()

    def _apply(self, ops: Sequence[delta_pb2.Op]) -> None:
        first_seq = self._seq + 1
        self._seq += len(ops)
        numbered = list(self._reader.read_ops(first_seq, ops))
        rejected, _ = self._state.apply(numbered, self._now_ns)
        batch = delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops)
        self._recorder.on_batch(batch, rejected, self._now_ns)

    def _arrived(self) -> Iterator[delta_pb2.Op]:
        for _ in range(_GANGS_PER_PERIOD):
            spec = clusters.plain_spec(self._jobs % self._size.classes)
            queue = f"queue-{self._jobs % self._size.queues}"
            yield from self._seen(clusters.pending_job(self._jobs, self._size.size, spec, queue))
            self._jobs += 1

    def _seen(self, objects: Iterable[ClusterObject]) -> Iterator[delta_pb2.Op]:
        for item in labelled(objects):
            if isinstance(item, Pod):
                self._pending[item.uid] = item
            yield upsert(item)

    def _session(self, period: int) -> Iterator[delta_pb2.Op]:
        """Runs a session and applies its decisions."""
        result = self._state.session(self._now_ns)
        decided = list(decision_batches(result, epoch=1, based_on_seq=self._seq))
        responses = [ConnectResponse(decision_batch=batch) for batch in decided]
        responses += [ConnectResponse(status_batch=b) for b in status_batches(result, epoch=1)]
        self._recorder.on_session(self._state, result, responses, 1)
        applied = decision_pb2.OUTCOME_CODE_APPLIED
        for decision in (decision for batch in decided for decision in batch.decisions):
            pod = self._pending.pop(decision.bind.uid)
            runs = replace(pod, node_name=decision.bind.node, phase=PodPhase.RUNNING)
            lasts = _LEAST_PERIODS + pod.creation_time_ns % _SPREAD
            self._ending[period + lasts].append(runs)
            outcome = decision_pb2.Outcome(decision_id=decision.id, code=applied)
            yield delta_pb2.Op(outcome=outcome)
            yield upsert(runs, revision=2)

    def _ended(self, period: int) -> Iterator[delta_pb2.Op]:
        """Finishes and deletes gangs in the order of their start."""
        pods = self._ending.pop(period, [])
        for pod in pods:
            yield upsert(replace(pod, phase=PodPhase.SUCCEEDED), revision=3)
            yield _deletion(object_pb2.KIND_POD, pod.uid)
        for job in dict.fromkeys(pod.group_name for pod in pods):
            yield _deletion(object_pb2.KIND_POD_GROUP, f"uid-{job}")


def _deletion(kind: object_pb2.Kind.ValueType, uid: str) -> delta_pb2.Op:
    return delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=uid))

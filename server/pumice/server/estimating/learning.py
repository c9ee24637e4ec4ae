"""Learns run times from the ops of a live cluster and from recordings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.tasks import Task
from pumice.core.deltas import Deleted, Upserted
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.status import TaskStatus
from pumice.recordings import SUFFIX, Recording, RecordingError
from pumice.server.estimating.run_times import RunTimes, Template, template_of
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.v1 import object_pb2, pod_pb2
from pumice.v1.recording_pb2 import RecordingEntry

log = logging.getLogger("pumice.server")
_POD = object_pb2.KIND_POD
_FINISHED = (PodPhase.SUCCEEDED, PodPhase.FAILED)
# The same phases in recordings.
_FINISHED_PHASES = (pod_pb2.POD_PHASE_SUCCEEDED, pod_pb2.POD_PHASE_FAILED)
_DEFAULT_QUEUE = CacheSettings().default_queue


# A live cluster.


def learn_ends(
    learned: RunTimes, cache: ClusterCache, ops: Iterable[NumberedOp], now_ns: int
) -> None:
    """Adds the run times of pods that end with these ops. Call it before the ops are applied."""
    for op in ops:
        if isinstance(op, NumberedPods):
            for pod in op.pods:
                if pod.terminating or pod.phase in _FINISHED:
                    _changed(learned, cache, pod, now_ns)
        elif op.kind == _POD:
            match op.delta:
                case Upserted(Pod() as pod) if pod.terminating or pod.phase in _FINISHED:
                    _changed(learned, cache, pod, now_ns)
                case Deleted():
                    _deleted(learned, cache, op.uid, now_ns)
                case _:
                    pass


def _changed(learned: RunTimes, cache: ClusterCache, pod: Pod, now_ns: int) -> None:
    task = cache.tasks.get(pod.uid)
    if task is None or task.pod.phase in _FINISHED:
        return
    if pod.phase not in _FINISHED:
        learned.note_terminating(pod.uid, now_ns)
    elif pod.start_time_ns:
        learned.add(_template(cache, task), task.job_id, now_ns - pod.start_time_ns, now_ns)


def _deleted(learned: RunTimes, cache: ClusterCache, uid: str, now_ns: int) -> None:
    """Adds a deleted pod that was running. It counts if other pods of its job have succeeded."""
    learned.note_deleted(uid, now_ns)
    task = cache.tasks.get(uid)
    if task is None or task.pod.phase is not PodPhase.RUNNING or not task.pod.start_time_ns:
        return
    job = cache.jobs.get(task.job_id)
    if job is not None and job.index.by_status.get(TaskStatus.SUCCEEDED):
        learned.add(_template(cache, task), task.job_id, now_ns - task.pod.start_time_ns, now_ns)


def _template(cache: ClusterCache, task: Task) -> Template:
    job = cache.jobs.get(task.job_id)
    return template_of(task.pod, "" if job is None else job.queue)


# Recordings.


def learn_path(learned: RunTimes, path: Path) -> None:
    """Learns from a recording, or from all recordings in a folder, sorted by name.

    Unreadable recordings are logged and skipped.
    """
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    for file in files:
        try:
            with Recording(file) as recording:
                learn_recording(learned, recording.entries())
                if recording.ending is not None:
                    log.warning("%s: %s", file, recording.ending)
        except RecordingError as error:
            log.warning("cannot read run times from a recording: %s", error)
    log.info("%d run times are known from %d recordings", len(learned), len(files))


def learn_recording(learned: RunTimes, entries: Iterable[RecordingEntry]) -> None:
    reader = _RecordedRuns(learned)
    for entry in entries:
        reader.add(entry)


class _RecordedRuns:
    """Follows the running pods of a recording. Only these are kept in memory."""

    def __init__(self, learned: RunTimes) -> None:
        self._learned = learned
        # Names of queues by PodGroup, and names of PodGroups by uid.
        self._queues: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        # Running pods by uid, with their start times; and PodGroups with a succeeded pod.
        self._running: dict[str, tuple[int, Pod]] = {}
        self._succeeded: set[str] = set()

    def add(self, entry: RecordingEntry) -> None:
        now_ns = entry.entry_time.ToNanoseconds()
        for held in _objects(entry):
            if held.HasField("pod"):
                self._pod(held.pod, now_ns)
            elif held.HasField("pod_group"):
                group = held.pod_group
                name = f"{group.namespace}/{group.name}"
                self._groups[group.uid] = name
                self._queues[name] = group.queue or _DEFAULT_QUEUE
        for op in entry.delta_batch.ops:
            if op.HasField("tombstone"):
                self._gone(op.tombstone, now_ns)

    def _pod(self, pod: pod_pb2.Pod, now_ns: int) -> None:
        if pod.phase in _FINISHED_PHASES:
            self._end(pod.uid, now_ns)
            if pod.phase == pod_pb2.POD_PHASE_SUCCEEDED and pod.group_name:
                self._succeeded.add(f"{pod.namespace}/{pod.group_name}")
        elif pod.terminating:
            self._learned.note_terminating(pod.uid, now_ns)
        elif pod.phase == pod_pb2.POD_PHASE_RUNNING and pod.uid not in self._running:
            start_ns = pod.start_time.ToNanoseconds() or now_ns
            self._running[pod.uid] = (start_ns, _named(pod))

    def _end(self, uid: str, now_ns: int) -> None:
        found = self._running.pop(uid, None)
        if found is not None:
            start_ns, pod = found
            queue = self._queues.get(_job_of(pod), _DEFAULT_QUEUE)
            self._learned.add(template_of(pod, queue), _job_of(pod), now_ns - start_ns, now_ns)

    def _gone(self, ref: object_pb2.ObjectRef, now_ns: int) -> None:
        if ref.kind == object_pb2.KIND_POD_GROUP:
            name = self._groups.pop(ref.uid, "")
            self._queues.pop(name, None)
            self._succeeded.discard(name)
        elif ref.kind == object_pb2.KIND_POD:
            self._learned.note_deleted(ref.uid, now_ns)
            found = self._running.get(ref.uid)
            if found is not None and _job_of(found[1]) in self._succeeded:
                # The pod ran until its job ended.
                self._end(ref.uid, now_ns)
            self._running.pop(ref.uid, None)


def _objects(entry: RecordingEntry) -> Iterator[object_pb2.ClusterObject]:
    for upsert in entry.checkpoint.objects:
        yield upsert.object
    for op in entry.delta_batch.ops:
        if op.HasField("upsert"):
            yield op.upsert.object


def _job_of(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.group_name}" if pod.group_name else pod.key


def _named(pod: pod_pb2.Pod) -> Pod:
    return Pod(
        pod.uid,
        pod.namespace,
        pod.name,
        group_name=pod.group_name,
        role=pod.role,
        controller_name=pod.controller_name,
    )

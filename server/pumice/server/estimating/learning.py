"""Learns run times from the ops of a live cluster."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.tasks import Task
from pumice.core.deltas import Deleted, Upserted
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.status import TaskStatus
from pumice.server.estimating.run_times import RunTimes, Template, template_of
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.v1 import object_pb2

_POD = object_pb2.KIND_POD
_FINISHED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


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

"""What a cluster looks like to people: queues, jobs and nodes, made by the owner when asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pumice.core.cache.jobs import Job
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase, Queue
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.accounts import QueueAccount
from pumice.core.session.session import Session
from pumice.server.records import timestamp
from pumice.server.served import ServedCluster
from pumice.server.wire import write_reason
from pumice.server.wire.groups import write_pod_group_status, write_queue
from pumice.v1 import inspection_service_pb2, session_pb2

T = TypeVar("T")
_BOUND = (TaskStatus.BINDING, TaskStatus.BOUND)
# Amounts that stand for "no limit" are left out.
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Overview(Generic[T]):
    """One list of a cluster between two sessions, in the order of names."""

    session: int
    based_on_seq: int
    items: list[T]


def overview_of(served: ServedCluster, made_by: Callable[[Engine], list[T]]) -> Overview[T] | None:
    """None before the first snapshot is whole."""
    if not served.complete:
        return None
    engine = served.state.engine
    return Overview(engine.session, served.state.applied_seq, made_by(engine))


def _amounts(held: Resources) -> dict[str, int]:
    return {
        name: int(amount)
        for name, amount in held.items()
        if amount and math.isfinite(amount) and abs(amount) < _LARGEST
    }


def queues_of(engine: Engine) -> list[inspection_service_pb2.QueueInfo]:
    phases: dict[str, dict[PodGroupPhase, int]] = {}
    for job in engine.cache.jobs.values():
        if job.group is not None:
            counts = phases.setdefault(job.queue, {})
            counts[job.phase] = counts.get(job.phase, 0) + 1
    return [
        _queue(queue, engine.accounts.get(queue.name), phases.get(queue.name, {}))
        for queue in engine.cache.session_queues().values()
    ]


def shares_of(source: Engine | Session) -> list[session_pb2.QueueShare]:
    """What every queue may have, has and wants, in a session or after the last one."""
    return [_share(queue, source.accounts.get(queue.name)) for queue in source.cache.queues]


def _share(queue: Queue, account: QueueAccount | None) -> session_pb2.QueueShare:
    share = session_pb2.QueueShare(name=queue.name)
    if account is not None:
        share.deserved.update(_amounts(account.deserved))
        share.allocated.update(_amounts(account.allocated))
        share.requested.update(_amounts(account.request))
        share.inqueue.update(_amounts(account.inqueue))
        share.share = account.share_now()
        share.overused = bool(account.deserved.less_equal(account.allocated))
    else:
        share.allocated.update(_amounts(Resources.of(queue.allocated)))
    return share


def _queue(
    queue: Queue, account: QueueAccount | None, phases: dict[PodGroupPhase, int]
) -> inspection_service_pb2.QueueInfo:
    written = write_queue(queue)
    info = inspection_service_pb2.QueueInfo(
        share=_share(queue, account),
        parent=queue.parent,
        state=written.state,
        weight=queue.weight,
        priority=queue.priority,
        reclaimable=queue.reclaimable is not False,
        pending_job_count=phases.get(PodGroupPhase.PENDING, 0) + phases.get(PodGroupPhase.NONE, 0),
        inqueue_job_count=phases.get(PodGroupPhase.INQUEUE, 0),
        running_job_count=phases.get(PodGroupPhase.RUNNING, 0),
        unknown_job_count=phases.get(PodGroupPhase.UNKNOWN, 0),
    )
    if written.HasField("capability"):
        info.capability.CopyFrom(written.capability)
    if written.HasField("guarantee"):
        info.guarantee.CopyFrom(written.guarantee)
    return info


def jobs_of(engine: Engine) -> list[inspection_service_pb2.JobInfo]:
    reasons = {wait.job: wait.reasons for wait in engine.waits}
    infos = []
    for id_, job in sorted(engine.cache.jobs.items()):
        info = _job(job)
        if info is not None:
            info.reasons.extend(write_reason(reason) for reason in reasons.get(id_, ()))
            infos.append(info)
    return infos


def _job(job: Job) -> inspection_service_pb2.JobInfo | None:
    group, count = job.group, job.index.count
    if group is None:
        return None
    return inspection_service_pb2.JobInfo(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        queue=job.queue,
        phase=write_pod_group_status(group.status).phase,
        priority=job.priority,
        min_member=group.min_member,
        pending_count=count(TaskStatus.PENDING),
        running_count=count(TaskStatus.RUNNING),
        succeeded_count=count(TaskStatus.SUCCEEDED),
        failed_count=count(TaskStatus.FAILED),
        bound_count=count(*_BOUND),
        releasing_count=count(TaskStatus.RELEASING),
        creation_time=timestamp(group.creation_time_ns),
        allocated=_amounts(job.index.allocated),
    )


def nodes_of(engine: Engine) -> list[inspection_service_pb2.NodeInfo]:
    table = engine.cache.table
    table.settle()
    infos = []
    for name in sorted(table.entries):
        entry = table.entries[name]
        if entry.node is None or entry.row < 0:
            infos.append(
                inspection_service_pb2.NodeInfo(name=name, missing=True, pod_count=len(entry.tasks))
            )
            continue
        columns = {
            field: dict(zip(table.columns, map(int, array[:, entry.row].tolist()), strict=True))
            for field, array in (
                ("allocatable", table.allocatable),
                ("used", table.used),
                ("idle", table.idle),
                ("releasing", table.releasing),
            )
        }
        info = inspection_service_pb2.NodeInfo(
            name=name, unschedulable=entry.node.unschedulable, pod_count=len(entry.tasks)
        )
        for field, amounts in columns.items():
            getattr(info, field).update({key: value for key, value in amounts.items() if value})
        infos.append(info)
    return infos

"""Messages about queues, jobs and nodes, made from a view."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase, Queue
from pumice.core.model.reasons import Reason
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.queues import QueueAccount
from pumice.core.session.session import Session
from pumice.server.cluster_view import ClusterView, JobRow
from pumice.server.wire import write_reason
from pumice.server.wire.groups import QUEUE, write_pod_group_status
from pumice.server.wire.times import timestamp
from pumice.v1 import group_pb2, inspection_service_pb2, session_pb2

_BOUND = (TaskStatus.BINDING, TaskStatus.BOUND)
# Larger amounts mean "no limit" and are omitted.
_LARGEST = 2**62


def _amounts(held: Resources) -> dict[str, int]:
    return {
        name: int(amount)
        for name, amount in held.items()
        if amount and math.isfinite(amount) and abs(amount) < _LARGEST
    }


def queues_of(view: ClusterView, names: Iterable[str]) -> list[inspection_service_pb2.QueueInfo]:
    """The queues with these names, in the same order."""
    queues = {queue.name: queue for queue in view.queues}
    phases: dict[str, Counter[PodGroupPhase]] = {}
    for row in view.jobs.values():
        phases.setdefault(row.queue, Counter())[row.group.status.phase] += 1
    no_jobs: Counter[PodGroupPhase] = Counter()
    return [
        _queue(
            queue,
            _share(queue, view.accounts.get(queue.name), view.requests.get(queue.name)),
            phases.get(queue.name, no_jobs),
        )
        for queue in (queues[name] for name in names)
    ]


def shares_of(source: Engine | Session) -> list[session_pb2.QueueShare]:
    """The shares of all queues, in a session or after the last session."""
    accounts = source.accounts
    return [
        _share(queue, account, None if account is None else account.request)
        for queue, account in ((queue, accounts.get(queue.name)) for queue in source.cache.queues)
    ]


def _share(
    queue: Queue, account: QueueAccount | None, request: Resources | None
) -> session_pb2.QueueShare:
    share = session_pb2.QueueShare(name=queue.name)
    if account is not None and request is not None:
        share.deserved.update(_amounts(account.deserved))
        share.allocated.update(_amounts(account.allocated))
        share.requested.update(_amounts(request))
        share.inqueue.update(_amounts(account.inqueue))
        share.share = account.share_now()
        # A queue that deserves nothing and holds nothing is not overused.
        holds = any(amount > 0 for _, amount in account.allocated.items())
        share.overused = holds and bool(account.deserved.less_equal(account.allocated))
    else:
        share.allocated.update(_amounts(Resources.of(queue.allocated)))
    return share


def _queue(
    queue: Queue, share: session_pb2.QueueShare, phases: Mapping[PodGroupPhase, int]
) -> inspection_service_pb2.QueueInfo:
    written = QUEUE.write(queue)
    info = inspection_service_pb2.QueueInfo(
        share=share,
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


def jobs_of(view: ClusterView, ids: Iterable[str]) -> list[inspection_service_pb2.JobInfo]:
    """The jobs with these ids, in the same order."""
    reasons = {wait.job: wait.reasons for wait in view.waits}
    return [_job(view.jobs[id_], reasons.get(id_, ())) for id_ in ids]


def _job(row: JobRow, reasons: Iterable[Reason]) -> inspection_service_pb2.JobInfo:
    group, counts = row.group, row.counts
    return inspection_service_pb2.JobInfo(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        queue=row.queue,
        phase=phase_of(row),
        priority=row.priority,
        min_member=group.min_member,
        pending_count=counts.get(TaskStatus.PENDING, 0),
        running_count=counts.get(TaskStatus.RUNNING, 0),
        succeeded_count=counts.get(TaskStatus.SUCCEEDED, 0),
        failed_count=counts.get(TaskStatus.FAILED, 0),
        bound_count=sum(counts.get(status, 0) for status in _BOUND),
        releasing_count=counts.get(TaskStatus.RELEASING, 0),
        creation_time=timestamp(group.creation_time_ns),
        allocated=_amounts(row.allocated),
        reasons=map(write_reason, reasons),
    )


def phase_of(row: JobRow) -> group_pb2.PodGroupPhase.ValueType:
    return write_pod_group_status(row.group.status).phase


def node_names(view: ClusterView) -> list[str]:
    """The sorted names of all nodes, including missing nodes that pods name."""
    nodes = view.nodes
    return sorted([*nodes.names, *nodes.missing]) if nodes.missing else nodes.names


def nodes_of(view: ClusterView, names: Iterable[str]) -> list[inspection_service_pb2.NodeInfo]:
    """The nodes with these names, in the same order."""
    nodes = view.nodes
    rows = {name: row for row, name in enumerate(nodes.names)}
    return [
        _node(view, name, rows[name])
        if name in rows
        else inspection_service_pb2.NodeInfo(
            name=name, missing=True, pod_count=nodes.missing.get(name, 0)
        )
        for name in names
    ]


def _node(view: ClusterView, name: str, row: int) -> inspection_service_pb2.NodeInfo:
    nodes = view.nodes
    info = inspection_service_pb2.NodeInfo(
        name=name, unschedulable=nodes.unschedulable[row], pod_count=int(nodes.pods[row])
    )
    for field, array in (
        (info.allocatable, nodes.allocatable),
        (info.used, nodes.used),
        (info.idle, nodes.idle),
        (info.releasing, nodes.releasing),
    ):
        amounts = zip(nodes.columns, map(int, array[:, row].tolist()), strict=True)
        field.update({key: value for key, value in amounts if value})
    promised = view.pipelined.get(name)
    if promised is not None:
        info.pipelined.update(_amounts(promised))
    return info

"""What an engine can say about one job or pod between two sessions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.engine import Engine
from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session
from pumice.server.board import View
from pumice.server.explaining.ahead import place_those_ahead
from pumice.server.explaining.limits import LimitsMet, limits_met
from pumice.server.explaining.nearest import nearest_nodes, placement_of, too_large
from pumice.server.queue_tree import why_no_tree
from pumice.server.state import ClusterState
from pumice.server.wire.groups import write_pod_group_status
from pumice.v1 import explanation_pb2, group_pb2

_PLACED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING)
# Of a job that was placed, so many pods are looked at.
_MOST_PLACEMENTS = 3
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_NAMES = 5_000


@dataclass(slots=True)
class Sight:
    """All that was seen; plain values, to be read on any thread."""

    session: int
    based_on_seq: int
    # Empty: there is no such job.
    job: str = ""
    queue: str = ""
    phase: group_pb2.PodGroupPhase.ValueType = group_pb2.POD_GROUP_PHASE_UNSPECIFIED
    has_group: bool = False
    # Where its queue does not exist: those that may have been meant.
    near_queues: list[str] = field(default_factory=list)
    # None: there is no such queue, or nobody looked.
    queue_state: QueueState | None = None
    min_available: int = 0
    counts: dict[TaskStatus, int] = field(default_factory=dict)
    # From the book: why the last session held it back.
    reasons: tuple[Reason, ...] = ()
    # The pod that was asked for, if there is one, and those that were placed.
    pod: str = ""
    pod_uid: str = ""
    pod_status: TaskStatus | None = None
    pod_node: str = ""
    pod_is_ours: bool = True
    # Of a pod that is not ours, where it is known.
    pod_scheduler: str = ""
    blocking: str = ""
    # A pending pod that is held by scheduling gates, and their names.
    gated: str = ""
    gates: tuple[str, ...] = ()
    # Members of the gang that are imagined on their nodes before the blocking pod is looked at.
    ahead: int = 0
    # They are too many for that: what is left for the blocking pod is not known.
    is_crowded: bool = False
    # What the job, and the blocking pod after those ahead, would run into.
    limits: LimitsMet = field(default_factory=LimitsMet)
    # None: nobody looked.
    node_count: int | None = None
    # What is wrong with the tree of queues, if anything is.
    no_tree: str = ""
    # What the blocking pod asks for more of than any node has.
    too_large: list[explanation_pb2.ResourceShortage] = field(default_factory=list)
    nearest: list[explanation_pb2.NearestNode] = field(default_factory=list)
    placements: list[explanation_pb2.Placement] = field(default_factory=list)
    # By pod name, for finding the decision.
    placed_uids: dict[str, str] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    plugins: frozenset[str] = frozenset()
    # Names there are, when there is none like the one asked for.
    names: list[str] = field(default_factory=list)
    # Nobody could look at nodes.
    without_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom to look at."""

    namespace: str
    name: str
    is_pod: bool
    nodes: int
    # The pod that the last session named as the one that does not fit; empty: none.
    blocking: str = ""
    # Whether the last session held the job back at all.
    waits: bool = False
    # Members of its gang that may be imagined on their nodes first: each takes its time.
    most_ahead: int = 1_000
    # Whether a session is known to have evicted the pod, which may be gone since.
    evicted: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def see(state: ClusterState, subject: Subject, now_ns: int) -> Sight:
    """In the owner's thread, or in the process that follows it."""
    engine = state.engine
    configuration = engine.configuration
    sight = Sight(engine.session, state.applied_seq)
    sight.actions = tuple(configuration.actions)
    sight.plugins = frozenset(o.name for tier in configuration.tiers for o in tier)
    task = _find_pod(engine, subject, sight) if subject.is_pod else None
    job = _find_job(engine, subject, task)
    if job is not None:
        _see_job(engine, job, sight)
    if job is None and task is None:
        sight.names = _names(engine, subject)
        return sight
    _look_closer(engine, subject, job, task, sight, now_ns)
    return sight


def glimpse(view: View, subject: Subject) -> Sight | None:
    """What the board knows of a job or pod; None: of this one nothing can be said."""
    sight = Sight(
        view.session,
        view.based_on_seq,
        actions=view.actions,
        plugins=view.plugins,
        without_nodes=True,
    )
    if subject.is_pod:
        return sight if _glimpse_pod(view, subject, sight) else None
    id_ = _find_id(view.jobs, subject)
    if id_ is None:
        return None
    _glimpse_job(view, id_, sight)
    sight.blocking = subject.blocking
    return sight


def _glimpse_job(view: View, id_: str, sight: Sight) -> None:
    row = view.jobs.get(id_)
    sight.job = id_
    if row is None:
        return
    sight.queue, sight.has_group = row.queue, True
    sight.phase = write_pod_group_status(row.group.status).phase
    sight.near_queues = _near_queues(row.queue, [queue.name for queue in view.queues])
    states = {queue.name: queue.state for queue in view.queues}
    sight.queue_state = states.get(row.queue)
    sight.min_available, sight.counts = row.min_available, dict(row.counts)


def _glimpse_pod(view: View, subject: Subject, sight: Sight) -> bool:
    """Whether there is anything to be said of the pod."""
    pod = view.pods.find(subject.namespace, subject.name)
    if pod is None:
        # One that was evicted may be gone; of any other the core may just have heard.
        return subject.evicted
    sight.pod = pod.name
    if pod.status is None:
        sight.pod_is_ours = False
        return True
    sight.pod_uid, sight.pod_status, sight.pod_node = pod.uid, pod.status, pod.node_name
    if pod.job:
        _glimpse_job(view, pod.job, sight)
    if pod.status is TaskStatus.PENDING:
        sight.blocking = pod.name
        if pod.gates:
            sight.gated, sight.gates = pod.name, pod.gates
    elif pod.status in _PLACED:
        sight.placed_uids = {pod.name: pod.uid}
        where = explanation_pb2.ScoredNode(node=pod.node_name)
        sight.placements = [explanation_pb2.Placement(pod=pod.name, node=where)]
    return True


def _find_pod(engine: Engine, subject: Subject, sight: Sight) -> Task | None:
    # By name first, and without a call each: a large cluster has a hundred thousand.
    named = [t for t in engine.cache.tasks.values() if t.pod.name == subject.name]
    found = [task for task in named if task.key == subject.key]
    if found:
        # Of two pods of one name the newer one.
        task = max(found, key=lambda each: each.order_key)
        sight.pod, sight.pod_uid = task.name, task.uid
        sight.pod_status, sight.pod_node = task.status, task.node_name
        return task
    foreign = next((p for p in engine.cache.foreign.values() if p.key == subject.key), None)
    if foreign is not None:
        sight.pod, sight.pod_is_ours = subject.name, False
        sight.pod_scheduler = foreign.spec.scheduler_name
    return None


def _find_job(engine: Engine, subject: Subject, task: Task | None) -> Job | None:
    jobs = engine.cache.jobs
    if subject.is_pod:
        return jobs.get(task.job_id) if task is not None else None
    id_ = _find_id(jobs, subject)
    return None if id_ is None else jobs[id_]


def _find_id(jobs: Collection[str], subject: Subject) -> str | None:
    if subject.key in jobs:
        return subject.key
    # Volcano's job controller adds the job's uid to its name.
    made = [id_ for id_ in jobs if id_.startswith(f"{subject.key}-")]
    made = [id_ for id_ in made if _UID.fullmatch(id_[len(subject.key) :])]
    return max(made) if made else None


def _see_job(engine: Engine, job: Job, sight: Sight) -> None:
    sight.job, sight.queue = job.id, job.queue
    queue = engine.cache.session_queues().get(job.queue)
    sight.queue_state = None if queue is None else queue.state
    sight.has_group = job.group is not None
    sight.near_queues = _near_queues(job.queue, engine.cache.session_queues())
    sight.min_available = job.min_available
    if job.group is not None:
        sight.phase = write_pod_group_status(job.group.status).phase
    sight.counts = {s: len(tasks) for s, tasks in job.index.by_status.items() if tasks}


def _near_queues(name: str, there: Collection[str]) -> list[str]:
    return [] if name in there else get_close_matches(name, there, n=2)


def _names(engine: Engine, subject: Subject) -> list[str]:
    names: Iterable[str]
    if subject.is_pod:
        names = (task.key for task in engine.cache.tasks.values())
    else:
        names = engine.cache.jobs
    names = list(names)
    same = f"{subject.namespace}/"
    found = [key for key in names if key.startswith(same) or key.endswith(f"/{subject.name}")]
    if not found:
        there = sorted({key.partition("/")[0] for key in names})
        near = get_close_matches(subject.namespace, there, n=1, cutoff=0.5)
        found = [key for key in names if near and key.startswith(f"{near[0]}/")]
    return found[:_MOST_NAMES]


# A closer look needs the plugins.


def _look_closer(
    engine: Engine,
    subject: Subject,
    job: Job | None,
    task: Task | None,
    sight: Sight,
    now_ns: int,
) -> None:
    waiting = _blocking(job, task, subject)
    _see_gates(job, task, sight)
    if waiting is not None or sight.gated:
        sight.blocking = waiting.name if waiting is not None else sight.gated
    sight.node_count = len(engine.cache.table)
    placed: list[Task] = []
    if task is not None:
        placed = [task] if task.status in _PLACED else []
    elif job is not None and waiting is None:
        placed = [t for s in _PLACED for t in job.index.in_order(s)][:_MOST_PLACEMENTS]
    sight.placed_uids = {each.name: each.uid for each in placed}
    queued = job if job is not None and job.group is not None else None
    asks = waiting is not None or placed or (queued is not None and queued.is_pending)
    if not asks or not len(engine.cache.table):
        return

    def look(session: Session) -> None:
        known = queued if queued is not None and queued.queue in session.queues else None
        if waiting is not None and not waiting.gated:
            if known is not None:
                ahead = place_those_ahead(session, known, waiting, subject.most_ahead)
                sight.ahead, sight.is_crowded = ahead or 0, ahead is None
            sight.too_large = too_large(session, waiting)
            if not sight.is_crowded:
                sight.nearest = nearest_nodes(session, waiting, subject.nodes)
        if known is not None:
            sight.limits = limits_met(session.accounts, known, waiting)
            sight.no_tree = why_no_tree(session, known.queue)
        sight.placements = [placement_of(session, each, subject.nodes) for each in placed]

    engine.look(look, now_ns)


def _see_gates(job: Job | None, task: Task | None, sight: Sight) -> None:
    """The pod asked for, if it is the one behind a gate; else the first of the job."""
    pending: Iterable[Task] = job.index.in_order(TaskStatus.PENDING) if job is not None else ()
    held = [each for each in pending if each.gated and not each.only_volcano_gate]
    chosen = task if task in held else next(iter(held), None)
    if chosen is not None:
        sight.gated, sight.gates = chosen.name, chosen.class_.spec.scheduling_gates


def _blocking(job: Job | None, task: Task | None, subject: Subject) -> Task | None:
    """The pod that holds the job back; the one asked for, if it waits itself."""
    if task is not None and task.status is TaskStatus.PENDING:
        return task
    if job is None or task is not None or not subject.waits:
        return None
    pending = job.index.in_order(TaskStatus.PENDING)
    if not subject.blocking:
        return pending[0] if pending else None
    return next((each for each in pending if each.name == subject.blocking), None)

"""Facts about one job or pod, for its explanation."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.engine import Engine
from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session
from pumice.server.cluster_view import ClusterView
from pumice.server.explaining.earlier_members import place_earlier_members
from pumice.server.explaining.nearest import nearest_nodes, placement_of, too_large
from pumice.server.explaining.reached_limits import ReachedLimits, reached_limits
from pumice.server.queue_tree import why_no_tree
from pumice.server.state import ClusterState
from pumice.server.wire.groups import write_pod_group_status
from pumice.v1 import explanation_pb2, group_pb2

_PLACED = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.RELEASING)
# Number of pods of a placed job whose placement is explained.
MAX_PLACEMENTS = 3
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAX_NAMES = 5_000
# Number and least similarity of the names that are suggested for a misspelled one.
_SUGGESTED_NAMES = 3
_LEAST_SIMILARITY = 0.5


@dataclass(slots=True)
class Facts:
    """Facts as plain values, which any thread may read."""

    session: int
    based_on_seq: int
    # Empty: the job does not exist.
    job: str = ""
    queue: str = ""
    phase: group_pb2.PodGroupPhase.ValueType = group_pb2.POD_GROUP_PHASE_UNSPECIFIED
    has_group: bool = False
    # Queues with similar names, if the queue of the job does not exist.
    near_queues: list[str] = field(default_factory=list)
    # None: the queue does not exist or was not read.
    queue_state: QueueState | None = None
    min_available: int = 0
    counts: dict[TaskStatus, int] = field(default_factory=dict)
    # Why the last session held the job back, from the history.
    reasons: tuple[Reason, ...] = ()
    # The pod that is explained, if it exists.
    pod: str = ""
    pod_uid: str = ""
    pod_status: TaskStatus | None = None
    pod_node: str = ""
    pod_is_ours: bool = True
    # The scheduler of a pod that is not ours, if known.
    pod_scheduler: str = ""
    blocking: str = ""
    # A pending pod with scheduling gates, and the names of the gates.
    gated: str = ""
    gates: tuple[str, ...] = ()
    # Number of gang members that were placed before the blocking pod.
    ahead: int = 0
    # Whether the gang has too many members to place them, so that nearest nodes are unknown.
    is_gang_too_large: bool = False
    # Queue limits that the job and the blocking pod exceed.
    limits: ReachedLimits = field(default_factory=ReachedLimits)
    # None: nodes were not read.
    node_count: int | None = None
    # The fault in the queue tree; empty: none.
    no_tree: str = ""
    # Resources of which the blocking pod requests more than any node has.
    too_large: list[explanation_pb2.ResourceShortage] = field(default_factory=list)
    nearest: list[explanation_pb2.NearestNode] = field(default_factory=list)
    placements: list[explanation_pb2.Placement] = field(default_factory=list)
    # Uids of placed pods by name, to find their decisions.
    placed_uids: dict[str, str] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    plugins: frozenset[str] = frozenset()
    # Existing names among which to search, if the job or pod does not exist.
    names: list[str] = field(default_factory=list)
    # Whether the nodes could not be read.
    without_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """The job or pod that is explained."""

    namespace: str
    name: str
    is_pod: bool
    nodes: int
    # The pod that did not fit in the last session; empty: none.
    blocking: str = ""
    # Whether the last session held the job back.
    waits: bool = False
    # Maximum number of gang members that are placed first, because each takes time.
    max_earlier: int = 1_000
    # Whether a session evicted the pod, which may have been deleted since.
    evicted: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def gather_facts(state: ClusterState, subject: Subject, now_ns: int) -> Facts:
    """Collects the facts, on the owner's thread or in a replica process."""
    engine = state.engine
    configuration = engine.configuration
    facts = Facts(engine.session, state.applied_seq)
    facts.actions = tuple(configuration.actions)
    facts.plugins = frozenset(o.name for tier in configuration.tiers for o in tier)
    task = _find_pod(engine, subject, facts) if subject.is_pod else None
    job = _find_job(engine, subject, task)
    if job is not None:
        _add_job(engine, job, facts)
    if job is None and task is None:
        facts.names = candidate_names(engine, subject)
        return facts
    _add_session_facts(engine, subject, job, task, facts, now_ns)
    return facts


def facts_from_view(view: ClusterView, subject: Subject) -> Facts | None:
    """Facts from a view; None: the view does not contain the job or pod."""
    facts = Facts(
        view.session,
        view.based_on_seq,
        actions=view.actions,
        plugins=view.plugins,
        without_nodes=True,
    )
    if subject.is_pod:
        return facts if _add_pod_state(view, subject, facts) else None
    id_ = find_job_id(view.jobs, subject)
    if id_ is None:
        return None
    _add_job_row(view, id_, facts)
    facts.blocking = subject.blocking
    return facts


def _add_job_row(view: ClusterView, id_: str, facts: Facts) -> None:
    row = view.jobs.get(id_)
    facts.job = id_
    if row is None:
        return
    facts.queue, facts.has_group = row.queue, True
    facts.phase = write_pod_group_status(row.group.status).phase
    facts.near_queues = _near_queues(row.queue, [queue.name for queue in view.queues])
    states = {queue.name: queue.state for queue in view.queues}
    facts.queue_state = states.get(row.queue)
    facts.min_available, facts.counts = row.min_available, dict(row.counts)


def _add_pod_state(view: ClusterView, subject: Subject, facts: Facts) -> bool:
    """Adds the facts that the view has about the pod; returns whether the facts can be used."""
    pod = view.pods.find(subject.namespace, subject.name)
    if pod is None:
        # An evicted pod may be deleted. Any other missing pod may have arrived after the view.
        return subject.evicted
    facts.pod = pod.name
    if pod.status is None:
        facts.pod_is_ours = False
        return True
    facts.pod_uid, facts.pod_status, facts.pod_node = pod.uid, pod.status, pod.node_name
    if pod.job:
        _add_job_row(view, pod.job, facts)
    if pod.status is TaskStatus.PENDING:
        facts.blocking = pod.name
        if pod.gates:
            facts.gated, facts.gates = pod.name, pod.gates
    elif pod.status in _PLACED:
        facts.placed_uids = {pod.name: pod.uid}
        where = explanation_pb2.ScoredNode(node=pod.node_name)
        facts.placements = [explanation_pb2.Placement(pod=pod.name, node=where)]
    return True


def _find_pod(engine: Engine, subject: Subject, facts: Facts) -> Task | None:
    task = find_task(engine, subject)
    if task is not None:
        facts.pod, facts.pod_uid = task.name, task.uid
        facts.pod_status, facts.pod_node = task.status, task.node_name
        return task
    foreign = next((p for p in engine.cache.foreign.values() if p.key == subject.key), None)
    if foreign is not None:
        facts.pod, facts.pod_is_ours = subject.name, False
        facts.pod_scheduler = foreign.spec.scheduler_name
    return None


def find_task(engine: Engine, subject: Subject) -> Task | None:
    """The pod of this name; of two pods with the same name, the newer one."""
    # Names are compared first, because a large cluster has a hundred thousand pods.
    named = [t for t in engine.cache.tasks.values() if t.pod.name == subject.name]
    found = [task for task in named if task.key == subject.key]
    return max(found, key=lambda each: each.order_key, default=None)


def _find_job(engine: Engine, subject: Subject, task: Task | None) -> Job | None:
    jobs = engine.cache.jobs
    if subject.is_pod:
        return jobs.get(task.job_id) if task is not None else None
    id_ = find_job_id(jobs, subject)
    return None if id_ is None else jobs[id_]


def find_job_id(jobs: Collection[str], subject: Subject) -> str | None:
    """The job with this name, or the job of the Volcano Job with this name."""
    if subject.key in jobs:
        return subject.key
    # Volcano's job controller names the PodGroup after the Job and its uid.
    made = [id_ for id_ in jobs if id_.startswith(f"{subject.key}-")]
    made = [id_ for id_ in made if _UID.fullmatch(id_[len(subject.key) :])]
    return max(made) if made else None


def _add_job(engine: Engine, job: Job, facts: Facts) -> None:
    facts.job, facts.queue = job.id, job.queue
    queue = engine.cache.session_queues().get(job.queue)
    facts.queue_state = None if queue is None else queue.state
    facts.has_group = job.group is not None
    facts.near_queues = _near_queues(job.queue, engine.cache.session_queues())
    facts.min_available = job.min_available
    if job.group is not None:
        facts.phase = write_pod_group_status(job.group.status).phase
    facts.counts = {s: len(tasks) for s, tasks in job.index.by_status.items() if tasks}


def _near_queues(name: str, names: Collection[str]) -> list[str]:
    return [] if name in names else get_close_matches(name, names, n=2)


def candidate_names(engine: Engine, subject: Subject) -> list[str]:
    """Names of jobs or pods that may be similar to a misspelled one."""
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
    return found[:MAX_NAMES]


def nearest_names(key: str, names: Sequence[str]) -> list[str]:
    """Similar names in the namespace, then the same name in other namespaces, then similar keys."""
    namespace, _, name = key.partition("/")
    beside = {each.partition("/")[2]: each for each in names if each.startswith(f"{namespace}/")}
    found = [beside[near] for near in get_close_matches(name, beside, n=_SUGGESTED_NAMES)]
    found += [each for each in names if each.partition("/")[2] == name and each not in found]
    return found[:_SUGGESTED_NAMES] or get_close_matches(
        key, names, n=_SUGGESTED_NAMES, cutoff=_LEAST_SIMILARITY
    )


# Facts that need a session with plugins.


def _add_session_facts(
    engine: Engine,
    subject: Subject,
    job: Job | None,
    task: Task | None,
    facts: Facts,
    now_ns: int,
) -> None:
    waiting = _blocking(job, task, subject)
    _add_gates(job, task, facts)
    if waiting is not None or facts.gated:
        facts.blocking = waiting.name if waiting is not None else facts.gated
    facts.node_count = len(engine.cache.table)
    placed: list[Task] = []
    if task is not None:
        placed = [task] if task.status in _PLACED else []
    elif job is not None and waiting is None:
        placed = [t for s in _PLACED for t in job.index.in_order(s)][:MAX_PLACEMENTS]
    facts.placed_uids = {each.name: each.uid for each in placed}
    queued = job if job is not None and job.group is not None else None
    asks = waiting is not None or placed or (queued is not None and queued.is_pending)
    if not asks or not len(engine.cache.table):
        return

    def read(session: Session) -> None:
        known = queued if queued is not None and queued.queue in session.queues else None
        if waiting is not None and not waiting.gated:
            if known is not None:
                ahead = place_earlier_members(session, known, waiting, subject.max_earlier)
                facts.ahead, facts.is_gang_too_large = ahead or 0, ahead is None
            facts.too_large = too_large(session, waiting)
            if not facts.is_gang_too_large:
                facts.nearest = nearest_nodes(session, waiting, subject.nodes)
        if known is not None:
            facts.limits = reached_limits(session.accounts, known, waiting)
            facts.no_tree = why_no_tree(session, known.queue)
        facts.placements = [placement_of(session, each, subject.nodes) for each in placed]

    engine.inspect(read, now_ns)


def _add_gates(job: Job | None, task: Task | None, facts: Facts) -> None:
    """Adds the gates of the explained pod, or of the first gated pod of the job."""
    pending: Iterable[Task] = job.index.in_order(TaskStatus.PENDING) if job is not None else ()
    held = [each for each in pending if each.gated and not each.only_volcano_gate]
    chosen = task if task in held else next(iter(held), None)
    if chosen is not None:
        facts.gated, facts.gates = chosen.name, chosen.class_.spec.scheduling_gates


def _blocking(job: Job | None, task: Task | None, subject: Subject) -> Task | None:
    """The explained pod if it is pending, otherwise the pod that blocks the job."""
    if task is not None and task.status is TaskStatus.PENDING:
        return task
    if job is None or task is not None or not subject.waits:
        return None
    pending = job.index.in_order(TaskStatus.PENDING)
    if not subject.blocking:
        return pending[0] if pending else None
    return next((each for each in pending if each.name == subject.blocking), None)

"""The extension points of plugins, and how their results are combined."""

# ruff: noqa: RUF009 -- ``hook`` returns a dataclass field.
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import PluginOptions
from pumice.core.model.fit import Refusal
from pumice.core.model.group import Queue
from pumice.core.model.memo import Memo
from pumice.core.model.reasons import Reason
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.policies import (
    AllocatableCount,
    DomainOrder,
    MissingTasks,
    MissingVote,
    Order,
    PipelineVote,
    Readiness,
)

if TYPE_CHECKING:
    from pumice.core.session.session import Session

P = TypeVar("P")
PERMIT, ABSTAIN, REJECT = 1, 0, -1

Scores = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class EventHandler:
    """Called for every placement and removal; a text from ``allocated`` undoes the placement."""

    allocated: Callable[[Task], str | None]
    deallocated: Callable[[Task], None] | None = None
    # Does the same as ``allocated`` for several plain tasks of one class and job, none of which it
    # rejects. A handler without it is called for one task after the other.
    allocated_many: Callable[[list[Task]], None] | None = None
    # Whether ``allocated`` would reject none of these tasks on those rows. A handler without it never
    # rejects plain tasks.
    accepts_many: Callable[[list[Task], list[int]], bool] | None = None

    @classmethod
    def counting(cls, change: Callable[[Sequence[Task], int], None]) -> EventHandler:
        """A handler that counts tasks, and rejects none.

        ``change`` is called with tasks of one class and job and 1 when they are placed, and with one
        task and -1 when it is removed.
        """

        def allocated(task: Task) -> None:
            change((task,), 1)

        return cls(allocated, lambda task: change((task,), -1), lambda tasks: change(tasks, 1))


class Simulation(Protocol):
    """A plugin's private copy of its state, for the dry run of evictions on one node.

    A simulation is made for every preemptor and node from the current session, and its changes must
    not reach the session. A text from ``remove`` or ``add`` is an error: the node is not used. A
    subclass need not implement methods for hooks that the plugin does not have.
    """

    def remove(self, task: Task) -> str | None:
        """The task leaves the node."""

    def add(self, task: Task) -> str | None:
        """A removed task is on the node again."""

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue may take the task now."""
        return True

    def why_not(self, task: Task) -> str | None:
        """Why the task cannot run on this node now."""
        return None


def hook(flag: str = "") -> Any:
    """An extension point, with the configuration flag that can switch it off for a plugin."""
    return field(default_factory=dict, metadata={"flag": flag})


@dataclass(slots=True)
class Hooks:
    """One dictionary per extension point: plugin name -> function.

    Where ``policies`` has a strong form for a point, a plugin may register it instead of a function.
    Comparisons return a negative number when the left one comes first. Votes are PERMIT, ABSTAIN
    or REJECT. Functions called ``why_not_…`` return None if there is no problem.
    """

    job_order: dict[str, Order[Job]] = hook("enableJobOrder")
    sub_job_order: dict[str, Order[SubJob]] = hook("enabledSubJobOrder")
    queue_order: dict[str, Order[Queue]] = hook("enableQueueOrder")
    # The third queue is the preemptor's.
    victim_queue_order: dict[str, Callable[[Queue, Queue, Queue], int]] = hook()
    task_order: dict[str, Order[Task]] = hook("enableTaskOrder")

    # Called once per task, before the predicates: a text refuses the task on all nodes.
    pre_predicate: dict[str, Callable[[Task], str | None]] = hook("enablePredicate")
    # Refusals that hold for a class as long as no node object changes.
    class_predicate: dict[str, Callable[[TaskClass], Iterable[Refusal]]] = hook("enablePredicate")
    # Refusals that depend on a node's amounts: computed again for every row that has changed.
    row_predicate: dict[str, Callable[[TaskClass, NodeRows], Iterable[Refusal]]] = hook(
        "enablePredicate"
    )
    # Refusals that may depend on anything; None where the plugin has none for the task.
    task_predicate: dict[str, Callable[[Task], Iterable[Refusal] | None]] = hook("enablePredicate")
    # Called for every node, by name: slow for many nodes.
    node_predicate: dict[str, Callable[[Task, str], Refusal | str | None]] = hook("enablePredicate")

    # Scores of a class that hold as long as no node object changes.
    class_score: dict[str, Callable[[TaskClass], Scores]] = hook("enableNodeOrder")
    # Scores that depend on a node's amounts. ``row_score`` is added with the node order,
    # ``row_batch_score`` with the batch order, because floats are summed in Volcano's order.
    row_score: dict[str, Callable[[TaskClass, NodeRows], Scores]] = hook("enableNodeOrder")
    row_batch_score: dict[str, Callable[[TaskClass, NodeRows], Scores]] = hook("enableNodeOrder")
    # Scores that may depend on anything, such as the candidates; None: equal for all candidates.
    task_score: dict[str, Callable[[Task, Rows], Scores | None]] = hook("enableNodeOrder")
    task_batch_score: dict[str, Callable[[Task, Rows], Scores | None]] = hook("enableNodeOrder")
    # Called for every node, by name: slow for many nodes.
    node_score: dict[str, Callable[[Task, str], float]] = hook("enableNodeOrder")
    # Whether this plugin's task predicates and task scores have no effect on the task for any
    # candidates. Such tasks of one class are placed at once.
    is_plain: dict[str, Callable[[Task], bool]] = hook()
    best_node: dict[str, Callable[[Task, dict[str, float]], str | None]] = hook("enableBestNode")

    # Candidates -> (victims, vote).
    preemptable: dict[str, Callable[[Task, list[Task]], tuple[list[Task], int]]] = hook(
        "enablePreemptable"
    )
    reclaimable: dict[str, Callable[[Task, list[Task]], tuple[list[Task], int]]] = hook(
        "enableReclaimable"
    )
    # The same for the gang actions; the text is the action's name.
    unified_evictable: dict[str, Callable[[str, Job, list[Task]], tuple[list[Task], int]]] = hook()
    victim_tasks: dict[str, Callable[[list[Task]], list[Task]]] = hook("enabledVictim")

    overused: dict[str, Callable[[Queue], bool]] = hook("enabledOverused")
    preemptive: dict[str, Callable[[Queue, Sequence[Task]], bool]] = hook("enablePreemptive")
    allocatable: dict[str, Callable[[Queue, Task], bool]] = hook("enabledAllocatable")

    why_not_valid: dict[str, Callable[[Job], Reason | None]] = hook()
    job_ready: dict[str, Readiness[Job]] = hook("enableJobReady")
    sub_job_ready: dict[str, Readiness[SubJob]] = hook("enabledSubJobReady")
    job_pipelined: dict[str, PipelineVote[Job]] = hook("enableJobPipelined")
    sub_job_pipelined: dict[str, PipelineVote[SubJob]] = hook("enabledSubJobPipelined")
    job_starving: dict[str, Callable[[Job], bool]] = hook("enableJobStarving")
    # Whether the plugin's results at a point, whose name is the text, stay valid over sessions. For a
    # job that holds nothing: as long as that job does not change; for the order of queues: as long as
    # no task moves; for ``unified_evictable``: the result depends only on the job's queue and
    # priority; for ``job_enqueueable``: only on its queue, namespace and minimum. A plugin without it
    # is called for every waiting job in every session.
    lasts: dict[str, Callable[[str], bool]] = hook()
    job_enqueueable: dict[str, Callable[[Job], int]] = hook("enableJobEnqueued")
    job_enqueued: dict[str, Callable[[Job], None]] = hook("enableJobEnqueued")

    # (HyperNode name -> node rows) -> score by HyperNode.
    hyper_node_order: dict[str, DomainOrder] = hook("enabledHyperNodeOrder")
    # (job or sub-job, start, for evicting) -> HyperNodes by tier.
    job_gradient: dict[str, Callable[[Job, str, bool], list[list[str]]]] = hook(
        "enabledHyperNodeGradient"
    )
    sub_job_gradient: dict[str, Callable[[SubJob, str, bool], list[list[str]]]] = hook(
        "enabledHyperNodeGradient"
    )

    # For dry runs of evictions (topology-aware preemption): the preemptor and the row of a node
    # -> a simulation. ``remove`` and ``add`` are called if the plugin has enablePreemptable or
    # enabledAllocatable, ``is_allocatable`` under enabledAllocatable, ``why_not`` under
    # enablePredicate.
    simulation: dict[str, Callable[[Task, int], Simulation]] = hook()

    handlers: list[EventHandler] = field(default_factory=list)


# The configuration flag that switches a point off for a plugin; a point without one is always on.
FLAGS: dict[str, str] = {
    point.name: point.metadata["flag"] for point in fields(Hooks) if point.metadata.get("flag")
}


class Chains:
    """The functions of every point in the order of the tiers, flags applied."""

    def __init__(self, hooks: Hooks, tiers: Sequence[Sequence[PluginOptions]]) -> None:
        self.hooks = hooks
        self._tiers = tiers
        self._by_tier = Memo(self._look_up)
        # The same without names, and without tiers.
        self._tiered: Memo[str, list[list[Any]]] = Memo(
            lambda point: [[function for _, function in tier] for tier in self._by_tier[point]]
        )
        flat: Memo[str, list[Any]] = Memo(lambda point: [*chain.from_iterable(self._tiered[point])])
        named: Memo[str, list[tuple[str, Any]]] = Memo(
            lambda point: [*chain.from_iterable(self._by_tier[point])]
        )
        # By point; these are attributes because methods would be too slow for so many calls.
        self.tiers: Callable[[str], list[list[Any]]] = self._tiered.__getitem__
        self.flat: Callable[[str], list[Any]] = flat.__getitem__
        # Like ``flat``, with the names of the plugins.
        self.named: Callable[[str], list[tuple[str, Any]]] = named.__getitem__
        self._strong: dict[str, list[Any] | None] = {}

    def _look_up(self, point: str) -> list[list[tuple[str, Any]]]:
        """The functions of a point with the names of their plugins, tier by tier."""
        flag = FLAGS.get(point)
        functions: dict[str, Any] = getattr(self.hooks, point)
        return [
            [
                (options.name, functions[options.name])
                for options in tier
                if options.name in functions and (flag is None or options.enabled(flag))
            ]
            for tier in self._tiers
        ]

    def all_of(self, point: str, form: type[P]) -> list[P] | None:
        """The policies at a point, if all of them have this form; None: one has another form."""
        if point not in self._strong:
            functions = self.flat(point)
            strong = [function for function in functions if isinstance(function, form)]
            self._strong[point] = strong if len(strong) == len(functions) else None
        return self._strong[point]


class Votes:
    """The policies of a session: the results of all plugins, combined as in Volcano."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._chains = session.chains

    def why_not_valid(self, job: Job) -> Reason | None:
        code = self._session.cache.cool_downs.why_cooling(job.id, self._session.now_ns)
        if code is not None:
            return Reason("core", code)
        for function in self._chains.flat("why_not_valid"):
            reason: Reason | None = function(job)
            if reason is not None:
                return reason
        return None

    def is_ready(self, job: Job) -> bool:
        return _all(self._chains.flat("job_ready"), job)

    def is_pipelined(self, job: Job) -> bool:
        return vote(self._chains.tiers("job_pipelined"), job)

    def is_sub_job_ready(self, job: Job, sub_job: SubJob) -> bool:
        if not job.has_policies:
            return self.is_ready(job)
        return _all(self._chains.flat("sub_job_ready"), sub_job)

    def tasks_missing(self, part: Job | SubJob) -> int:
        """The least number of tasks to place before it can be ready; 1 if no plugin knows."""
        point = "job_ready" if isinstance(part, Job) else "sub_job_ready"
        return _most_missing(self._chains.flat(point), part)

    def least_of(self, part: Job | SubJob) -> int:
        """The least number of tasks to place or pipeline before it can be ready or pipelined."""
        point = "job_pipelined" if isinstance(part, Job) else "sub_job_pipelined"
        # A permission ends the vote after its tier, so that only the first tier is sure to be called.
        first = next((tier for tier in self._chains.tiers(point) if tier), ())
        return min(_most_missing(first, part), self.tasks_missing(part))

    def is_sub_job_pipelined(self, job: Job, sub_job: SubJob) -> bool:
        if not job.has_policies:
            return self.is_pipelined(job)
        return vote(self._chains.tiers("sub_job_pipelined"), sub_job)

    def is_starving(self, job: Job) -> bool:
        """The first tier with functions decides: all of them must return true."""
        for tier in self._chains.tiers("job_starving"):
            if tier:
                return _all(tier, job)
        return False

    def is_enqueueable(self, job: Job) -> bool:
        return vote(self._chains.tiers("job_enqueueable"), job)

    def enqueued(self, job: Job) -> None:
        for function in self._chains.flat("job_enqueued"):
            function(job)

    def is_overused(self, queue: Queue) -> bool:
        for function in self._chains.flat("overused"):  # noqa: SIM110
            if function(queue):
                return True
        return False

    def may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return _all(self._chains.flat("preemptive"), queue, tasks)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        return _all(self._chains.flat("allocatable"), queue, task)

    def allocatable_count(self, queue: Queue, task: Task, count: int) -> int:
        """How many of ``count`` tasks like this one the queue may take, one after the other.

        At most one if a plugin can only be called for one task at a time.
        """
        rules = self._chains.all_of("allocatable", AllocatableCount)
        if rules is None:
            return int(self.is_allocatable(queue, task))
        for rule in rules:
            allowed = rule.count(queue, task, count)
            count = allowed if allowed < count else count
        return count

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("preemptable"), preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("reclaimable"), reclaimer, candidates)

    def unified_evictable(self, action: str, job: Job, candidates: list[Task]) -> list[Task]:
        return victims(self._chains.tiers("unified_evictable"), action, job, candidates)

    def victim_tasks(self, tasks: list[Task]) -> list[Task]:
        """The union of the victims of the first tier that has any."""
        for tier in self._chains.tiers("victim_tasks"):
            found = {task.uid: task for function in tier for task in function(tasks)}
            if found:
                return list(found.values())
        return []


def _all(functions: list[Any], *arguments: Any) -> bool:
    """Whether every function returns true; a plain loop is faster than a generator."""
    for function in functions:  # noqa: SIM110
        if not function(*arguments):
            return False
    return True


def _most_missing(rules: Iterable[Any], part: Job | SubJob) -> int:
    """The largest number of missing tasks that a rule returns, at least 1."""
    most = 1
    for rule in rules:
        if isinstance(rule, MissingTasks | MissingVote) and (missing := rule.missing(part)) > most:
            most = missing
    return most


def vote(tiers: list[list[Any]], subject: Any) -> bool:
    """Combines votes: a rejection is final, a permission ends the vote after its tier, no vote permits."""
    for tier in tiers:
        permitted = False
        for function in tier:
            result = function(subject)
            if result < 0:
                return False
            permitted = permitted or result > 0
        if permitted:
            return True
    return True


def victims(tiers: list[list[Any]], *arguments: Any) -> list[Task]:
    """The victims that all plugins of a tier return, for the first tier with such victims.

    As in Volcano, a plugin without victims ends its tier, so that the next tier decides; and if the
    intersection becomes empty, the next plugin of the same tier starts a new one.
    """
    for tier in tiers:
        agreed: list[Task] | None = None
        for function in tier:
            candidates, result = function(*arguments)
            if result == ABSTAIN:
                continue
            if not candidates:
                agreed = None
                break
            if agreed is None:
                agreed = list(candidates)
            else:
                offered = {task.uid for task in candidates}
                agreed = [task for task in agreed if task.uid in offered] or None
        if agreed is not None:
            return agreed
    return []

"""One scheduling cycle over the cache.

A session changes the cache in place, and records the state of each task that it moves. When the
session ends, all changes that were not committed are undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TypeVar

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.jobs import Job
from pumice.core.cache.node_states import NodeStates
from pumice.core.cache.plugin_data import PluginData
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import QUEUE_ADMISSION, Task
from pumice.core.configuration import Configuration
from pumice.core.decisions import Event, Question
from pumice.core.model.group import PodGroupCondition, PodGroupPhase, Queue
from pumice.core.model.memo import Versioned
from pumice.core.model.reasons import Reason
from pumice.core.session.evicting import VictimJobs
from pumice.core.session.feasibility.choice import NodeChoice
from pumice.core.session.feasibility.filters import Feasibility
from pumice.core.session.feasibility.plain import PlainTasks
from pumice.core.session.feasibility.pods import SessionPods
from pumice.core.session.feasibility.views import ClassView, ClassViews, SessionViews
from pumice.core.session.hooks import Chains, Hooks, Votes
from pumice.core.session.orders import Orders
from pumice.core.session.outbox import Outbox
from pumice.core.session.placing.statement import Moves, Statement
from pumice.core.session.placing.topology import Topology
from pumice.core.session.queues import QueueAccount
from pumice.core.session.sharding import SessionShard, implied_tiers
from pumice.core.session.timings import Timings
from pumice.core.session.waiting import WaitingJobs

S = TypeVar("S")


class Session:
    """What actions and plugins may read, call and change in one cycle."""

    # Whether a plugin allocates resource claims; otherwise pods with claims are not placed.
    allocates_claims = False

    def __init__(
        self,
        number: int,
        now_ns: int,
        cache: ClusterCache,
        configuration: Configuration,
        views: ClassViews,
        left_out: Iterable[str] = (),
    ) -> None:
        self.number, self.now_ns = number, now_ns
        self.cache = cache
        self.table, self.labels = cache.table, cache.labels
        self.configuration = configuration
        # Whether no plugin was left out.
        self.is_whole = not tuple(left_out)
        self.tiers = [
            [options for options in tier if options.name not in left_out]
            for tier in (*implied_tiers(cache.settings.sharding_mode), *configuration.tiers)
        ]
        self.plugin_names = list(dict.fromkeys(o.name for tier in self.tiers for o in tier))
        self.queues: dict[str, Queue] = cache.session_queues()
        self.jobs: dict[str, Job] = cache.jobs.members(self.queues)
        # Without jobs whose tasks all run, which are most jobs of a large cluster.
        self.unsettled_jobs = cache.jobs.unsettled()
        self.waiting = WaitingJobs(cache.jobs.unschedulable, cache.jobs.inadmissible)
        self.total, self.totals = cache.session_total(), cache.jobs.totals
        self.hooks = Hooks()
        self.chains = Chains(self.hooks, self.tiers)
        self.orders, self.votes = Orders(self), Votes(self)
        self.feasibility, self.plain = Feasibility(self), PlainTasks(self)
        self.choice, self.outbox = NodeChoice(self), Outbox(self)
        self.moves, self.pods = Moves(self), SessionPods(self)
        self.topology, self.shard = Topology(self), SessionShard(self)
        self.events, self.questions = list[Event](), list[Question]()
        # By uid: tasks whose scheduling gate is lifted.
        self.lifted_gates: dict[str, Task] = {}
        self.reasons: dict[str, list[Reason]] = {}
        # Why nothing is scheduled in any queue; empty otherwise.
        self.queue_fault = ""
        # By job: the new conditions of its PodGroup, where a plugin changed them.
        self.conditions: dict[str, tuple[PodGroupCondition, ...]] = {}
        # Counters of work; and by plugin a time that is kept over sessions.
        self.work, self.kept_times = Counter[str](), dict[str, int]()
        # Broken gangs that were not visited yet in this session, and their queues: they come first.
        self.broken: dict[str, str] = {}
        # By queue, from the plugin that divides the cluster; explanations and lists of queues use it.
        self.accounts: dict[str, QueueAccount] = {}
        # The prefix makes the ids of sessions and decisions unique over engines.
        self.id_prefix, self.timings = "", Timings()
        self.views = SessionViews(self, views)
        # The view of a task's class, up to date.
        self.view: Callable[[Task], ClassView] = self.views.of

    @property
    def id(self) -> str:
        """The id of this session in conditions; unique over restarts."""
        return f"{self.id_prefix}session-{self.number}"

    # Bookkeeping.

    def count(self, what: str, number: int = 1) -> None:
        """Counts work done, for benchmarks and tests."""
        self.work[what] += number

    def explain(self, job: Job, reason: Reason) -> None:
        """Adds a reason why the job waits."""
        self.reasons.setdefault(job.id, []).append(reason)

    def record_event(self, job: Job, reason: str, message: str, *, warning: bool = False) -> None:
        """Records an event on the job's PodGroup."""
        group = job.group
        if group is None:
            owner = (job.namespace, job.name, "")
        else:
            owner = (group.namespace, group.name, group.uid)
        self.events.append(Event("PodGroup", *owner, warning, reason, message))

    def annotate(self, task: Task, annotations: Mapping[str, str]) -> None:
        """Adds annotations to the bind of a task; only a handler may call it while a task is placed.

        The annotations are removed if the placement is undone. Once the task is bound,
        ``task.annotations`` has them even before the cluster confirms them.
        """
        merged = {**dict(task.bind_annotations), **annotations}
        task.bind_annotations = tuple(sorted(merged.items()))
        row = self.table.row_of(task.node_name)
        if row is not None:
            self.table.touch(row)

    def lift_gate(self, task: Task) -> None:
        """Lifts Volcano's gate of a task that its queue may take, if the feature gate is on.

        As in Volcano, the gate is lifted even if the gang is not placed.
        """
        if (
            QUEUE_ADMISSION in self.cache.settings.feature_gates
            and task.only_volcano_gate
            and task.wants_queue_admission
        ):
            self.lifted_gates[task.uid] = task

    def node_states(
        self, plugin: str, make: Callable[[NodeEntry], S], basis: object = None
    ) -> NodeStates[S]:
        """The states of nodes that a plugin keeps; ``make`` computes one from a node and its tasks.

        If the basis differs from that of the last session, all states are computed again.
        """
        return self.cache.node_states.of(plugin, make, basis)

    def data(self, plugin: str) -> PluginData:
        """The data that the adapter has reported for a plugin."""
        return self.cache.plugin_data.of(plugin)

    def last_time(self, plugin: str) -> int | None:
        """The time that a plugin stored with ``keep_time``; None: it stored none.

        A time after this session was stored before the clock was set back, and does not count.
        """
        kept = self.kept_times.get(plugin, self.cache.plugin_times.get(plugin))
        return None if kept is not None and kept > self.now_ns else kept

    def keep_time(self, plugin: str, time_ns: int) -> None:
        """Stores a time for a plugin over sessions; it is dropped if the session fails."""
        self.kept_times[plugin] = time_ns

    # Jobs and queues.

    def runs_action(self, name: str) -> bool:
        return name in self.configuration.actions

    def queue_of(self, job: Job) -> Queue:
        return self.queues[job.queue]

    def job_of(self, task: Task) -> Job | None:
        return self.jobs.get(task.job_id)

    def sub_job_of(self, task: Task) -> SubJob:
        return self.jobs[task.job_id].sub_job_of(task.uid)

    def schedulable_jobs(self) -> list[Job]:
        """Admitted jobs in the order of their ids.

        Without the action enqueue, pending jobs are admitted here.
        """
        admits = not self.runs_action("enqueue")
        jobs = []
        for job in self.jobs_to_visit():
            if job.is_pending:
                if not admits:
                    continue
                self.set_phase(job, PodGroupPhase.INQUEUE)
            jobs.append(job)
        return jobs

    def jobs_to_visit(self) -> list[Job]:
        """Unsettled jobs that are not skipped, by id."""
        skipped = (self.waiting.unschedulable.waits, self.waiting.inadmissible.waits)
        if not any(skipped):
            return self.unsettled_jobs
        one, other = skipped
        return [job for job in self.unsettled_jobs if job.id not in one and job.id not in other]

    def concerned_jobs(self) -> list[Job]:
        """Jobs that were not skipped, or whose tasks this session moved, by id."""
        visited = self.jobs_to_visit()
        ids = {job.id for job in visited}
        if ids.issuperset(self.moves.touched_jobs):
            return visited
        return [self.jobs[id_] for id_ in sorted(ids | self.moves.touched_jobs)]

    @cached_property
    def victim_jobs(self) -> Versioned[VictimJobs]:
        """The jobs whose tasks can be evicted; shared by the actions that evict."""
        evictable = self.cache.evictable
        return Versioned(lambda: evictable.generation, lambda: VictimJobs(self))

    def set_phase(self, job: Job, phase: PodGroupPhase) -> None:
        self.moves.remember_phase(job)
        job.phase = phase

    def statement(self) -> Statement:
        return Statement(self)

    def abandon(self) -> None:
        """Undoes the whole session."""
        touched, concerned = self.moves.touched_jobs, self.concerned_jobs()
        self.moves.abort()
        for reservations in self.cache.reservations:
            reservations.close(())
        for job in concerned:
            job.fit_errors.clear()
            if job.id in touched:
                for task in job.index:
                    task.last_transaction = None

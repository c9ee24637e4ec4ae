"""preempt: makes room for starving jobs by evicting tasks of their own queue."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.actions.preempt.dry_run import DryRuns
from pumice.core.actions.preempt.eligibility import why_not_eligible
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, ArgumentType, boolean, ignored, integer
from pumice.core.configuration.volcano_names import REMEMBERS_ERRORS
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.reasons import NodeCount
from pumice.core.session.evicting import NodeEvictions, Preemptor, VictimScope
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session

_WHOLE = 100


class PreemptArguments(Arguments):
    """How preemption searches."""

    remembers_errors = REMEMBERS_ERRORS
    topology_aware = boolean(
        "enableTopologyAwarePreemption",
        "simulates evictions on several nodes, and evicts on the best one",
        default=False,
    )
    workers = ignored(
        "topologyAwarePreemptWorkerNum", "nodes are tried one after the other", ArgumentType.INT
    )
    candidate_percentage = integer(
        "minCandidateNodesPercentage",
        10,
        "minimum percentage of nodes that are searched for victims",
    )
    fewest_candidates = integer(
        "minCandidateNodesAbsolute", 1, "minimum number of nodes that are searched for victims"
    )
    most_candidates = integer(
        "maxCandidateNodesAbsolute", 100, "maximum number of nodes that are searched for victims"
    )

    def candidates_among(self, nodes: int) -> int:
        """The number of feasible nodes after which the search ends."""
        part = nodes * self.candidate_percentage // _WHOLE
        return min(max(part, self.fewest_candidates), self.most_candidates, nodes)


class PreemptAction:
    """Evicts, queue by queue, tasks of other jobs, then tasks of lower priority of the same job."""

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[type[Arguments]] = PreemptArguments

    def execute(self, session: Session) -> None:
        PreemptRun(session, self.name).run()


class PreemptRun(NodeEvictions):
    """One run of the action."""

    point = "preemptable"

    def __init__(self, session: Session, author: str) -> None:
        self._arguments = PreemptArguments(session.configuration.arguments_of(author))
        super().__init__(session, author, remembers_errors=self._arguments.remembers_errors)

    # Jobs.

    def may_help(self, job: Job) -> bool:
        return self._may_preempt(job) and any(
            self._might_make_room(job, task, scope)
            for task in self._task_of_each_class(job)
            for scope in (VictimScope.OTHER_JOBS, VictimScope.SAME_JOB)
        )

    def _may_preempt(self, job: Job) -> bool:
        return self._is_starving(job) and not job.stays_together

    def select(self, jobs: list[Job]) -> None:
        self._starving = [job for job in jobs if self._may_preempt(job)]
        for job in sorted(self._starving, key=lambda job: job.queue):
            self._enlist(job)

    def visit_queue(self, queue: Queue, jobs: LiveHeap[Job]) -> None:
        while jobs:
            self._make_room_for_job(jobs.pop())
        for job in self._starving:
            if job.queue == queue.name:
                self._make_room_within(job)

    def _make_room_within(self, job: Job) -> None:
        """Evicts tasks of lower priority of the same job, even if it does not starve any more."""
        for task in self._pending_tasks(job):
            statement = self._session.statement()
            if not self._preempt(statement, job, task, VictimScope.SAME_JOB):
                statement.discard()
                return
            statement.commit(job.id)

    # Tasks.

    def make_room(self, statement: Statement, job: Job, task: Task) -> None:
        self._preempt(statement, job, task, VictimScope.OTHER_JOBS)

    def _preempt(self, statement: Statement, job: Job, task: Task, scope: VictimScope) -> bool:
        session = self._session
        session.count("preemptors_tried")
        problem = why_not_eligible(session, task, session.view(task))
        problem = problem or session.feasibility.why_not_anywhere(task)
        if problem is not None:
            self._reasons.add(job, task.name, subjects=(problem,))
            return False
        preemptor = self._preemptor(job, task, scope)
        if self._evict_for(statement, preemptor):
            return True
        if job not in self._reasons:
            self._explain(preemptor)
        return False

    def _explain(self, preemptor: Preemptor) -> None:
        """Adds a reason with the number of nodes by the reason why evictions made no room there."""
        nodes, tried = preemptor.nodes, 0
        resolvable = int(np.count_nonzero(nodes))
        if self._has_large_node(preemptor):
            sufficient = self._search.sufficient_rows(preemptor)
            if not self._arguments.topology_aware:
                sufficient = sufficient | preemptor.view.fits_future
            tried = int(np.count_nonzero(nodes & sufficient))
        counts = (
            NodeCount("node(s) that no eviction could make feasible", len(nodes) - resolvable),
            NodeCount("node(s) with too few resources to evict", resolvable - tried),
            NodeCount("node(s) where evictions were not enough", tried),
        )
        shown = tuple(count for count in counts if count.nodes)
        self._reasons.add(preemptor.job, preemptor.task.name, nodes=shown)

    # Nodes.

    def free_rows(self, preemptor: Preemptor) -> Mask | None:
        """Nodes where the task fits without an eviction; None: its queue is full, so that none help."""
        session, task = self._session, preemptor.task
        queue = session.queue_of(preemptor.job)
        if self._arguments.topology_aware or not session.votes.is_allocatable(queue, task):
            return None
        return preemptor.view.fits_future

    def scores(self, preemptor: Preemptor) -> Floats:
        """The scores of nodes, normalized over all nodes where evictions could help."""
        session, task, view = self._session, preemptor.task, preemptor.view
        if session.plain.is_scored_by_class(task):
            session.count("candidates_scored", len(session.table))
            return view.order + view.batch
        rows = np.flatnonzero(preemptor.nodes)
        scores = np.zeros(len(session.table))
        scores[rows] = session.choice.scores(task, view, rows)
        return scores

    def fits(self, preemptor: Preemptor, row: int) -> bool:
        """Whether the queue, the resources and the predicates allow the task after the evictions."""
        session, task = self._session, preemptor.task
        return (
            session.votes.is_allocatable(session.queue_of(preemptor.job), task)
            and super().fits(preemptor, row)
            and not session.feasibility.is_refused(task, preemptor.view, row)
        )

    def _key(self, preemptor: Preemptor) -> tuple[object, ...] | None:
        # Undone evictions change Kubernetes' view, and so the results of predicates about other nodes.
        is_static = self._session.feasibility.is_static(preemptor.task)
        return super()._key(preemptor) if is_static else None

    def is_nominating(self, evicted: list[Task]) -> bool:
        """As in Volcano, evictions of best-effort tasks alone do not nominate the node."""
        return not all(victim.best_effort for victim in evicted)

    def _try_nodes(self, statement: Statement, preemptor: Preemptor) -> bool:
        if self._arguments.topology_aware:
            return self._dry_run_nodes(statement, preemptor)
        return super()._try_nodes(statement, preemptor)

    def _dry_run_nodes(self, statement: Statement, preemptor: Preemptor) -> bool:
        """Dry runs on several nodes, then evictions on the best one, as in Kubernetes' scheduler."""
        session = self._session
        enough = self._arguments.candidates_among(int(preemptor.nodes.sum()))
        runs = DryRuns(session, preemptor)
        for row in np.flatnonzero(preemptor.nodes & self._possible_rows(preemptor)).tolist():
            if len(runs) >= enough:
                break
            session.count("nodes_tried_for_victims")
            runs.try_node(row, self._search.candidates_on(row, preemptor))
        best = runs.best()
        if best is None:
            return False
        row, victims = best
        trial = session.statement()
        for victim in victims:
            trial.evict(victim, self._author)
        node = session.table.names[row]
        works = trial.pipeline(preemptor.task, node, eviction_occurred=True)
        return self._merge_if(works, statement, trial)

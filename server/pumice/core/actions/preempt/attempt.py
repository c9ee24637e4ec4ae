"""Makes room for one task by evictions on the best node where they are enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from pumice.core.actions.preempt.dry_run import DryRuns
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, ArgumentType, boolean, ignored, integer
from pumice.core.model.fit import Mask
from pumice.core.model.pod import Pod
from pumice.core.model.reasons import NodeCount
from pumice.core.model.status import EVICTABLE
from pumice.core.session.evicting.candidates import (
    REMEMBERS_ERRORS,
    EvictionNodes,
    EvictionReasons,
    frees_enough,
)
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.search import CandidateRows, VictimFilter, VictimSearch
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.hooks import Scores
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session

_DISRUPTED = "DisruptionTarget"
_BY_SCHEDULER = "PreemptionByScheduler"
_WHOLE = 100


class PreemptArguments(Arguments):
    """How preemption searches."""

    remembers_errors = REMEMBERS_ERRORS
    topology_aware = boolean(
        "enableTopologyAwarePreemption",
        "tries victims out node by node before it evicts",
        default=False,
    )
    workers = ignored(
        "topologyAwarePreemptWorkerNum", "nodes are tried one after the other", ArgumentType.INT
    )
    candidate_percentage = integer(
        "minCandidateNodesPercentage", 10, "at least this part of the nodes is tried for victims"
    )
    fewest_candidates = integer(
        "minCandidateNodesAbsolute", 1, "at least so many nodes are tried for victims"
    )
    most_candidates = integer(
        "maxCandidateNodesAbsolute", 100, "at most so many nodes are tried for victims"
    )

    def candidates_among(self, nodes: int) -> int:
        """How many feasible nodes are enough to choose from."""
        part = nodes * self.candidate_percentage // _WHOLE
        return min(max(part, self.fewest_candidates), self.most_candidates, nodes)


class VictimScope(Enum):
    """Whose tasks may be evicted for a task."""

    OTHER_JOBS = 1
    SAME_JOB = 2


@dataclass(frozen=True, slots=True)
class _Question:
    """A task that needs room, whose tasks may be evicted for it, and on which nodes."""

    job: Job
    task: Task
    view: ClassView
    scope: VictimScope
    # Nodes whose refusals an eviction could resolve.
    nodes: Mask


class Attempt:
    """Preempts for one task after the other in one run of the action."""

    def __init__(self, session: Session, author: str, arguments: PreemptArguments) -> None:
        self._session = session
        self._author = author
        self._arguments = arguments
        self._nodes = EvictionNodes(session, remembers_errors=arguments.remembers_errors)
        self._reasons = EvictionReasons(session, author)
        # What failed, by all that the outcome depends on, and where the log of moves stood then.
        self._failed: dict[tuple[object, ...] | None, int] = {}

    def begin_visit(self) -> None:
        """Forgets the representatives of waiting groups: a job that is visited itself is tried again."""
        self._reasons.clear()
        self._failed.clear()

    @cached_property
    def _search(self) -> VictimSearch:
        return VictimSearch(self._session, "preemptable")

    @cached_property
    def _order(self) -> VictimOrder:
        return VictimOrder(self._session)

    def make_room(self, statement: Statement, job: Job, task: Task, scope: VictimScope) -> bool:
        """Evicts for the task and pipelines it; false: nothing was changed."""
        session = self._session
        session.count("preemptors_tried")
        view = session.view(task)
        problem = _why_not_eligible(session, task, view)
        problem = problem or session.feasibility.why_not_anywhere(task)
        if problem is not None:
            self._reasons.add(job, task.name, subjects=(problem,))
            return False
        nodes = self._nodes.nodes_for(task, view)
        if not self._nodes.is_any_large_enough(nodes, view):
            self._explain_nodes(job, task, nodes, np.zeros(len(nodes), dtype=np.bool_))
            return False
        key = self._key(task, scope, nodes) if self._failed else None
        if self._failed.get(key) == len(session.moves.log):
            return False
        make_room = self._by_dry_run if self._arguments.topology_aware else self._by_score
        for group in session.shard.groups(nodes):
            if make_room(statement, _Question(job, task, view, scope, group)):
                return True
        key = self._key(task, scope, nodes)
        if key is not None:
            self._failed[key] = len(session.moves.log)
        if job not in self._reasons:
            question = _Question(job, task, view, scope, nodes)
            self._explain_nodes(job, task, nodes, nodes & self._sufficient_rows(question))
        return False

    def may_help(self, job: Job, task: Task) -> bool:
        """Whether evictions might open a node for a task of this class; false: surely not."""
        session = self._session
        view = session.view(task)
        nodes = session.feasibility.resolvable_by_eviction(task, view)
        nodes = nodes & self._nodes.large_enough(view)
        if not nodes.any():
            return False
        return any(
            bool((nodes & self._possible_rows(_Question(job, task, view, scope, nodes))).any())
            for scope in VictimScope
        )

    def _key(self, task: Task, scope: VictimScope, nodes: Mask) -> tuple[object, ...] | None:
        """Everything that the outcome for a task depends on; None: that is not known.

        Evictions that were undone leave traces in Kubernetes' view. Only tasks whose predicates
        look at no other node are sure to find the same again.
        """
        if not self._search.is_predictable or not self._session.feasibility.is_static(task):
            return None
        pod = task.pod
        whose = (task.job_id, task.class_.number, task.priority)
        return (*whose, pod.preemptable, pod.revocable_zone, scope, nodes.tobytes())

    # Candidates, and the nodes where they might be enough.

    def _wanted(self, question: _Question) -> VictimFilter:
        job, best_effort = question.job, question.task.best_effort
        return self._search.in_queue(job.queue, job.id, best_effort_only=best_effort)

    def _possible_rows(self, question: _Question) -> Mask:
        """Nodes where evictions that the plugins allow might free enough, by row."""
        if question.scope is VictimScope.SAME_JOB:
            rows = self._rows_of(question.job, question.task)
        else:
            wanted = self._wanted(question)
            rows = self._search.possible_rows(question.task, question.view, wanted)
        return self._with_free_rows(rows, question)

    def _with_free_rows(self, rows: Mask, question: _Question) -> Mask:
        """These nodes, and those where enough will be free anyway, so that no victim is needed.

        Where the queue takes no more, room that is free helps only beside a victim.
        """
        session = self._session
        queue = session.queue_of(question.job)
        if self._arguments.topology_aware or not session.votes.is_allocatable(queue, question.task):
            return rows
        return rows | question.view.fits_future

    def _sufficient_rows(self, question: _Question) -> Mask:
        """Nodes where evicting every candidate would free enough, by row."""
        if question.scope is VictimScope.SAME_JOB:
            rows = self._rows_of(question.job, question.task)
        else:
            rows = self._search.sufficient_rows(question.view, self._wanted(question))
        return rows if self._arguments.topology_aware else rows | question.view.fits_future

    def _rows_of(self, job: Job, task: Task) -> Mask:
        """Nodes with candidates within the job."""
        table = self._session.table
        rows = np.zeros(len(table), dtype=np.bool_)
        for status in sorted(EVICTABLE):
            for other in job.index.with_status(status).values():
                row = table.row_of(other.node_name)
                if row is not None and self._is_candidate(job, task, other, VictimScope.SAME_JOB):
                    rows[row] = True
        return rows

    def _is_candidate(self, job: Job, task: Task, other: Task, scope: VictimScope) -> bool:
        if other.status not in EVICTABLE or not other.pod.preemptable:
            return False
        if task.best_effort and not other.best_effort:
            return False
        if scope is VictimScope.SAME_JOB:
            return other.job_id == task.job_id
        other_job = self._session.jobs.get(other.job_id)
        return other_job is not None and other_job.queue == job.queue and other_job is not job

    def _candidates_on(self, row: int, question: _Question) -> list[Task]:
        job, task, scope = question.job, question.task, question.scope
        residents = self._search.residents[row]
        if scope is VictimScope.SAME_JOB or task.best_effort:
            return [other for other, _ in residents if self._is_candidate(job, task, other, scope)]
        queue = job.queue
        return [
            other
            for other, its_job in residents
            if other.status in EVICTABLE and its_job.queue == queue and its_job is not job
        ]

    # Nodes by score; the first one that works is used.

    def _by_score(self, statement: Statement, question: _Question) -> bool:
        candidate_rows: CandidateRows | None = None
        view = question.view
        if question.scope is VictimScope.OTHER_JOBS:
            wanted = self._wanted(question)
            candidate_rows = CandidateRows(self._search, question.task, view, wanted)
            possible = question.nodes & self._with_free_rows(candidate_rows.rows, question)
        else:
            possible = question.nodes & self._possible_rows(question)
        if not np.count_nonzero(possible):
            return False
        left = np.where(possible, self._scores(question), -np.inf)
        while left.item(row := int(left.argmax())) != -np.inf:
            left[row] = -np.inf
            candidates = self._candidates_on(row, question)
            if self._try_node(statement, question, row, candidates):
                return True
            if candidate_rows is not None and candidate_rows.narrow(row, candidates):
                left[~(candidate_rows.rows | view.fits_future)] = -np.inf
        return False

    def _scores(self, question: _Question) -> Scores:
        """Scores by row, normalised over all candidate nodes."""
        session, task, view = self._session, question.task, question.view
        if session.plain.is_scored_by_class(task):
            session.count("candidates_scored", len(session.table))
            return view.order + view.batch
        rows = np.flatnonzero(question.nodes)
        scores = np.zeros(len(session.table))
        scores[rows] = session.choice.scores(task, view, rows)
        return scores

    def _try_node(
        self, statement: Statement, question: _Question, row: int, candidates: list[Task]
    ) -> bool:
        session, task = self._session, question.task
        session.count("nodes_tried_for_victims")
        victims = session.votes.preemptable(task, candidates)
        if not frees_enough(session, question.view, row, victims):
            return False
        trial = session.statement()
        occurred = False
        fits = self._fits(question, row)
        if not fits:
            waiting = self._order.waiting(victims, task)
            while waiting and not fits:
                victim = waiting.pop()
                trial.evict(victim, self._author)
                # Best-effort victims alone do not count: no node is nominated then.
                occurred = occurred or not victim.best_effort
                fits = self._fits(question, row)
        node = session.table.names[row]
        if fits and trial.pipeline(task, node, eviction_occurred=occurred):
            statement.merge(trial)
            return True
        trial.discard()
        return False

    def _fits(self, question: _Question, row: int) -> bool:
        session, task, view = self._session, question.task, question.view
        return (
            session.votes.is_allocatable(session.queue_of(question.job), task)
            and frees_enough(session, view, row, ())
            and not session.feasibility.is_refused(task, view, row)
        )

    # As in Kubernetes' scheduler: dry runs on several nodes, then the best of them.

    def _by_dry_run(self, statement: Statement, question: _Question) -> bool:
        session, task = self._session, question.task
        possible = question.nodes & self._possible_rows(question)
        wanted = self._arguments.candidates_among(int(question.nodes.sum()))
        runs = DryRuns(session, question.job, task, question.view)
        for row in np.flatnonzero(possible).tolist():
            if len(runs) >= wanted:
                break
            session.count("nodes_tried_for_victims")
            runs.try_node(row, self._candidates_on(row, question))
        choice = runs.best()
        if choice is None:
            return False
        trial = session.statement()
        for victim in choice.victims:
            trial.evict(victim, self._author)
        node = session.table.names[choice.row]
        if not trial.pipeline(task, node, eviction_occurred=True):
            trial.discard()
            return False
        statement.merge(trial)
        return True

    def _explain_nodes(self, job: Job, task: Task, nodes: Mask, sufficient: Mask) -> None:
        if job in self._reasons:
            return
        open_, tried = int(np.count_nonzero(nodes)), int(np.count_nonzero(sufficient))
        counts = (
            NodeCount("node(s) that no eviction could open", len(nodes) - open_),
            NodeCount("node(s) with too little to evict", open_ - tried),
            NodeCount("node(s) where evictions were not enough", tried),
        )
        self._reasons.add(job, task.name, nodes=tuple(count for count in counts if count.nodes))


def _why_not_eligible(session: Session, task: Task, view: ClassView) -> str | None:
    """Why a task may not preempt: one that waits for its nominated node may not."""
    if task.class_.spec.never_preempts:
        return "preemption policy is Never"
    nominated = task.pod.nominated_node_name
    if not nominated:
        return None
    row = session.table.row_of(nominated)
    if row is None:
        return "nominated node is not known"
    refusals = session.feasibility.refused_by(task, view, row, nominated=True)
    if isinstance(refusals, str):
        return refusals
    if not refusals:
        return "nominated node already takes it"
    if any(refusal.unresolvable for refusal in refusals):
        return None
    for other in session.table.rows[row].tasks_in_order():
        if other.pod.priority < task.pod.priority and _is_preempted(other.pod):
            return "nominated node is being cleared"
    return None


def _is_preempted(pod: Pod) -> bool:
    if not pod.terminating:
        return False
    for condition in pod.conditions:
        if condition.type == _DISRUPTED:
            return condition.status == "True" and condition.reason == _BY_SCHEDULER
    return False

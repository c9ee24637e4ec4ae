"""The common part of preempt and reclaim, which make room for one task on one node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.evicting.order import VictimOrder
from pumice.core.session.evicting.run import EvictingRun
from pumice.core.session.evicting.search import Preemptor, VictimScope, VictimSearch

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView
    from pumice.core.session.placing.statement import Statement
    from pumice.core.session.session import Session


class NodeEvictions(EvictingRun):
    """Makes room for jobs task by task: evicts on the first suitable node, and pipelines the task."""

    # The extension point at which plugins choose victims among candidates.
    point: ClassVar[str]
    # Whether a node without candidates is skipped, even if the task would fit there.
    needs_candidates: ClassVar[bool] = False

    def __init__(self, session: Session, author: str, *, remembers_errors: bool = False) -> None:
        super().__init__(session, author, remembers_errors=remembers_errors)
        self._choose: Callable[[Task, list[Task]], list[Task]] = getattr(session.votes, self.point)
        # Preemptors that failed, by everything that the result depends on, with the length of the log
        # of moves at that time.
        self._failed: dict[tuple[object, ...] | None, int] = {}

    @cached_property
    def _search(self) -> VictimSearch:
        return VictimSearch(self._session, self.point)

    @cached_property
    def _order(self) -> VictimOrder:
        return VictimOrder(self._session)

    # Differences between the actions.

    @abstractmethod
    def make_room(self, statement: Statement, job: Job, task: Task) -> None:
        """Makes room for a task of a starving job, or explains why it cannot."""

    @abstractmethod
    def free_rows(self, preemptor: Preemptor) -> Mask | None:
        """Nodes that are tried because the task might fit there without an eviction; None: none."""

    def scores(self, preemptor: Preemptor) -> Floats | None:
        """Scores of nodes by row; the best node is tried first. None: nodes are tried by name."""
        return None

    def fits(self, preemptor: Preemptor, row: int) -> bool:
        """Whether no more victims are needed on a node."""
        return frees_enough(self._session, preemptor.view, row, ())

    def is_nominating(self, evicted: list[Task]) -> bool:
        """Whether the node is nominated for the task, after these evictions."""
        return bool(evicted)

    # Jobs and tasks.

    def _pending_tasks(self, job: Job) -> list[Task]:
        pending = job.index.pending.values()
        return self._session.orders.tasks(task for task in pending if not task.gated)

    def _make_room_for_job(self, job: Job) -> None:
        """Makes room for tasks until the job no longer starves; commits if the job is pipelined."""
        session = self._session
        statement = session.statement()
        for task in self._pending_tasks(job):
            if not session.votes.is_starving(job):
                break
            self.make_room(statement, job, task)
        if session.votes.is_pipelined(job):
            statement.commit(job.id)
        else:
            statement.discard()

    def _task_of_each_class(self, job: Job) -> list[Task]:
        """A pending task of each task class."""
        pending = job.index.pending.values()
        return [*{task.class_.number: task for task in pending if not task.gated}.values()]

    def _might_make_room(self, job: Job, task: Task, scope: VictimScope) -> bool:
        """Whether evictions might make room for a task of this class; false: certainly not."""
        session = self._session
        view = session.view(task)
        nodes = session.feasibility.resolvable_by_eviction(task, view) & self.large_enough(view)
        if not nodes.any():
            return False
        return bool((nodes & self._possible_rows(Preemptor(job, task, view, scope, nodes))).any())

    # Nodes.

    def _possible_rows(self, preemptor: Preemptor) -> Mask:
        rows, free = self._search.possible_rows(preemptor), self.free_rows(preemptor)
        return rows if free is None else rows | free

    def _preemptor(self, job: Job, task: Task, scope: VictimScope) -> Preemptor:
        view = self._session.view(task)
        return Preemptor(job, task, view, scope, self.nodes_for(task, view))

    def _has_large_node(self, preemptor: Preemptor) -> bool:
        return bool((preemptor.nodes & self.large_enough(preemptor.view)).any())

    def _evict_for(self, statement: Statement, preemptor: Preemptor) -> bool:
        """Evicts victims and pipelines the task; false: nothing was changed."""
        session = self._session
        if not self._has_large_node(preemptor):
            return False
        log = session.moves.log
        key = self._key(preemptor) if self._failed else None
        if self._failed.get(key) == len(log):
            return False
        for group in session.shard.groups(preemptor.nodes):
            is_whole = group is preemptor.nodes
            part = preemptor if is_whole else preemptor._replace(nodes=group)
            if self._try_nodes(statement, part):
                return True
        key = self._key(preemptor)
        if key is not None:
            self._failed[key] = len(log)
        return False

    def _key(self, preemptor: Preemptor) -> tuple[object, ...] | None:
        """Everything that the result for a preemptor depends on; None: that is not known."""
        if not self._search.is_predictable:
            return None
        task, pod = preemptor.task, preemptor.task.pod
        of_task = (task.job_id, task.class_.number, task.priority)
        nodes = preemptor.nodes.tobytes()
        return (*of_task, pod.preemptable, pod.revocable_zone, preemptor.scope, nodes)

    def _try_nodes(self, statement: Statement, preemptor: Preemptor) -> bool:
        free = self.free_rows(preemptor)
        for row in self._search.rows_to_try(preemptor, free, self.scores):
            if self._try_node(statement, preemptor, row):
                return True
        return False

    def _try_node(self, statement: Statement, preemptor: Preemptor, row: int) -> bool:
        session, task = self._session, preemptor.task
        session.count("nodes_tried_for_victims")
        candidates = self._search.candidates_on(row, preemptor)
        if self.needs_candidates and not candidates:
            return False
        victims = self._choose(task, candidates)
        if not frees_enough(session, preemptor.view, row, victims):
            return False
        evicted: list[Task] = []
        trial = session.statement()
        fits = self.fits(preemptor, row)
        for victim in () if fits else self._order.in_order(victims, task):
            trial.evict(victim, self._author)
            evicted.append(victim)
            fits = self.fits(preemptor, row)
            if fits:
                break
        occurred, node = self.is_nominating(evicted), session.table.names[row]
        return self._merge_if(
            fits and trial.pipeline(task, node, eviction_occurred=occurred), statement, trial
        )

    def _merge_if(self, works: bool, statement: Statement, trial: Statement) -> bool:
        """Merges a trial into the statement, or discards it."""
        if works:
            statement.merge(trial)
        else:
            trial.discard()
        return works


def frees_enough(session: Session, view: ClassView, row: int, victims: Sequence[Task]) -> bool:
    """Whether a task of the class would fit on the node without these victims."""
    table = session.table
    for column, need in view.needs:
        free = table.future.item(column, row)
        if free >= need:
            continue
        for victim in victims:
            # Requests are never negative, so that further victims cannot reduce the sum.
            free += table.vector(victim.class_).item(column)
            if free >= need:
                break
        else:
            return False
    return True

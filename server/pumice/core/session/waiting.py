"""Skips waiting jobs, group by group: unschedulable jobs, and jobs that are not admitted.

A visit to such a job changes only its reasons. So the cause for which the jobs of a group wait is
computed once, when the first job of the group would be visited. If the cause differs from that of the
last session, the jobs of the group are activated and visited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from pumice.core.cache.job_index import Key, WaitingGroup, WaitingGroups
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.decisions import Wait
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.placing.placement import why_not_placeable
from pumice.core.session.policies import AllocatableCount, VictimRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# Actions that do not change a waiting job.
_SKIPPING_ACTIONS = frozenset(("enqueue", "allocate", "backfill", "shuffle"))
# Actions that evict for waiting jobs, and the hooks that select victims.
_GANG_VICTIMS = "unified_evictable"
_EVICTING_ACTIONS = {
    "preempt": "preemptable",
    "reclaim": "reclaimable",
    "gangpreempt": _GANG_VICTIMS,
    "gangreclaim": _GANG_VICTIMS,
}
_OVERUSED, _NOT_ENQUEUED = ReasonCode.QUEUE_OVERUSED, ReasonCode.NOT_ENQUEUED
# The points whose results must stay valid, for unschedulable jobs and for jobs that are not admitted.
_LASTING_POINTS = ("why_not_valid", "job_ready", "job_pipelined", "job_order", "queue_order")
_ADMISSION_POINTS = ("job_enqueueable", "job_order")


@dataclass(slots=True, eq=False)
class WaitingJobs:
    """The waiting jobs of a session."""

    # The groups that allocate skips, and the groups that enqueue skips.
    unschedulable: WaitingGroups
    inadmissible: WaitingGroups
    # Whether jobs may join these groups at the end of the session.
    may_skip_unschedulable: bool = False
    may_skip_inadmissible: bool = False
    # Whether a third-party plugin has a ``close`` function, which may read any job.
    is_watched: bool = False
    # Jobs that allocate found unschedulable, with the keys by which they were ordered.
    found_unschedulable: dict[str, tuple[Job, Key]] = field(default_factory=dict)
    # Jobs that enqueue did not admit, with their keys and reasons.
    not_admitted: dict[str, tuple[Job, Key, tuple[Reason, ...]]] = field(default_factory=dict)


def _is_predictable(session: Session, points: Iterable[str], once: Iterable[str]) -> bool:
    """Whether the reasons of waiting jobs stay valid in later sessions.

    The results of plugins at these points must depend on the job alone, jobs must be ordered by keys,
    actions must not change such a job, and the actions ``once`` must run exactly once.
    """
    actions, lasts = session.configuration.actions, session.hooks.lasts
    if not session.is_whole or session.waiting.is_watched or session.queue_fault:
        return False
    if not _SKIPPING_ACTIONS.union(_EVICTING_ACTIONS).issuperset(actions):
        return False
    if any(actions.count(name) != 1 for name in once) or not session.orders.has_job_keys:
        return False
    named = session.chains.named
    return all(name in lasts and lasts[name](point) for point in points for name, _ in named(point))


def _may_skip_unschedulable(session: Session) -> bool:
    """Whether unschedulable jobs may be skipped; limits of queues are checked again each time."""
    chains = session.chains
    evicting = [name for name in session.configuration.actions if name in _EVICTING_ACTIONS]
    victim_points = {_EVICTING_ACTIONS[name] for name in evicting}
    if any(chains.all_of(point, VictimRule) is None for point in victim_points - {_GANG_VICTIMS}):
        return False
    if not session.orders.has_task_keys or chains.all_of("allocatable", AllocatableCount) is None:
        return False
    points = [*_LASTING_POINTS, *victim_points & {_GANG_VICTIMS}]
    points += ["job_starving"] if evicting else []
    return _is_predictable(session, points, ("allocate", *evicting))


def unschedulable_groups(session: Session) -> list[WaitingGroup]:
    """The groups of unschedulable jobs that may be skipped in this session."""
    unschedulable = session.waiting.unschedulable
    session.waiting.may_skip_unschedulable = _may_skip_unschedulable(session)
    if not session.waiting.may_skip_unschedulable:
        unschedulable.activate_all()
    if not len(unschedulable):
        return []
    for job_id in session.cache.cool_downs:
        unschedulable.activate(job_id)
    return [*unschedulable.groups()]


class _GroupCursor:
    """A waiting group, and the number of its jobs that were visited or skipped in this session."""

    __slots__ = ("_done", "_order", "group")

    def __init__(self, group: WaitingGroup) -> None:
        self.group = group
        self._order = group.in_order()
        self._done = 0

    @property
    def next_key(self) -> Key | None:
        """The key of the next job; None: there is none left."""
        return self._order[self._done][0] if self._done < len(self._order) else None

    def before(self, limit: Key | None) -> list[Job]:
        """The next jobs whose keys are below the limit, or all jobs that are left without a limit."""
        order, start = self._order, self._done
        if start == len(order):
            return []
        end = len(order) if limit is None else bisect_left(order, limit, start, key=itemgetter(0))
        self._done = end
        return [job for _, job in order[start:end]]


class SkippedJobs(ABC):
    """The jobs that one run of an action may skip, by queue."""

    def __init__(self, session: Session, groups: Iterable[WaitingGroup]) -> None:
        self._session = session
        self._cursors: dict[str, list[_GroupCursor]] = {}
        for group in groups:
            self._cursors.setdefault(group.queue, []).append(_GroupCursor(group))

    def __len__(self) -> int:
        return len(self._cursors)

    def queues(self) -> Iterable[str]:
        return self._cursors

    def activate_before(self, queue: Queue, next_key: Key | None) -> list[Job]:
        """Activates the jobs before the key that can no longer be skipped."""
        jobs: list[Job] = []
        limit, skipped = next_key, []
        for cursor in self._cursors.get(queue.name, ()):
            first = cursor.next_key
            if first is None or (next_key is not None and first >= next_key):
                continue
            if self._still_waits(queue, cursor.group):
                skipped.append(cursor)
                continue
            limit = first if limit is None else min(limit, first)
            jobs += self._activate(cursor.before(next_key))
        # A visit to an activated job may change the causes of the jobs after it.
        for cursor in skipped:
            cursor.before(limit)
        return jobs

    @abstractmethod
    def _still_waits(self, queue: Queue, group: WaitingGroup) -> bool:
        """Whether a visit now would have the same result as the last one."""

    @abstractmethod
    def _activate(self, jobs: list[Job]) -> list[Job]:
        """Removes jobs from their groups, and returns the jobs."""


class UnschedulableJobs(SkippedJobs):
    """The jobs that allocate may skip: they fit on no node, or their queue refuses them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, unschedulable_groups(session))

    def of_overused(self, queue: Queue) -> list[Job]:
        """Activates the remaining jobs of an overused queue that waited for another cause."""
        jobs: list[Job] = []
        for cursor in self._cursors.pop(queue.name, ()):
            if cursor.group.cause is not _OVERUSED:
                jobs += self._activate(cursor.before(None))
        return jobs

    def _activate(self, jobs: list[Job]) -> list[Job]:
        """The same; jobs keep the reasons of actions before allocate from the last session."""
        session, unschedulable = self._session, self._session.waiting.unschedulable
        actions = session.configuration.actions
        done = _EVICTING_ACTIONS.keys() & actions[: actions.index("allocate")]
        for job in jobs:
            reasons = [
                reason for reason in unschedulable.waits[job.id].reasons if reason.author in done
            ]
            if reasons:
                session.reasons[job.id] = reasons
            unschedulable.activate(job.id)
        return jobs

    def _are_plain(self, group: WaitingGroup) -> bool:
        """Whether the first task of each job of the group is filtered by its class."""
        session, first = self._session, group.first
        if session.plain.is_class_filtered(first.class_) and not session.views.facet_rules(
            first.class_
        ):
            return True
        facets = session.views.facets(first)
        tasks = [job.to_place.tasks[0] for _, job in group.in_order() if job.to_place]
        if session.views.has_facets and any(session.views.facets(task) != facets for task in tasks):
            return False
        if any(task.pod.nominated_node_name for task in tasks):
            return False
        return len(session.plain.filtered_first(tasks)) == len(tasks)

    def _still_waits(self, queue: Queue, group: WaitingGroup) -> bool:
        session, first = self._session, group.first
        if not self._are_plain(group):
            return False
        return why_not_placeable(session, queue, first) is group.cause


class InadmissibleJobs(SkippedJobs):
    """The jobs that enqueue may skip, because it does not admit them.

    Jobs of one queue and namespace with equal minima are rejected for the same reasons. Until a job is
    admitted, the result for one of them is the result for all.
    """

    def __init__(self, session: Session) -> None:
        waiting = session.waiting
        waiting.may_skip_inadmissible = _is_predictable(session, _ADMISSION_POINTS, ("enqueue",))
        if not waiting.may_skip_inadmissible:
            waiting.inadmissible.activate_all()
        super().__init__(session, [*waiting.inadmissible.groups()])

    def _still_waits(self, _queue: Queue, group: WaitingGroup) -> bool:
        job = group.in_order()[0][1]
        reasons = self._session.waiting.inadmissible.waits[job.id].reasons
        return self._why_not_admitted(job) == [r for r in reasons if r.code is not _NOT_ENQUEUED]

    def _why_not_admitted(self, job: Job) -> list[Reason] | None:
        """Why the job would not be admitted; None: it would be. Reasons and events are not kept."""
        session = self._session
        events, before = len(session.events), session.reasons.pop(job.id, None)
        is_enqueueable = session.votes.is_enqueueable(job)
        reasons = session.reasons.pop(job.id, [])
        if before is not None:
            session.reasons[job.id] = before
        del session.events[events:]
        return None if is_enqueueable else reasons

    def _activate(self, jobs: list[Job]) -> list[Job]:
        for job in jobs:
            self._session.waiting.inadmissible.activate(job.id)
        return jobs


def remember_waiting(session: Session, waits: Iterable[Wait]) -> None:
    """Records, at the end of a session, the waiting jobs that the next session may skip."""
    waiting = session.waiting
    if not waiting.may_skip_unschedulable:
        waiting.found_unschedulable.clear()
    if not waiting.may_skip_inadmissible:
        waiting.not_admitted.clear()
    if not waiting.found_unschedulable and not waiting.not_admitted:
        return
    evicting = _EVICTING_ACTIONS.keys() & session.configuration.actions
    for wait in waits:
        if wait.job in waiting.found_unschedulable:
            _remember_unschedulable(session, wait, evicting)
        if wait.job in waiting.not_admitted:
            _remember_inadmissible(session, wait)


def _has_nothing_new(job: Job) -> bool:
    """Whether a job holds nothing, and its status was written since it last changed."""
    index = job.index
    return job.closed_version == job.version and len(index.pending) == len(index)


def _remember_inadmissible(session: Session, wait: Wait) -> None:
    job, key, reasons = session.waiting.not_admitted[wait.job]
    group = job.group
    if group is None or wait.reasons != reasons or not _has_nothing_new(job):
        return
    # None if the session has moved some of its tasks.
    if job.closed_errors is not None and not job.closed_errors:
        minimum = (group.min_resources, group.min_resources_milli)
        group_key = (job.queue, job.namespace, *minimum, reasons)
        session.waiting.inadmissible.enter(group_key, _NOT_ENQUEUED, (key, job), wait)


def _remember_unschedulable(session: Session, wait: Wait, evicting: Set[str]) -> None:
    job, key = session.waiting.found_unschedulable[wait.job]
    to_place = job.to_place
    if to_place is None or to_place.cause is None:
        return
    if not _may_be_skipped(job, to_place, wait, evicting):
        return
    # The result of allocate depends on queue and class, and the victims on the rest.
    first = to_place.tasks[0]
    victims = (job.priority, first.priority, first.pod.preemptable, first.pod.revocable_zone)
    # Gang actions make room for all tasks of a job at once.
    by_size = any(_EVICTING_ACTIONS[name] == _GANG_VICTIMS for name in evicting)
    size = by_size and len(to_place.tasks)
    group_key = (job.queue, first.class_.number, *victims, size)
    session.waiting.unschedulable.enter(group_key, to_place.cause, (key, job), wait)


def _may_be_skipped(job: Job, to_place: TasksToPlace, wait: Wait, evicting: Set[str]) -> bool:
    if to_place.version != job.version:
        return False
    if evicting and not (to_place.is_uniform and _have_same_victims(to_place.tasks)):
        return False
    others = tuple([reason for reason in wait.reasons if reason.author not in evicting])
    # The job holds nothing, so it is not a broken gang, and it has no task for backfill.
    if others != to_place.reasons or not _has_nothing_new(job) or job.index.pending_best_effort:
        return False
    # None if the session has moved some of its tasks.
    errors, expected = job.closed_errors, errors_of(to_place)
    if errors is None or len(errors) != len(expected):
        return False
    return all(errors.get(uid) is each for uid, each in expected.items())


def errors_of(to_place: TasksToPlace) -> dict[str, FitErrors]:
    """The fit errors of the tasks, if these are the cause."""
    cause = to_place.cause
    return {to_place.tasks[0].uid: cause} if isinstance(cause, FitErrors) else {}


def _have_same_victims(tasks: list[Task]) -> bool:
    """Whether the same pods may be evicted for each of these tasks of one class."""
    return len({(t.priority, t.pod.preemptable, t.pod.revocable_zone) for t in tasks}) == 1

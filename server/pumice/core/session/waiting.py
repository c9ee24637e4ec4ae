"""Passes over waiting jobs, group by group: those that fit nowhere, and those that are not admitted.

A visit to such a job changes nothing, so that only its result matters, not its time. The result is
computed once for a whole group, when the turn of its first job comes. If the result differs from
that of the last session, the jobs of the group are woken and visited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pumice.core.cache.job_index import Key, WaitingGroup, WaitingGroups
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.decisions import Wait
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.placing.placement import finding_about
from pumice.core.session.policies import AllocatableCount, VictimRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# Actions that look at waiting jobs no further than allocate does, or not at all.
_PASSING_ACTIONS = frozenset(("enqueue", "allocate", "backfill", "shuffle"))
# Actions that evict for waiting jobs, and the hook that says who may be a victim.
_GANG_VICTIMS = "unified_evictable"
_EVICTING_ACTIONS = {
    "preempt": "preemptable",
    "reclaim": "reclaimable",
    "gangpreempt": _GANG_VICTIMS,
    "gangreclaim": _GANG_VICTIMS,
}
_OVERUSED, _NOT_ENQUEUED = ReasonCode.QUEUE_OVERUSED, ReasonCode.NOT_ENQUEUED
# The points whose answers must last, for jobs that fit nowhere and for jobs that are not admitted.
_LASTING_POINTS = ("why_not_valid", "job_ready", "job_pipelined", "job_order", "queue_order")
_ADMISSION_POINTS = ("job_enqueueable", "job_order")


@dataclass(slots=True, eq=False)
class Waiting:
    """The waiting jobs of a session."""

    # Jobs that are passed over while they cannot be placed, and while they are not admitted.
    unplaceable: WaitingGroups
    held: WaitingGroups
    # Others may join them at the end of the session.
    may_pass_over: bool = False
    may_hold: bool = False
    # A third-party plugin has a ``close`` function, which may read any job.
    is_watched: bool = False
    # Jobs that were found to fit nowhere, with the keys by which they had their turn.
    found_unplaceable: dict[str, tuple[Job, Key]] = field(default_factory=dict)
    # Jobs that were not admitted, with such keys and the reasons.
    not_admitted: dict[str, tuple[Job, Key, tuple[Reason, ...]]] = field(default_factory=dict)


def _is_predictable(session: Session, points: Iterable[str], once: Iterable[str]) -> bool:
    """Whether findings about waiting jobs hold in later sessions.

    That takes plugins whose answers about such a job at these points follow from the job, an order
    of jobs by keys, and actions that leave the job alone; some of them may run only once.
    """
    actions, lasts = session.configuration.actions, session.hooks.lasts
    if not session.is_whole or session.waiting.is_watched or session.queue_fault:
        return False
    if not _PASSING_ACTIONS.union(_EVICTING_ACTIONS).issuperset(actions):
        return False
    if any(actions.count(name) != 1 for name in once) or not session.orders.has_job_keys:
        return False
    named = session.chains.named
    return all(name in lasts and lasts[name](point) for point in points for name, _ in named(point))


def _may_pass_over(session: Session) -> bool:
    """Whether jobs that cannot be placed may be passed over; queues are asked again each time."""
    chains = session.chains
    evicting = [name for name in session.configuration.actions if name in _EVICTING_ACTIONS]
    asked = {_EVICTING_ACTIONS[name] for name in evicting}
    if any(chains.all_of(point, VictimRule) is None for point in asked - {_GANG_VICTIMS}):
        return False
    if not session.orders.has_task_keys or chains.all_of("allocatable", AllocatableCount) is None:
        return False
    points = [*_LASTING_POINTS, *(["job_starving"] if evicting else []), *asked & {_GANG_VICTIMS}]
    return _is_predictable(session, points, ("allocate", *evicting))


def unplaceable_groups(session: Session) -> list[WaitingGroup]:
    """The groups of jobs that fit nowhere and may be passed over in this session."""
    unplaceable = session.waiting.unplaceable
    session.waiting.may_pass_over = _may_pass_over(session)
    if not session.waiting.may_pass_over:
        unplaceable.wake_all()
    if not len(unplaceable):
        return []
    for job_id in session.cache.assumptions.cool_downs:
        unplaceable.wake(job_id)
    return [*unplaceable.groups()]


class _GroupCursor:
    """A waiting group, and how many of its jobs had their turn in this session."""

    __slots__ = ("_done", "_order", "group")

    def __init__(self, group: WaitingGroup) -> None:
        self.group = group
        self._order = group.in_order()
        self._done = 0

    @property
    def next_key(self) -> Key | None:
        """The key of the job whose turn comes next; None: all had their turn."""
        return self._order[self._done][0] if self._done < len(self._order) else None

    def before(self, limit: Key | None) -> list[Job]:
        """The jobs whose turn comes before a key, or all that are left without one."""
        order, start = self._order, self._done
        if start == len(order):
            return []
        end = len(order) if limit is None else bisect_left(order, limit, start, key=_key_of)
        self._done = end
        return [job for _, job in order[start:end]]


def _key_of(entry: tuple[Key, Job]) -> Key:
    return entry[0]


class PassedOver(ABC):
    """The jobs that one run of an action may pass over, by queue."""

    def __init__(self, session: Session, groups: Iterable[WaitingGroup]) -> None:
        self._session = session
        self._cursors: dict[str, list[_GroupCursor]] = {}
        for group in groups:
            self._cursors.setdefault(group.queue, []).append(_GroupCursor(group))

    def __len__(self) -> int:
        return len(self._cursors)

    def queues(self) -> Iterable[str]:
        return self._cursors

    def woken(self, queue: Queue, next_key: Key | None) -> list[Job]:
        """The jobs whose turn comes before that key and that have to be visited."""
        jobs: list[Job] = []
        limit, passed = next_key, []
        for cursor in self._cursors.get(queue.name, ()):
            first = cursor.next_key
            if first is None or (next_key is not None and first >= next_key):
                continue
            if self._still_waits(queue, cursor.group):
                passed.append(cursor)
                continue
            limit = first if limit is None else min(limit, first)
            jobs += self._wake(cursor.before(next_key))
        # A visit to a job that was woken may change what holds for those after it.
        for cursor in passed:
            cursor.before(limit)
        return jobs

    @abstractmethod
    def _still_waits(self, queue: Queue, group: WaitingGroup) -> bool:
        """Whether a visit now would find what the last one did."""

    @abstractmethod
    def _wake(self, jobs: list[Job]) -> list[Job]:
        """Wakes jobs, and returns them."""


class UnplaceableJobs(PassedOver):
    """The jobs that allocate may pass over: they fit nowhere, or their queue refuses them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, unplaceable_groups(session))

    def of_overused(self, queue: Queue) -> list[Job]:
        """The jobs of an overused queue that had no turn yet and did not wait for that reason."""
        jobs: list[Job] = []
        for cursor in self._cursors.pop(queue.name, ()):
            left = cursor.before(None)
            if cursor.group.finding is not _OVERUSED:
                jobs += self._wake(left)
        return jobs

    def _wake(self, jobs: list[Job]) -> list[Job]:
        """Wakes jobs, with the reasons that actions before allocate gave in the last session."""
        session, unplaceable = self._session, self._session.waiting.unplaceable
        actions = session.configuration.actions
        done = _EVICTING_ACTIONS.keys() & actions[: actions.index("allocate")]
        for job in jobs:
            reasons = [
                reason for reason in unplaceable.waits[job.id].reasons if reason.author in done
            ]
            if reasons:
                session.reasons[job.id] = reasons
            unplaceable.wake(job.id)
        return jobs

    def _are_plain(self, group: WaitingGroup) -> bool:
        """Whether the class of the first tasks says for each of them where it can go."""
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
        return finding_about(session, queue, first) is group.finding


class HeldJobs(PassedOver):
    """The jobs that enqueue may pass over: it does not admit them.

    Jobs of one queue and namespace with equal minima are not admitted for the same reasons. While
    nothing is admitted, what holds for one of them holds for all, so that only one is asked about.
    """

    def __init__(self, session: Session) -> None:
        waiting = session.waiting
        waiting.may_hold = _is_predictable(session, _ADMISSION_POINTS, ("enqueue",))
        if not waiting.may_hold:
            waiting.held.wake_all()
        super().__init__(session, [*waiting.held.groups()])

    def _still_waits(self, _queue: Queue, group: WaitingGroup) -> bool:
        job = group.in_order()[0][1]
        reasons = self._session.waiting.held.waits[job.id].reasons
        return self._refusal_of(job) == [r for r in reasons if r.code is not _NOT_ENQUEUED]

    def _refusal_of(self, job: Job) -> list[Reason] | None:
        """The reasons for which the job would not be admitted; None: it would be."""
        session = self._session
        events, reasons = len(session.events), session.reasons.pop(job.id, None)
        is_enqueueable = session.votes.is_enqueueable(job)
        said = session.reasons.pop(job.id, [])
        if reasons is not None:
            session.reasons[job.id] = reasons
        del session.events[events:]
        return None if is_enqueueable else said

    def _wake(self, jobs: list[Job]) -> list[Job]:
        for job in jobs:
            self._session.waiting.held.wake(job.id)
        return jobs


def remember_waiting(session: Session, waits: Iterable[Wait]) -> None:
    """Remembers, at the end of a session, the waiting jobs that the next session may pass over."""
    waiting = session.waiting
    if not waiting.may_pass_over:
        waiting.found_unplaceable.clear()
    if not waiting.may_hold:
        waiting.not_admitted.clear()
    if not waiting.found_unplaceable and not waiting.not_admitted:
        return
    evicting = _EVICTING_ACTIONS.keys() & session.configuration.actions
    for wait in waits:
        if wait.job in waiting.found_unplaceable:
            _remember_unplaceable(session, wait, evicting)
        if wait.job in waiting.not_admitted:
            _remember_held(session, wait)


def _has_nothing_new(job: Job) -> bool:
    """Whether a job holds nothing, and this session has reported all that there is about it."""
    index = job.index
    return job.closed_version == job.version and len(index.pending) == len(index)


def _remember_held(session: Session, wait: Wait) -> None:
    job, key, reasons = session.waiting.not_admitted[wait.job]
    group = job.group
    if group is None or wait.reasons != reasons or not _has_nothing_new(job):
        return
    # None where the session had moved some of its tasks.
    if job.closed_errors is not None and not job.closed_errors:
        minimum = (group.min_resources, group.min_resources_milli)
        place = (job.queue, job.namespace, *minimum, reasons)
        session.waiting.held.enter(place, _NOT_ENQUEUED, (key, job), wait)


def _remember_unplaceable(session: Session, wait: Wait, evicting: Set[str]) -> None:
    job, key = session.waiting.found_unplaceable[wait.job]
    to_place = job.to_place
    if to_place is None or to_place.finding is None:
        return
    if not _may_be_passed_over(job, to_place, wait, evicting):
        return
    # Gang actions make room for all tasks of a job at once.
    by_size = any(_EVICTING_ACTIONS[name] == _GANG_VICTIMS for name in evicting)
    place = (*_place_of(to_place, job), by_size and len(to_place.tasks))
    session.waiting.unplaceable.enter(place, to_place.finding, (key, job), wait)


def _place_of(to_place: TasksToPlace, job: Job) -> Key:
    """What allocate looks at, and then what decides who may be evicted for the job."""
    first = to_place.tasks[0]
    victims = (job.priority, first.priority, first.pod.preemptable, first.pod.revocable_zone)
    return (job.queue, first.class_.number, *victims)


def _may_be_passed_over(job: Job, to_place: TasksToPlace, wait: Wait, evicting: Set[str]) -> bool:
    if to_place.version != job.version:
        return False
    if evicting and not (to_place.is_uniform and _alike_to_victims(to_place.tasks)):
        return False
    others = tuple([reason for reason in wait.reasons if reason.author not in evicting])
    # It holds nothing, so that it is not a broken gang; and it has no task for backfill.
    if others != to_place.reasons or not _has_nothing_new(job) or job.index.pending_best_effort:
        return False
    # None where the session had moved some of its tasks.
    errors, found = job.closed_errors, errors_of(to_place)
    if errors is None or len(errors) != len(found):
        return False
    return all(errors.get(uid) is each for uid, each in found.items())


def errors_of(to_place: TasksToPlace) -> dict[str, FitErrors]:
    """The errors of tasks that the finding about them comes with."""
    finding = to_place.finding
    return {to_place.tasks[0].uid: finding} if isinstance(finding, FitErrors) else {}


def _alike_to_victims(tasks: list[Task]) -> bool:
    """Whether the same pods may be evicted for each of these tasks of one class."""
    return len({(t.priority, t.pod.preemptable, t.pod.revocable_zone) for t in tasks}) == 1

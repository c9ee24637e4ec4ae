"""Passes over waiting jobs that still fit nowhere, group by group.

A visit to such a job changes nothing, so that only its result matters, not its time. The result is
computed once for a whole group, when the turn of its first job comes; the jobs of a group with
another result than before are woken and visited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
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
_OVERUSED = ReasonCode.QUEUE_OVERUSED
_LASTING_POINTS = ("why_not_valid", "job_ready", "job_pipelined", "job_order", "queue_order")


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


def is_predictable(session: Session, points: Iterable[str], once: Iterable[str]) -> bool:
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
    return is_predictable(session, points, ("allocate", *evicting))


def _groups_of(session: Session) -> list[WaitingGroup]:
    """The groups that may be passed over in this session."""
    unplaceable = session.waiting.unplaceable
    session.waiting.may_pass_over = _may_pass_over(session)
    if not session.waiting.may_pass_over:
        unplaceable.wake_all()
    if not len(unplaceable):
        return []
    for job_id, _ in session.cache.assumptions.cool_downs():
        unplaceable.wake(job_id)
    return [*unplaceable.groups()]


class _Line:
    """The jobs of a waiting group in their order, and the position of this session."""

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
        self._lines: dict[str, list[_Line]] = {}
        for group in groups:
            self._lines.setdefault(group.queue, []).append(_Line(group))

    def __len__(self) -> int:
        return len(self._lines)

    def queues(self) -> Iterable[str]:
        return self._lines

    def woken(self, queue: Queue, next_key: Key | None) -> list[Job]:
        """The jobs whose turn comes before that key and that have to be visited."""
        jobs: list[Job] = []
        limit, passed = next_key, []
        for line in self._lines.get(queue.name, ()):
            first = line.next_key
            if first is None or (next_key is not None and first >= next_key):
                continue
            if self._still_waits(queue, line.group):
                passed.append(line)
                continue
            limit = first if limit is None else min(limit, first)
            jobs += self._wake(line.before(next_key))
        # A visit to a job that was woken may change what holds for those after it.
        for line in passed:
            line.before(limit)
        return jobs

    @abstractmethod
    def _still_waits(self, queue: Queue, group: WaitingGroup) -> bool:
        """Whether a visit now would find what the last one did."""

    @abstractmethod
    def _wake(self, jobs: list[Job]) -> list[Job]:
        """Wakes jobs, and returns them."""


class WaitingJobs(PassedOver):
    """The jobs that allocate may pass over."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, _groups_of(session))

    def of_overused(self, queue: Queue) -> list[Job]:
        """The jobs of an overused queue that had no turn yet and did not wait for that reason."""
        lines = [(line, line.before(None)) for line in self._lines.pop(queue.name, ())]
        others = [jobs for line, jobs in lines if line.group.finding is not _OVERUSED]
        return [job for jobs in others for job in self._wake(jobs)]

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


def remember_waiting(session: Session, waits: Iterable[Wait]) -> None:
    """Remembers, at the end of a session, jobs that fit nowhere and have nothing new to report."""
    waiting = session.waiting
    if not waiting.found_unplaceable or not waiting.may_pass_over:
        return
    # Gang actions make room for all tasks of a job at once.
    evicting = _EVICTING_ACTIONS.keys() & session.configuration.actions
    by_size = any(_EVICTING_ACTIONS[name] == _GANG_VICTIMS for name in evicting)
    for wait in waits:
        found = waiting.found_unplaceable.get(wait.job)
        if found is not None and _may_be_passed_over(session, found[0], wait):
            job, key = found
            to_place = job.to_place
            assert to_place is not None
            assert to_place.finding is not None
            place = (*_place_of(to_place, job), by_size and len(to_place.tasks))
            waiting.unplaceable.enter(place, to_place.finding, (key, job), wait)


def _place_of(to_place: TasksToPlace, job: Job) -> Key:
    """What allocate looks at, and then what decides who may be evicted for the job."""
    first = to_place.tasks[0]
    victims = (job.priority, first.priority, first.pod.preemptable, first.pod.revocable_zone)
    return (job.queue, first.class_.number, *victims)


def _may_be_passed_over(session: Session, job: Job, wait: Wait) -> bool:
    to_place, index = job.to_place, job.index
    if to_place is None or to_place.finding is None or to_place.version != job.version:
        return False
    evicting = _EVICTING_ACTIONS.keys() & session.configuration.actions
    if evicting and not (to_place.is_uniform and _alike_to_victims(to_place.tasks)):
        return False
    others = tuple([reason for reason in wait.reasons if reason.author not in evicting])
    if job.closed_version != job.version or others != to_place.reasons:
        return False
    # It holds nothing, so that it is not a broken gang; and it has no task for backfill.
    if len(index.pending) != len(index) or index.pending_best_effort:
        return False
    # None where the session had moved some of its tasks.
    errors, found = job.closed_errors, _errors_of(to_place)
    if errors is None or len(errors) != len(found):
        return False
    return all(errors.get(uid) is each for uid, each in found.items())


def _errors_of(to_place: TasksToPlace) -> dict[str, FitErrors]:
    """The errors of tasks that the finding about them comes with."""
    finding = to_place.finding
    return {to_place.tasks[0].uid: finding} if isinstance(finding, FitErrors) else {}


def _alike_to_victims(tasks: list[Task]) -> bool:
    """Whether the same pods may be evicted for each of these tasks of one class."""
    return len({(t.priority, t.pod.preemptable, t.pod.revocable_zone) for t in tasks}) == 1


class EvictionVisits:
    """The jobs that one run of an evicting action has to visit.

    Where no eviction can help any job, the action changes nothing, in whatever order it visits
    them. Then it visits one job of each waiting group, in the name of all; the others are passed
    over if it says of that job what it said in the last session.
    """

    def __init__(self, session: Session, author: str) -> None:
        self._session = session
        self._author = author
        actions = session.configuration.actions
        # This action and those after it have not given their reasons in this session yet.
        self._coming = frozenset(actions[actions.index(author) :])
        self._lent: dict[str, WaitingGroup] = {}

    def jobs(self, may_help: Callable[[Job], bool]) -> list[Job]:
        """The jobs to visit first, by id; ``may_help``: evictions could make room for a job."""
        session, unplaceable = self._session, self._session.waiting.unplaceable
        groups = _groups_of(session)
        if not groups:
            return session.unsettled_jobs
        for group in groups:
            job = group.in_order()[0][1]
            self._lent[job.id] = group
            self._prepare(job)
        awake = [*session.awake_jobs(), *(session.jobs[id_] for id_ in self._lent)]
        awake.sort(key=lambda job: job.id)
        if not any(may_help(job) for job in awake):
            return awake
        self._take_back()
        for job_id in [*unplaceable.waits]:
            self._wake(session.jobs[job_id])
        return session.unsettled_jobs

    def changed(self) -> list[Job]:
        """The jobs to visit after them: those of groups whose reasons have changed."""
        session, jobs = self._session, []
        for job_id, group in self._lent.items():
            before = session.waiting.unplaceable.waits[job_id].reasons
            if self._own(session.reasons[job_id]) != self._own(before):
                jobs += [job for _, job in group.in_order()]
        self._take_back()
        for job in jobs:
            self._wake(job)
        return sorted(jobs, key=lambda job: job.id)

    def _own(self, reasons: Iterable[Reason]) -> list[Reason]:
        return [reason for reason in reasons if reason.author == self._author]

    def _prepare(self, job: Job) -> None:
        """Gives a job what a visit of the actions before this one would have left."""
        to_place, wait = job.to_place, self._session.waiting.unplaceable.waits[job.id]
        assert to_place is not None
        if "allocate" in self._coming:
            self._session.reasons[job.id] = []
            return
        reasons = [reason for reason in wait.reasons if reason.author not in self._coming]
        self._session.reasons[job.id] = reasons
        job.fit_errors.update(_errors_of(to_place))

    def _take_back(self) -> None:
        for job_id in self._lent:
            self._session.reasons.pop(job_id, None)
            self._session.jobs[job_id].fit_errors.clear()
        self._lent.clear()

    def _wake(self, job: Job) -> None:
        waiting = self._session.waiting
        self._prepare(job)
        if "allocate" not in self._coming:
            waiting.found_unplaceable[job.id] = (job, waiting.unplaceable.key_of(job.id))
        waiting.unplaceable.wake(job.id)

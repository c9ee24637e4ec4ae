"""tdm: places revocable pods on revocable nodes during daily windows.

Outside the window of its zone, a revocable node takes no pods, and its preemptable pods are evicted
once in every period, as many of a job as the job's disruption budget allows.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, Limit, PluginOptions, by_name, duration, text
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.status import TaskStatus
from pumice.core.session.hooks import PERMIT, REJECT, Scores
from pumice.core.session.policies import ClassRule, SortKey, VictimRule
from pumice.core.session.session import Session
from pumice.patterns.golang import parse_int

REVOCABLE_ZONE = "volcano.sh/revocable-zone"
MIN_AVAILABLE = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
_SECOND_NS = 10**9
_DAY = 24 * 3600
_SCORE = 100.0
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"
_WINDOW = re.compile(rf"\s*{_CLOCK}-{_CLOCK}\s*", re.ASCII)
_OFFSET = re.compile(rf"([+-]){_CLOCK}", re.ASCII)
NOT_REVOCABLE = "not allow to dispatch to revocable node"


@dataclass(frozen=True, slots=True)
class Window:
    """A part of every day, in seconds after midnight, with its last second; it may include midnight."""

    text: str
    begin: int
    end: int

    @classmethod
    def of(cls, text: str) -> Window | None:
        """Parses ``HH:MM-HH:MM``; None: the text has another form."""
        match = _WINDOW.fullmatch(text)
        if match is None:
            return None
        begin, end = _seconds(match[1], match[2]), _seconds(match[3], match[4])
        return cls(text.strip(), begin, end if end > begin else end + _DAY)

    def is_active(self, second: int) -> bool:
        """Whether a second of the day is within the window, which can have begun the day before."""
        return self.begin <= second <= self.end or second + _DAY <= self.end

    def next_change(self, second: int) -> int:
        """The number of seconds until the window begins or ends."""
        return min((edge - second - 1) % _DAY + 1 for edge in (self.begin, self.end + 1))


class TdmArguments(Arguments):
    """The windows, and the period of evictions."""

    period_ns = duration(
        "tdm.evict.period", "1m", "time between evictions from nodes outside their window"
    )
    utc_offset = text(
        "tdm.utc-offset",
        "+00:00",
        "offset of the windows' local time from UTC",
        Limit(pattern=_OFFSET.pattern, form="+HH:MM or -HH:MM"),
    )
    windows = by_name(
        text(
            "tdm.revocable-zone.",
            "",
            "daily window in which nodes of this zone take revocable pods",
            Limit(
                pattern=_WINDOW.pattern,
                form="HH:MM-HH:MM",
                otherwise="Volcano would never use the nodes of this zone",
            ),
        )
    )


class TdmPlugin:
    """Allows only revocable pods on revocable nodes, and only during the window of the node's zone."""

    name: ClassVar[str] = "tdm"
    arguments: ClassVar[type[Arguments]] = TdmArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = TdmArguments(options.arguments)
        self._windows = {
            zone: window
            for zone, written in arguments.windows.items()
            if (window := Window.of(written)) is not None
        }
        self._offset = offset_seconds(arguments.utc_offset)
        self._period_ns = arguments.period_ns
        # Whether pods may have to be evicted from nodes when the period ends.
        self._evicts_later = False

    def open(self, session: Session) -> None:
        self._session = session
        self._second = (session.now_ns // _SECOND_NS + self._offset) % _DAY
        self._active = tuple(
            z for z, window in self._windows.items() if window.is_active(self._second)
        )
        hooks, table = session.hooks, session.table
        version = lambda: (table.labels_version, self._active)  # noqa: E731
        hooks.class_predicate[self.name] = ClassRule(self._refusals, version, _is_revocable)
        hooks.class_score[self.name] = ClassRule(self._scores, version, _is_revocable)
        hooks.preemptable[self.name] = VictimRule(
            self._victims,
            mark=max_evictions,
            limit=lambda task: inf if _never_preempts(task) else 0,
            counts=True,
        )
        hooks.victim_tasks[self.name] = self._outside_windows
        hooks.job_order[self.name] = SortKey(_is_preemptable)
        hooks.job_pipelined[self.name] = lambda job: PERMIT if job.is_pipelined else REJECT
        hooks.job_starving[self.name] = lambda job: (
            not _is_preemptable(job) and bool(job.index.pending)
        )
        hooks.lasts[self.name] = lambda _point: True

    def next_wake(self, now_ns: int) -> int | None:
        """When the next window begins or ends, or when more pods may be evicted."""
        whole_ns = now_ns // _SECOND_NS * _SECOND_NS
        times = [
            whole_ns + window.next_change(self._second) * _SECOND_NS
            for window in self._windows.values()
        ]
        if self._evicts_later:
            times.append((self._session.last_time(self.name) or now_ns) + self._period_ns)
        return min(times, default=None)

    # Nodes.

    def _zones(self) -> dict[str, Mask]:
        """The rows of each zone."""
        column = self._session.labels.column(REVOCABLE_ZONE)
        return {zone: column.among((zone,)) for zone in sorted(column.values) if zone}

    def _refusals(self, _: TaskClass, is_revocable: Hashable) -> list[Refusal]:
        refusals = []
        for zone, rows in self._zones().items():
            if zone not in self._active:
                refusals.append(Refusal(self._why_inactive(zone), rows, unresolvable=True))
            elif is_revocable is False:
                refusals.append(Refusal(NOT_REVOCABLE, rows, unresolvable=True))
        return refusals

    def _why_inactive(self, zone: str) -> str:
        window = self._windows.get(zone)
        if window is None:
            return f"revocable zone {zone} not support"
        return f"current time beyond revocable zone {zone}:{window.text}"

    def _scores(self, _: TaskClass, is_revocable: Hashable) -> Scores:
        scores: Scores = np.zeros(len(self._session.table))
        if is_revocable is True:
            for zone, rows in self._zones().items():
                if zone in self._active:
                    scores[rows] = _SCORE
        return scores

    # Victims.

    def _victims(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Preemptable pods that are not on revocable nodes."""
        if _never_preempts(preemptor):
            return [], REJECT
        return self._within_budgets([t for t in candidates if self._zone_of(t) == ""]), PERMIT

    def _zone_of(self, task: Task) -> str | None:
        """The zone of the task's node, empty for a node without one; None: the node is not known."""
        entry = self._session.table.entries.get(task.node_name)
        if entry is None or entry.node is None:
            return None
        return entry.node.labels.get(REVOCABLE_ZONE, "")

    def _within_budgets(self, tasks: list[Task]) -> list[Task]:
        """The running, preemptable tasks; of each job, as many as its disruption budget allows."""
        by_job: dict[str, list[Task]] = {}
        for task in tasks:
            if task.pod.preemptable and task.status is TaskStatus.RUNNING:
                by_job.setdefault(task.job_id, []).append(task)
        victims: list[Task] = []
        for job_id, found in by_job.items():
            job = self._session.jobs.get(job_id)
            if job is not None:
                victims += found[: max_evictions(job)]
        return victims

    def _outside_windows(self, _: list[Task]) -> list[Task]:
        """Once in every period, pods on nodes whose zone is outside its window."""
        last_ns = self._session.last_time(self.name)
        if last_ns is not None and last_ns + self._period_ns > self._session.now_ns:
            self._evicts_later = True
            return []
        self._session.keep_time(self.name, self._session.now_ns)
        zones = self._zones()
        victims = []
        for zone in self._windows:
            if zone in self._active or zone not in zones:
                continue
            rows = np.flatnonzero(zones[zone]).tolist()
            tasks = [t for row in rows for t in self._session.table.rows[row].tasks_in_order()]
            victims += self._within_budgets(tasks)
            self._evicts_later |= any(task.status is TaskStatus.RUNNING for task in tasks)
        return victims


def _is_revocable(task: Task) -> bool:
    return bool(task.pod.revocable_zone)


def _never_preempts(task: Task) -> bool:
    return task.pod.preemptable or bool(task.pod.revocable_zone)


def _is_preemptable(job: Job) -> bool:
    return job.group is not None and job.group.preemptable


def max_evictions(job: Job) -> int:
    """The number of running pods of a job that can be evicted at once within its disruption budget."""
    annotations = {} if job.group is None else job.group.annotations
    running = len(job.index.with_status(TaskStatus.RUNNING))
    if MIN_AVAILABLE in annotations:
        least = _scaled(annotations[MIN_AVAILABLE], len(job.index))
        # As in Volcano, one pod of a job below its minimum can still be evicted.
        return running - least if annotations[MIN_AVAILABLE] and running >= least else 1
    if annotations.get(MAX_UNAVAILABLE):
        most = _scaled(annotations[MAX_UNAVAILABLE], len(job.index))
        finished = job.index.count(TaskStatus.SUCCEEDED, TaskStatus.FAILED)
        return max(most - (len(job.index) - finished - running), 0)
    return 1


def _scaled(text: str, count: int) -> int:
    """The value of a number, or of a percentage of ``count``, rounded up; 0 for another text."""
    number = parse_int(text)
    if number is not None:
        return number
    percent = parse_int(text.removesuffix("%")) if text.endswith("%") else None
    return 0 if percent is None else ceil(percent * count / 100)


def offset_seconds(text: str) -> int:
    """Parses ``+HH:MM`` or ``-HH:MM``; 0 for another text."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return 0
    seconds = _seconds(match[2], match[3])
    return -seconds if match[1] == "-" else seconds


def _seconds(hours: str, minutes: str) -> int:
    return int(hours) * 3600 + int(minutes) * 60

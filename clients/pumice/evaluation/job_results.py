"""Results of jobs in a run: start, end and lost work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pumice.evaluation.lost_work import lost_work
from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_EVICTION, BY_NODE, PodRecord

_SECOND_NS = 1_000_000_000


class JobState(StrEnum):
    """The progress of a job in a run."""

    # The job had its minimum of pods when the recording began, so it has no waiting time.
    WAS_RUNNING = "was running"
    STARTED = "started"
    # The job waits at the end of the recording; its waiting time is a lower bound.
    WAITING = "still waiting"
    # The job was deleted before it started; its waiting time is a lower bound.
    DELETED = "deleted while waiting"


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job in one run. Lost work is in core-seconds, GiB-seconds or unit-seconds."""

    job: str
    queue: str
    # The priority class, or the priority if there is no class.
    priority: str
    min_member: int
    state: JobState
    # Seconds from the creation of the first pod to the placement of the minimum of pods. A lower
    # bound if the job never started; None if it was running before.
    wait: float | None
    # Seconds from the beginning of the recording to the end of the last pod; None if not finished.
    finished: float | None
    evictions: int = 0
    lost: Mapping[str, float] = field(default_factory=dict)

    @property
    def never_started(self) -> bool:
        return self.state in (JobState.WAITING, JobState.DELETED)


def job_results(
    history: History, records: Mapping[str, PodRecord], evictions: Iterable[tuple[int, str]]
) -> dict[str, JobResult]:
    """The jobs of a run over a history; all runs over a history have the same jobs."""
    members: dict[str, list[PodRecord]] = {
        record.job: [] for record in history.pods.values() if record.pod.group_name
    }
    for record in records.values():
        if record.job in members:
            members[record.job].append(record)
    evicted: dict[str, int] = {}
    for _, uid in evictions:
        if uid in records:
            evicted[records[uid].job] = evicted.get(records[uid].job, 0) + 1
    priorities = _priorities(history)
    return {
        name: _result(history, name, priorities.get(name, "0"), members[name], evicted.get(name, 0))
        for name in sorted(members)
    }


def _priorities(history: History) -> dict[str, str]:
    """The priority classes of jobs, or the highest priority of their pods."""
    found: dict[str, str] = {}
    highest: dict[str, int] = {}
    for record in history.pods.values():
        pod = record.pod
        if pod.spec.priority_class_name:
            found[record.job] = pod.spec.priority_class_name
        highest[record.job] = max(pod.priority, highest.get(record.job, pod.priority))
    for event in history.external:
        if event.object is not None and event.object.HasField("pod_group"):
            group = event.object.pod_group
            if group.priority_class_name:
                found[f"{group.namespace}/{group.name}"] = group.priority_class_name
    return {name: found.get(name) or str(value) for name, value in highest.items()}


def _result(
    history: History, name: str, priority: str, members: list[PodRecord], evictions: int
) -> JobResult:
    job = history.jobs[name]
    enough = max(job.min_member, 1)
    state, wait_ns = _start(history, members, enough)
    finished_ns = _finished_ns(members)
    return JobResult(
        name,
        job.queue,
        priority,
        job.min_member,
        state,
        None if wait_ns is None else round(wait_ns / _SECOND_NS, 3),
        None if not finished_ns else round((finished_ns - history.start_ns) / _SECOND_NS, 3),
        evictions,
        lost_work(members, enough, history.end_ns),
    )


def placed_ns(record: PodRecord) -> int:
    """The time of the decision, or of the bind by another scheduler; 0 if never placed."""
    return record.decided_ns or record.bound_ns


def _start(history: History, members: list[PodRecord], enough: int) -> tuple[JobState, int | None]:
    """The state of a job, and its wait until enough pods were placed; finished pods count."""
    if not members:
        return JobState.DELETED, 0
    steps: list[tuple[int, int]] = []
    for record in members:
        if not placed_ns(record):
            continue
        steps.append((placed_ns(record), 1))
        if not record.finished_ns and (lost_ns := record.evicted_ns or record.gone_ns):
            steps.append((max(lost_ns, placed_ns(record)), -1))
    begin_ns = min(record.created_ns for record in members)
    if sum(_was_placed_before(record) for record in members) >= enough:
        return JobState.WAS_RUNNING, None
    placed = 0
    for at_ns, change in sorted(steps, key=lambda step: (step[0], -step[1])):
        placed += change
        if placed >= enough:
            if at_ns <= history.start_ns:
                return JobState.WAS_RUNNING, None
            return JobState.STARTED, max(at_ns - begin_ns, 0)
    if all(record.gone_ns for record in members):
        return JobState.DELETED, max(record.gone_ns for record in members) - begin_ns
    return JobState.WAITING, max(history.end_ns - begin_ns, 0)


def _was_placed_before(record: PodRecord) -> bool:
    """Whether the pod had a node when it first appeared in the recording."""
    return 0 < record.bound_ns <= record.created_ns


def _finished_ns(members: list[PodRecord]) -> int:
    """The end of the last pod; 0 if pods are left, or were lost after that."""
    last = max((record.finished_ns for record in members), default=0)
    if not last or not all(record.finished_ns or record.gone_ns for record in members):
        return 0
    lost = (
        record.gone_ns
        for record in members
        if not record.finished_ns and record.ended_by in (BY_EVICTION, BY_NODE)
    )
    return 0 if max(lost, default=0) > last else last

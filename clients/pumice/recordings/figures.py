"""Waiting times, evictions and utilisation of a cluster, in total and by queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pumice.recordings.history import History
from pumice.recordings.pod_records import PodRecord

_SECOND_NS = 1_000_000_000
ALL = ""


@dataclass(slots=True)
class QueueFigures:
    """The pods of one queue. Waiting is from a pod's creation to the decision to bind it."""

    pods: int = 0
    placed: int = 0
    # Seconds until pods were placed.
    mean_wait: float = 0.0
    median_wait: float = 0.0
    p90_wait: float = 0.0
    longest_wait: float = 0.0
    still_waiting: int = 0
    evictions: int = 0
    # Average requests of pods on nodes, as a share of the cluster's CPUs.
    cpu_share: float = 0.0


@dataclass(slots=True)
class JobFigures:
    """A job: the time until its minimum of pods was placed."""

    queue: str
    # None: it was not placed.
    wait: float | None
    evictions: int = 0


@dataclass(slots=True)
class Figures:
    """The figures of one run."""

    queues: dict[str, QueueFigures] = field(default_factory=dict)
    jobs: dict[str, JobFigures] = field(default_factory=dict)
    # (seconds since the beginning, pods waiting, share of cpu held)
    curve: list[tuple[float, int, float]] = field(default_factory=list)


def figures(
    history: History, records: Mapping[str, PodRecord], evictions: Sequence[tuple[int, str]]
) -> Figures:
    """The figures of recorded pods, or of the pods of a what-if run over the same history."""
    result = Figures()
    end_ns = history.end_ns
    capacity = _capacity(history)
    queue_of = {name: job.queue for name, job in history.jobs.items()}
    groups: dict[str, list[PodRecord]] = {ALL: list(records.values())}
    for record in records.values():
        groups.setdefault(queue_of.get(record.job, "") or "(none)", []).append(record)
    evicted = [queue_of.get(records[uid].job, "") for _, uid in evictions if uid in records]
    for queue in sorted(groups):
        made = _queue(groups[queue], end_ns)
        made.cpu_share = _cpu_share(groups[queue], capacity, history.start_ns, end_ns)
        made.evictions = len(evicted) if queue == ALL else evicted.count(queue)
        result.queues[queue] = made
    result.jobs = _jobs(history, records, evictions)
    result.curve = _curve(list(records.values()), capacity, history.start_ns, end_ns)
    return result


def _needs_placement(record: PodRecord) -> bool:
    """Whether the scheduler had to place the pod, which was not created with a node."""
    return bool(record.decided_ns and not record.is_old) or not record.bound_ns


def _wait(record: PodRecord) -> float:
    return max(record.decided_ns - record.created_ns, 0) / _SECOND_NS


def _queue(records: Iterable[PodRecord], end_ns: int) -> QueueFigures:
    asked = [record for record in records if _needs_placement(record)]
    waits = sorted(_wait(record) for record in asked if record.decided_ns)
    made = QueueFigures(len(asked), len(waits))
    made.still_waiting = sum(
        not record.decided_ns and not 0 < record.gone_ns <= end_ns for record in asked
    )
    if waits:
        made.mean_wait = round(sum(waits) / len(waits), 3)
        made.median_wait = round(waits[len(waits) // 2], 3)
        made.p90_wait = round(waits[min(int(len(waits) * 0.9), len(waits) - 1)], 3)
        made.longest_wait = round(waits[-1], 3)
    return made


def _jobs(
    history: History, records: Mapping[str, PodRecord], evictions: Sequence[tuple[int, str]]
) -> dict[str, JobFigures]:
    members: dict[str, list[PodRecord]] = {}
    for record in records.values():
        if _needs_placement(record):
            members.setdefault(record.job, []).append(record)
    evicted: dict[str, int] = {}
    for _, uid in evictions:
        if uid in records:
            evicted[records[uid].job] = evicted.get(records[uid].job, 0) + 1
    found = {}
    for name in sorted(members):
        job = history.jobs[name]
        decided = sorted(record.decided_ns for record in members[name] if record.decided_ns)
        enough = max(job.min_member, 1)
        begin = min(record.created_ns for record in members[name])
        wait = None
        if len(decided) >= enough:
            wait = round(max(decided[enough - 1] - begin, 0) / _SECOND_NS, 3)
        found[name] = JobFigures(job.queue, wait, evicted.get(name, 0))
    return found


def _capacity(history: History) -> list[tuple[int, int]]:
    """(time, the cluster's cpu from then on)."""
    nodes: dict[str, int] = {}
    steps = []
    for event in history.external:
        if event.object is not None and event.object.HasField("node"):
            nodes[event.uid] = event.object.node.allocatable.get("cpu", 0)
        elif event.object is None and event.uid in nodes:
            del nodes[event.uid]
        else:
            continue
        steps.append((event.at_ns, sum(nodes.values())))
    return steps


def _steps(
    records: Iterable[PodRecord], capacity: Sequence[tuple[int, int]], end_ns: int
) -> list[tuple[int, int, int, int]]:
    """Changes in order: time, cpu held, pods waiting, and the new capacity or -1."""
    found = [(at_ns, 0, 0, total) for at_ns, total in capacity]
    for record in records:
        last = record.finished_ns or record.gone_ns or end_ns
        if record.bound_ns:
            found += [(record.bound_ns, record.cpu, 0, -1), (last, -record.cpu, 0, -1)]
        if _needs_placement(record):
            until = record.decided_ns or record.gone_ns or end_ns
            found += [(record.created_ns, 0, 1, -1), (max(until, record.created_ns), 0, -1, -1)]
    return sorted(found)


def _cpu_share(
    records: Iterable[PodRecord], capacity: Sequence[tuple[int, int]], start_ns: int, end_ns: int
) -> float:
    held = total = 0
    used_ns = offered_ns = 0
    last = start_ns
    for at_ns, cpu, _, new in _steps(records, capacity, end_ns):
        moment = min(max(at_ns, start_ns), end_ns)
        used_ns += held * (moment - last)
        offered_ns += total * (moment - last)
        last = moment
        held += cpu
        total = total if new < 0 else new
    used_ns += held * (end_ns - last)
    offered_ns += total * (end_ns - last)
    return round(used_ns / offered_ns, 4) if offered_ns else 0.0


def _curve(
    records: Sequence[PodRecord], capacity: Sequence[tuple[int, int]], start_ns: int, end_ns: int
) -> list[tuple[float, int, float]]:
    """Up to some hundred points, each the state at its time."""
    points = 200
    span = max(end_ns - start_ns, 1)
    curve, held, waiting, total = [], 0, 0, 0
    steps = _steps(records, capacity, end_ns)
    position = 0
    for number in range(points + 1):
        moment = start_ns + span * number // points
        while position < len(steps) and steps[position][0] <= moment:
            _, cpu, pods, new = steps[position]
            held, waiting = held + cpu, waiting + pods
            total = total if new < 0 else new
            position += 1
        seconds = round((moment - start_ns) / _SECOND_NS, 3)
        curve.append((seconds, waiting, round(held / total, 4) if total else 0.0))
    return curve

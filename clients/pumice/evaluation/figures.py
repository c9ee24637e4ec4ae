"""The figures of one run: waiting times, jobs, resources, evictions and fairness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from pumice.evaluation.fairness import fairness
from pumice.evaluation.job_results import JobResult, job_results
from pumice.evaluation.usage import Span, Usage, needs_placement
from pumice.recordings.history import ExternalEvent, History
from pumice.recordings.pod_records import PodRecord

_SECOND_NS = 1_000_000_000
ALL = ""
NO_QUEUE = "(none)"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Waiting times of jobs. Jobs that never started count with their waiting time so far."""

    count: int = 0
    # Jobs that never started. Values from ``bound_from``, their shortest wait, on are lower bounds.
    never_started: int = 0
    bound_from: float | None = None
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    longest: float = 0.0

    def is_lower_bound(self, value: float) -> bool:
        return self.bound_from is not None and value >= self.bound_from


@dataclass(slots=True)
class QueueFigures:
    """The pods of one queue. Waiting is from a pod's creation to the decision to bind it.

    Pods that were not placed count with their waiting time so far.
    """

    pods: int = 0
    placed: int = 0
    # Seconds.
    mean_wait: float = 0.0
    median_wait: float = 0.0
    p90_wait: float = 0.0
    longest_wait: float = 0.0
    still_waiting: int = 0
    evictions: int = 0
    # Average requests of pods on nodes, as a share of the cluster's CPUs.
    cpu_share: float = 0.0
    # The same for each resource.
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Curves:
    """Figures over time, each with one value for each of ``seconds``."""

    seconds: list[float] = field(default_factory=list)
    waiting_pods: list[int] = field(default_factory=list)
    fairness: list[float] = field(default_factory=list)
    # The used share of each resource.
    held: dict[str, list[float]] = field(default_factory=dict)
    # The dominant share of the pods of each queue.
    queues: dict[str, list[float]] = field(default_factory=dict)


@dataclass(slots=True)
class Figures:
    """The figures of one run."""

    seconds: float = 0.0
    queues: dict[str, QueueFigures] = field(default_factory=dict)
    jobs: dict[str, JobResult] = field(default_factory=dict)
    evictions: int = 0
    # By resource: the average used share, and the same without lost work.
    shares: dict[str, float] = field(default_factory=dict)
    useful_shares: dict[str, float] = field(default_factory=dict)
    # Core-seconds, GiB-seconds or unit-seconds that evictions lost, by resource.
    lost: dict[str, float] = field(default_factory=dict)
    fairness: float = 1.0
    curves: Curves = field(default_factory=Curves)

    def waits(self, *, queue: str | None = None, priority: str | None = None) -> Percentiles:
        """Waiting times of the jobs of a queue, of a priority, or of all jobs."""
        return percentiles(
            job
            for job in self.jobs.values()
            if queue in (None, job.queue) and priority in (None, job.priority)
        )


def percentiles(jobs: Iterable[JobResult]) -> Percentiles:
    """Percentiles by nearest rank; jobs that ran before the recording have no waiting time."""
    waited = [job for job in jobs if job.wait is not None]
    waits = sorted(job.wait for job in waited if job.wait is not None)
    if not waits:
        return Percentiles()
    never = [job.wait for job in waited if job.never_started and job.wait is not None]
    p50, p90, p99 = (waits[ceil(part * len(waits) / 100) - 1] for part in (50, 90, 99))
    mean = round(sum(waits) / len(waits), 3)
    shortest = min(never, default=None)
    return Percentiles(len(waits), len(never), shortest, mean, p50, p90, p99, waits[-1])


def figures(
    history: History,
    records: Mapping[str, PodRecord],
    evictions: Sequence[tuple[int, str]],
    external: Sequence[ExternalEvent] | None = None,
) -> Figures:
    """The figures of recorded pods, or of the pods of a what-if run over the same history.

    ``external`` has the nodes and queues of the run, if they differ from those of the history.
    """
    external = history.external if external is None else external
    span = Span(history.start_ns, history.end_ns)
    queue_of = {name: job.queue or NO_QUEUE for name, job in history.jobs.items()}
    usage = Usage(span, records.values(), queue_of, external)
    jobs = job_results(history, records, evictions)
    fair = fairness(usage, _weights(external))
    result = Figures(
        round(span.ns / _SECOND_NS, 3),
        _queues(history, records, evictions, usage, queue_of),
        jobs,
        len(evictions),
        {name: round(usage.share(name), 4) for name in usage.resources},
        lost=_sum(job.lost for job in jobs.values()),
        fairness=round(float(fair.mean()), 4),
        curves=_curves(span, usage, fair.tolist()),
    )
    result.useful_shares = _useful(result, usage)
    return result


def _useful(result: Figures, usage: Usage) -> dict[str, float]:
    """Used shares without lost work."""
    found = {}
    for name, share in result.shares.items():
        offered = usage.capacity.offered(name)
        lost = result.lost.get(name, 0.0) / offered if offered else 0.0
        found[name] = round(max(share - lost, 0.0), 4)
    return found


def _sum(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for held in amounts:
        for name, amount in held.items():
            total[name] = total.get(name, 0.0) + amount
    return {name: round(amount, 3) for name, amount in sorted(total.items())}


def _weights(external: Iterable[ExternalEvent]) -> dict[str, int]:
    """The last weight of each queue."""
    found = {}
    for event in external:
        if event.object is not None and event.object.HasField("queue"):
            queue = event.object.queue
            found[queue.name] = queue.weight if queue.HasField("weight") else 1
    return found


def _queues(
    history: History,
    records: Mapping[str, PodRecord],
    evictions: Sequence[tuple[int, str]],
    usage: Usage,
    queue_of: Mapping[str, str],
) -> dict[str, QueueFigures]:
    groups: dict[str, list[PodRecord]] = {ALL: list(records.values())}
    for record in records.values():
        groups.setdefault(queue_of.get(record.job, NO_QUEUE), []).append(record)
    evicted = [queue_of.get(records[uid].job, "") for _, uid in evictions if uid in records]
    found = {}
    for queue in sorted(groups):
        made = found[queue] = _queue(groups[queue], history.end_ns)
        of = None if queue == ALL else queue
        made.shares = {name: round(usage.share(name, of), 4) for name in usage.resources}
        made.cpu_share = made.shares.get("cpu", 0.0)
        made.evictions = len(evicted) if queue == ALL else evicted.count(queue)
    return found


def _queue(records: Iterable[PodRecord], end_ns: int) -> QueueFigures:
    asked = [record for record in records if needs_placement(record)]
    waits = sorted(_wait(record, end_ns) for record in asked)
    made = QueueFigures(len(asked), sum(bool(record.decided_ns) for record in asked))
    made.still_waiting = sum(
        not record.decided_ns and not 0 < record.gone_ns <= end_ns for record in asked
    )
    if waits:
        made.mean_wait = round(sum(waits) / len(waits), 3)
        made.median_wait = round(waits[len(waits) // 2], 3)
        made.p90_wait = round(waits[min(int(len(waits) * 0.9), len(waits) - 1)], 3)
        made.longest_wait = round(waits[-1], 3)
    return made


def _wait(record: PodRecord, end_ns: int) -> float:
    until_ns = record.decided_ns or record.gone_ns or end_ns
    return max(until_ns - record.created_ns, 0) / _SECOND_NS


def _curves(span: Span, usage: Usage, fair: Sequence[float]) -> Curves:
    held = usage.shares()
    return Curves(
        [round((at_ns - span.start_ns) / _SECOND_NS, 3) for at_ns in span.times()],
        [int(count) for count in usage.waiting_pods],
        [round(value, 4) for value in fair],
        {name: _rounded(held[row]) for row, name in enumerate(usage.resources)},
        {
            queue: _rounded(usage.shares(queue).max(axis=0))
            for queue in usage.queues
            if usage.resources
        },
    )


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), 4) for value in values]

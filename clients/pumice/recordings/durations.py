"""Durations in a what-if run: recorded durations, or medians of other pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median_low

from pumice.recordings.history import History
from pumice.recordings.pod_records import BY_CLEANUP, BY_USER, PodRecord

_SECOND_NS = 1_000_000_000


class DurationEstimates:
    """The recorded durations of each pod, or else the medians of other pods."""

    def __init__(self, history: History) -> None:
        self._history = history
        records = history.pods.values()
        self._bind = _median((p.bound_ns - p.decided_ns for p in records if _was_decided(p)), 0)
        self._start = _median((p.running_ns - p.bound_ns for p in records if _has_started(p)), 0)
        self._notice = _median((_notice(p) for p in records if p.evicted_ns and _end(p)), 0)
        self._grace = _median(
            (p.gone_ns - _end(p) for p in records if p.evicted_ns and p.gone_ns), 0
        )
        self._replacement = _median(
            (history.pods[p.replaced_by].created_ns - p.gone_ns for p in records if p.replaced_by),
            _SECOND_NS,
        )
        # The difference between the cluster's clock and the core's.
        self._ahead_ns = _median((_ahead(p) for p in records if p.start_time_ns), 0)
        self._condition = _median(history.condition_delays_ns.values(), 0)
        finished = [p for p in records if p.finished_ns]
        self._by_job = _medians(finished, lambda p: p.job)
        self._by_queue = _medians(finished, lambda p: history.jobs[p.job].queue)
        self._run = _median((p.run_ns for p in finished), -1)
        # Pods with an estimated run time, and pods that are assumed not to end.
        self.estimated_runs: set[str] = set()
        self.endless_runs: set[str] = set()

    def bind_ns(self, record: PodRecord) -> int:
        return record.bound_ns - record.decided_ns if _was_decided(record) else self._bind

    def start_ns(self, record: PodRecord) -> int:
        return record.running_ns - record.bound_ns if _has_started(record) else self._start

    def start_time_ns(self, record: PodRecord, now_ns: int) -> int:
        """The start time that the cluster reports for a pod that starts now."""
        return now_ns + (_ahead(record) if record.start_time_ns else self._ahead_ns)

    def condition_ns(self, uid: str, now_ns: int) -> int:
        """Time from a session to the update of the pod with the condition of the session."""
        return self._history.condition_delays_ns.get((uid, now_ns), self._condition)

    def notice_ns(self, record: PodRecord) -> int:
        """Time from the decision to evict a pod to the update with its termination."""
        return _notice(record) if record.evicted_ns and _end(record) else self._notice

    def grace_ns(self, record: PodRecord) -> int:
        """Time from the update with a pod's termination to its deletion; 0 if there was only one."""
        if record.gone_ns and not record.finished_ns:
            return record.gone_ns - _end(record)
        return self._grace

    def replacement_ns(self, record: PodRecord) -> int:
        """Time from the deletion of a pod to the creation of its replacement."""
        other = self._history.pods.get(record.replaced_by)
        return self._replacement if other is None else max(other.created_ns - record.gone_ns, 0)

    def run_ns(self, record: PodRecord) -> int | None:
        """The run time; None if the pod does not end by itself."""
        last = record
        while not last.finished_ns and last.replaced_by:
            last = self._history.pods[last.replaced_by]
        if last.finished_ns:
            return last.run_ns
        if last.ended_by in (BY_USER, BY_CLEANUP):
            # A user or the end of its job ends the pod.
            return None
        if last.running_ns:
            self.endless_runs.add(record.uid)
            return None
        self.estimated_runs.add(record.uid)
        queue = self._history.jobs[record.job].queue if record.job in self._history.jobs else ""
        estimate = self._by_job.get(record.job, self._by_queue.get(queue, self._run))
        return estimate if estimate >= 0 else None


def _was_decided(record: PodRecord) -> bool:
    return bool(record.decided_ns) and record.bound_ns >= record.decided_ns


def _has_started(record: PodRecord) -> bool:
    return bool(record.bound_ns) and record.running_ns >= record.bound_ns


def _ahead(record: PodRecord) -> int:
    return record.start_time_ns - record.running_ns


def _end(record: PodRecord) -> int:
    return record.terminating_ns or record.gone_ns


def _notice(record: PodRecord) -> int:
    return max(_end(record) - record.evicted_ns, 0)


def _median(values: Iterable[int], default: int) -> int:
    held = list(values)
    return median_low(held) if held else default


def _medians(records: Iterable[PodRecord], key: Callable[[PodRecord], str]) -> dict[str, int]:
    held: dict[str, list[int]] = {}
    for record in records:
        held.setdefault(key(record), []).append(record.run_ns)
    return {name: median_low(values) for name, values in held.items()}

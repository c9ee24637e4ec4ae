"""Estimated run times of pods under three levels of assumptions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pumice.core.model.group import PodGroup
from pumice.core.model.pod import Pod
from pumice.patterns.golang import parse_duration_ns
from pumice.server.estimating.run_times import PastRuns, template_of

# Annotation of a pod or its PodGroup: the run time of the pod, as a Go duration.
RUN_TIME: Final = "pumice.sh/run-time"
# Number of invalid annotations in a response.
MAX_UNREADABLE = 10
_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS
# Pods of these controllers do not end by themselves. A Node owns static pods.
_SERVICES = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Node"}
)


class Source(Enum):
    """The source of the run time of a pod."""

    ANNOTATION = "annotation"
    HISTORY = "history"
    QUEUE = "queue"
    ASSUMED = "assumed"
    # The pod belongs to a service and does not end.
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Level:
    """One set of assumptions for a forward run."""

    name: str
    # Quantile of the run times of earlier pods that ran longer than this pod so far.
    quantile: float
    # Factor for the annotated run time.
    annotated: float
    # Share of the elapsed time that is added for a pod that runs longer than all known pods.
    overrun: float
    # Run time if nothing is known.
    default_ns: int
    # Time from eviction to deletion if no pod was seen to terminate.
    grace_ns: int
    # A quantile of n run times is multiplied by (n + margin) / (n + 1), so that the correction
    # shrinks when more run times are known.
    margin: float


LEVELS: Final = (
    Level("optimistic", 0.0, 0.8, 0.0, 10 * _MINUTE_NS, _SECOND_NS, 0.0),
    Level("expected", 0.5, 1.0, 0.25, 60 * _MINUTE_NS, 5 * _SECOND_NS, 1.0),
    Level("pessimistic", 0.9, 1.25, 1.0, 240 * _MINUTE_NS, 30 * _SECOND_NS, 3.0),
)


@dataclass(frozen=True, slots=True)
class RunTime:
    """The remaining run time of a pod; None: it does not end."""

    left_ns: int | None
    source: Source


class RunTimeEstimates:
    """Estimates remaining run times under one level."""

    def __init__(self, past: PastRuns, level: Level) -> None:
        self._past = past
        self.level = level
        # Annotations that are not positive durations, by object.
        self.unreadable: dict[str, str] = {}

    def of(self, pod: Pod, queue: str, group: PodGroup | None, elapsed_ns: int = 0) -> RunTime:
        """The remaining run time of a pod that has run for ``elapsed_ns``."""
        annotated_ns = self._annotated_ns(pod, group)
        if annotated_ns is not None:
            rest_ns = int(annotated_ns * self.level.annotated) - elapsed_ns
            if rest_ns > 0:
                return RunTime(rest_ns, Source.ANNOTATION)
            return RunTime(self._overrun_ns(elapsed_ns), Source.ASSUMED)
        for source, runs in (
            (Source.HISTORY, self._past.by_template.get(template_of(pod, queue), ())),
            (Source.ENDLESS, None if pod.controller_kind in _SERVICES else ()),
            (Source.QUEUE, self._past.by_queue.get(queue, ())),
        ):
            if runs is None:
                return RunTime(None, source)
            left_ns = self._left_ns(runs, elapsed_ns)
            if left_ns is not None:
                return RunTime(left_ns, source)
        assumed_ns = max(self.level.default_ns - elapsed_ns, self._overrun_ns(elapsed_ns))
        return RunTime(assumed_ns, Source.ASSUMED)

    def _overrun_ns(self, elapsed_ns: int) -> int:
        return max(int(elapsed_ns * self.level.overrun), _SECOND_NS)

    def grace_ns(self) -> int:
        """The time from the eviction to the deletion of a pod."""
        left_ns = self._left_ns(self._past.graces, -1)
        return self.level.grace_ns if left_ns is None else left_ns

    def _left_ns(self, runs: Sequence[int], elapsed_ns: int) -> int | None:
        """The remaining time, from runs that were longer than this one; None: there are none."""
        first = bisect_right(runs, elapsed_ns)
        count = len(runs) - first
        if not count:
            return None
        run_ns = runs[first + min(int(count * self.level.quantile), count - 1)]
        left_ns = int((run_ns - max(elapsed_ns, 0)) * (count + self.level.margin) / (count + 1))
        # If few runs were as long, this one may become the longest.
        return max(left_ns, int(elapsed_ns * self.level.overrun / (count + 1)))

    def _annotated_ns(self, pod: Pod, group: PodGroup | None) -> int | None:
        for holder, name in ((pod, f"pod {pod.key}"), (group, f"PodGroup {pod.namespace}/")):
            text = None if holder is None else holder.annotations.get(RUN_TIME)
            if holder is None or text is None:
                continue
            run_ns = parse_duration_ns(text)
            if run_ns is not None and run_ns > 0:
                return run_ns
            where = name if holder is pod else f"{name}{holder.name}"
            if len(self.unreadable) < MAX_UNREADABLE:
                self.unreadable.setdefault(where, text)
        return None

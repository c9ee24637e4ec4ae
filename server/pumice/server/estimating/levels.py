"""How long pods are assumed to run: three levels, from annotation, history, queue or a default."""

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

# On a pod or its PodGroup: how long the pod runs, as Go writes durations.
RUN_TIME: Final = "pumice.sh/run-time"
# Unreadable annotations that an answer names.
MAX_UNREADABLE = 10
_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS
# Pods of these controllers do not end by themselves; a Node has static pods.
_SERVICES = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Deployment", "Node"}
)


class Source(Enum):
    """Where the run time of a pod comes from."""

    ANNOTATION = "annotation"
    HISTORY = "history"
    QUEUE = "queue"
    ASSUMED = "assumed"
    # A pod of a service: it does not end.
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True)
class Level:
    """One of the assumptions under which the engine is run forward."""

    name: str
    # Of the run times of earlier pods that ran longer than this one has by now.
    quantile: float
    # Times the annotation.
    annotated: float
    # Of the time that a pod has run by now, if it runs longer than everything that is known.
    overrun: float
    # Where nothing is known.
    default_ns: int
    # From an eviction to the end of the pod, where no pod was seen to terminate.
    grace_ns: int
    # The more of them are known, the closer a quantile of n run times is taken to be: it is
    # multiplied by (n + margin) / (n + 1).
    margin: float


LEVELS: Final = (
    Level("optimistic", 0.0, 0.8, 0.0, 10 * _MINUTE_NS, _SECOND_NS, 0.0),
    Level("expected", 0.5, 1.0, 0.25, 60 * _MINUTE_NS, 5 * _SECOND_NS, 1.0),
    Level("pessimistic", 0.9, 1.25, 1.0, 240 * _MINUTE_NS, 30 * _SECOND_NS, 3.0),
)


@dataclass(frozen=True, slots=True)
class RunTime:
    """How much longer a pod runs; None: it does not end."""

    left_ns: int | None
    source: Source


class RunTimeEstimates:
    """Remaining run times under one level."""

    def __init__(self, past: PastRuns, level: Level) -> None:
        self._past = past
        self.level = level
        # Annotations that are not durations above zero, with the objects that have them.
        self.unreadable: dict[str, str] = {}

    def of(self, pod: Pod, queue: str, group: PodGroup | None, elapsed_ns: int = 0) -> RunTime:
        """The time that a pod has left after it has run for a while."""
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
        """From an eviction to the end of the pod."""
        left_ns = self._left_ns(self._past.graces, -1)
        return self.level.grace_ns if left_ns is None else left_ns

    def _left_ns(self, runs: Sequence[int], elapsed_ns: int) -> int | None:
        """From the runs that were longer than this one is by now; None: there are none."""
        first = bisect_right(runs, elapsed_ns)
        count = len(runs) - first
        if not count:
            return None
        run_ns = runs[first + min(int(count * self.level.quantile), count - 1)]
        left_ns = int((run_ns - max(elapsed_ns, 0)) * (count + self.level.margin) / (count + 1))
        # Few were as long: it may well become the longest of all.
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

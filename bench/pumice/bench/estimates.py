"""Estimated starts compared with the actual starts in recordings."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pumice.bench.results import Result
from pumice.core.model.status import TaskStatus
from pumice.evaluation.job_results import JobState, job_results
from pumice.recordings import Recording
from pumice.recordings.history import History
from pumice.server.estimating.estimates import range_of
from pumice.server.estimating.forward_run import ForwardRun, RunLimits, Target
from pumice.server.estimating.learning import learn_ends
from pumice.server.estimating.levels import LEVELS, RunTimeEstimates, Source
from pumice.server.estimating.run_times import RunTimes
from pumice.server.ops import NumberedOp
from pumice.server.plugins import installed_registry
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.server.stream_follower import StreamFollower
from pumice.v1.cluster_service_pb2 import ConfigurationResult

_SECOND_NS = 1_000_000_000
# Recorded waits are rounded.
_MILLISECOND_NS = 1_000_000
_HORIZON_NS = 24 * 3600 * _SECOND_NS
# Moments of a recording at which the starts of all waiting jobs are estimated.
MOMENTS = 40


@dataclass(frozen=True, slots=True)
class Sample:
    """The estimate of one job's start at one moment, in seconds from then; None if not found."""

    job: str
    earliest: float | None
    expected: float | None
    latest: float | None
    actual: float
    sources: dict[Source, int]

    @property
    def is_in_range(self) -> bool:
        low = self.earliest is not None and self.earliest <= self.actual
        return low and (self.latest is None or self.actual <= self.latest)


class _LearningFollower(StreamFollower):
    """Learns run times from the changes that it applies, as a core does."""

    def __init__(self, state: ClusterState, learned: RunTimes) -> None:
        super().__init__(state)
        self._learned = learned

    def _apply(self, ops: list[NumberedOp], now_ns: int) -> list[ConfigurationResult]:
        learn_ends(self._learned, self.state.engine.cache, ops, now_ns)
        return super()._apply(ops, now_ns)


class _LearningPlayback(Playback):
    """A playback that learns run times from the recorded changes."""

    def __init__(self, source: str, older: RunTimes | None) -> None:
        self.learned = RunTimes(older)
        super().__init__(installed_registry(), source=source)

    def _follow(self, state: ClusterState) -> StreamFollower:
        return _LearningFollower(state, self.learned)


def samples_of(
    path: Path, moments: int = MOMENTS, older: RunTimes | None = None
) -> Iterator[Sample]:
    """Estimates at moments that are evenly spread over the sessions of a recording.

    ``older`` holds run times that are known when the recording begins.
    """
    with Recording(path) as recording:
        history = History.read(recording.entries())
    starts = _starts(history)
    step = max(len(history.ticks) // moments, 1)
    playback = _LearningPlayback(str(path), older)
    with Recording(path) as recording:
        for number, played in enumerate(playback.sessions(recording.entries())):
            if number % step == step - 1:
                now_ns = played.recorded.now_ns
                yield from _estimated(playback.state, playback.learned, now_ns, starts)


def _starts(history: History) -> dict[str, int]:
    """The recorded times at which jobs had their minimum of pods placed."""
    found = {}
    for name, job in job_results(history, history.pods, history.evictions).items():
        if job.state is JobState.STARTED and job.wait is not None:
            begin = min(p.created_ns for p in history.pods.values() if p.job == name)
            found[name] = begin + round(job.wait * _SECOND_NS)
    return found


def _estimated(
    state: ClusterState, learned: RunTimes, now_ns: int, starts: dict[str, int]
) -> Iterator[Sample]:
    waiting = [
        Target(id_)
        for id_, job in sorted(state.engine.cache.jobs.items())
        if starts.get(id_, 0) > now_ns + _MILLISECOND_NS
        and job.index.by_status.get(TaskStatus.PENDING)
    ]
    if not waiting:
        return
    past = learned.past()
    forecasts = [
        ForwardRun(state.copy(), RunTimeEstimates(past, level), now_ns, RunLimits(_HORIZON_NS)).run(
            waiting
        )
        for level in LEVELS
    ]
    for target in waiting:
        earliest, expected, latest = (
            None if at_ns is None else (at_ns - now_ns) / _SECOND_NS
            for at_ns in range_of(forecasts, target, now_ns)
        )
        actual = (starts[target.job] - now_ns) / _SECOND_NS
        yield Sample(target.job, earliest, expected, latest, actual, forecasts[1].sources)


def estimates(path: Path, moments: int = MOMENTS, older: RunTimes | None = None) -> Result:
    """The accuracy of estimates for one recording."""
    began = time.process_time()
    found = list(samples_of(path, moments, older))
    used = time.process_time() - began
    complete = [sample for sample in found if sample.expected is not None]
    errors = [abs((sample.expected or 0.0) - sample.actual) for sample in complete]
    sources = {
        source.value: sum(sample.sources.get(source, 0) for sample in found) for source in Source
    }
    measured = (
        "estimated starts of waiting jobs against recorded starts; estimates use the recorded state "
        "at moments spread over the recording, and the run times learned up to that moment"
    )
    return Result(
        "eta",
        measured,
        {
            "recording": path.name,
            "moments": moments,
            "known_run_times": 0 if older is None else len(older),
            "estimates": len(found),
            "without_an_expected_time": len(found) - len(complete),
            "median_wait_s": _median([sample.actual for sample in found]),
            "median_error_s": _median(errors),
            "p90_error_s": _quantile(errors, 0.9),
            "median_bias_s": _median([(s.expected or 0.0) - s.actual for s in complete]),
            "in_range": _share([sample.is_in_range for sample in found]),
            "earlier_than_range": _share(
                [s.earliest is None or s.actual < s.earliest for s in found]
            ),
            "median_width_s": _median(
                [
                    s.latest - s.earliest
                    for s in found
                    if s.latest is not None and s.earliest is not None
                ]
            ),
            "run_times": sources,
            "cpu_s": round(used, 2),
        },
    )


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None


def _quantile(values: Sequence[float], part: float) -> float | None:
    ordered = sorted(values)
    return round(ordered[min(int(len(ordered) * part), len(ordered) - 1)], 2) if values else None


def _share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None

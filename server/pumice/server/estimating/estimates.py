"""Combines the forecasts of all levels into one estimate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pumice.server.estimating.forecasts import LevelForecast
from pumice.server.estimating.forward_run import Forecast, Start, Target, Verdict
from pumice.server.estimating.levels import Source
from pumice.server.wire import write_reason
from pumice.server.wire.times import duration, timestamp
from pumice.v1 import estimate_pb2 as pb
from pumice.v1.scheduling_service_pb2 import ScheduleResponse

_SECOND_NS = 1_000_000_000
_EXPECTED = 1
_OUTCOMES = {
    Verdict.STARTED: pb.START_OUTCOME_STARTED,
    Verdict.STARTS: pb.START_OUTCOME_EXPECTED,
    Verdict.LATER: pb.START_OUTCOME_NOT_WITHIN_HORIZON,
    Verdict.NEVER: pb.START_OUTCOME_NEVER,
    Verdict.UNDECIDED: pb.START_OUTCOME_UNDECIDED,
}
# Share of the wait by which the latest time is extended, for jobs that arrive later and go first.
_ARRIVAL_MARGIN = 0.5
# Units of durations in sentences, the largest first.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
# Below this number of a unit, the next smaller unit is also shown.
_FEW = 10


def estimates_of(
    levels: Sequence[LevelForecast], horizon_ns: int
) -> dict[Target, pb.StartEstimate]:
    """The estimates by target; the levels are in the order of LEVELS."""
    targets = levels[_EXPECTED].forecast.starts
    return {target: _estimate(levels, target, horizon_ns) for target in targets}


def set_estimates(response: ScheduleResponse, estimates: dict[str, pb.StartEstimate]) -> None:
    """Adds each estimate to the result of its job."""
    for result in response.jobs:
        if result.job in estimates:
            result.start_estimate.CopyFrom(estimates[result.job])


def range_of(forecasts: Sequence[Forecast], target: Target, now_ns: int) -> list[int | None]:
    """The earliest, expected and latest time; None: not within the horizon.

    The times are sorted, because a longer run of one pod may let another job start sooner.
    """
    starts = [forecast.starts[target] for forecast in forecasts]
    times = sorted(start.at_ns for start in starts if start.verdict is Verdict.STARTS)
    if len(times) == len(starts):
        times[-1] += int((times[-1] - now_ns) * _ARRIVAL_MARGIN)
    return [*times, *[None] * (len(starts) - len(times))]


def _estimate(levels: Sequence[LevelForecast], target: Target, horizon_ns: int) -> pb.StartEstimate:
    middle = levels[_EXPECTED]
    start, now_ns = middle.forecast.starts[target], middle.now_ns
    made = pb.StartEstimate(
        job=target.job,
        pod=middle.pods.get(target.pod_uid, ""),
        outcome=_OUTCOMES[start.verdict],
        horizon=duration(horizon_ns),
        basis=_basis(middle.forecast),
        faults=sorted({fault for level in levels for fault in level.forecast.faults}),
    )
    if start.verdict is not Verdict.STARTED:
        _add_times(made, levels, target, start)
    made.sentence = _sentence(made, now_ns)
    return made


def _add_times(
    made: pb.StartEstimate, levels: Sequence[LevelForecast], target: Target, start: Start
) -> None:
    earliest, expected, latest = range_of(
        [level.forecast for level in levels], target, levels[_EXPECTED].now_ns
    )
    if expected is not None:
        made.outcome = pb.START_OUTCOME_EXPECTED
    elif start.verdict is Verdict.STARTS:
        made.outcome = pb.START_OUTCOME_NOT_WITHIN_HORIZON
    for name, at_ns in (("earliest", earliest), ("expected", expected), ("latest", latest)):
        if at_ns is not None:
            getattr(made, f"{name}_time").CopyFrom(timestamp(at_ns))
    if made.outcome != pb.START_OUTCOME_EXPECTED:
        made.reached_time.CopyFrom(timestamp(start.at_ns))
        made.reasons.extend(map(write_reason, start.reasons))


def _basis(forecast: Forecast) -> pb.RunTimeBasis:
    counts = forecast.sources
    return pb.RunTimeBasis(
        annotation_count=counts.get(Source.ANNOTATION, 0),
        history_count=counts.get(Source.HISTORY, 0),
        queue_count=counts.get(Source.QUEUE, 0),
        assumed_count=counts.get(Source.ASSUMED, 0),
        endless_count=counts.get(Source.ENDLESS, 0),
        problems=[f'{where}: "{text}"' for where, text in sorted(forecast.unreadable.items())],
    )


# Sentences.


def _sentence(made: pb.StartEstimate, now_ns: int) -> str:
    name = f"{made.job.partition('/')[0]}/{made.pod}" if made.pod else made.job
    match made.outcome:
        case pb.START_OUTCOME_STARTED:
            return f"{name} has started."
        case pb.START_OUTCOME_EXPECTED:
            return f"{name} is expected to start {_when(made, now_ns)}. {_based_on(made.basis)}"
        case pb.START_OUTCOME_NOT_WITHIN_HORIZON:
            text = f"{name} is not expected to start within {_duration_text(_nanoseconds(made.horizon))}"
        case pb.START_OUTCOME_NEVER:
            text = (
                f"{name} would never start in the current state: it still waits when all pods have "
                "ended that are expected to end"
            )
        case _:
            reached = made.reached_time.ToDatetime(tzinfo=UTC)
            text = (
                f"{name} does not start before {_clock(reached)}, when the limit of sessions or "
                "of time ended the estimate"
            )
    if made.HasField("earliest_time"):
        earliest_ns = made.earliest_time.ToNanoseconds() - now_ns
        text += f", and in {_duration_text(earliest_ns)} if pods run shorter than usual"
    return f"{text}. {_based_on(made.basis)}"


def _when(made: pb.StartEstimate, now_ns: int) -> str:
    expected_ns, earliest_ns = (
        _left(each.ToNanoseconds(), now_ns) for each in (made.expected_time, made.earliest_time)
    )
    earliest = _duration_text(earliest_ns)
    if not made.HasField("latest_time"):
        horizon = _duration_text(_nanoseconds(made.horizon))
        return f"in {_duration_text(expected_ns)} (in {earliest} at the earliest, perhaps not within {horizon})"
    latest = _duration_text(_left(made.latest_time.ToNanoseconds(), now_ns))
    if earliest == latest:
        return f"in {earliest}"
    return f"in {_duration_text(expected_ns)} (between {earliest} and {latest})"


def _based_on(basis: pb.RunTimeBasis) -> str:
    counts = (
        (basis.annotation_count, "from annotations"),
        (basis.history_count, "from earlier runs"),
        (basis.queue_count, "from the queue"),
        (basis.assumed_count, "assumed"),
        (basis.endless_count, "without end"),
    )
    parts = [f"{count} {word}" for count, word in counts if count]
    if not parts:
        return "No run times were needed."
    return f"Run times of pods: {', '.join(parts)}."


def _left(at_ns: int, now_ns: int) -> int:
    return max(at_ns - now_ns, 0)


def _nanoseconds(message: object) -> int:
    return int(getattr(message, "seconds", 0)) * _SECOND_NS + int(getattr(message, "nanos", 0))


def _duration_text(nanoseconds: int) -> str:
    """``3 h 20 min``; ``under 1 s``."""
    seconds = round(nanoseconds / _SECOND_NS)
    for index, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            text = f"{whole} {unit}"
            if whole < _FEW and index + 1 < len(_UNITS):
                smaller, name = _UNITS[index + 1]
                text += f" {rest // smaller} {name}" if rest // smaller else ""
            return text
    return "under 1 s"


def _clock(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"

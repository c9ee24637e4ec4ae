"""``pumice replay REC --conf NEW``: the figures of a recording with another configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from typing import Any, Final

from rich import box
from rich.markup import escape
from rich.table import Table

from pumice.cli.errors import InputProblem
from pumice.cli.replay.plot import text_plot
from pumice.cli.simulation.reports import clock
from pumice.cli.simulation.runs import problems_text
from pumice.cli.terminal import console
from pumice.recordings import Recording
from pumice.recordings.closed_loop import ClosedLoop
from pumice.recordings.figures import ALL, Figures, JobFigures, QueueFigures, figures
from pumice.recordings.history import History
from pumice.recordings.session_times import SessionTimes, period_and_eagerness
from pumice.server.local import ConfigurationRefusedError, Left, LocalCore, leave_recording
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.recording_pb2 import RecordingEntry

_CLAIM: Final = "persistent_volume_claim"
_SECOND_NS = 1_000_000_000
_MOST_JOBS = 10


@dataclass(frozen=True, slots=True)
class Changes:
    """Settings that replace the recorded ones; None: as recorded."""

    scheduler_conf: str | None = None
    period_seconds: float | None = None
    eager: bool | None = None

    @property
    def change_times(self) -> bool:
        """Sessions run at other times than recorded."""
        return self.period_seconds is not None or self.eager is not None

    def applied_to(self, recorded: Configuration) -> Configuration:
        changed = Configuration()
        changed.CopyFrom(recorded)
        if self.scheduler_conf is not None:
            changed.scheduler_conf = self.scheduler_conf
        if self.period_seconds is not None:
            changed.schedule_period.FromNanoseconds(int(self.period_seconds * _SECOND_NS))
        if self.eager is not None:
            changed.eager = self.eager
        return changed


def session_times_of(
    history: History, recorded: Configuration, configuration: Configuration, before: int = 0
) -> tuple[SessionTimes, bool]:
    """The times of sessions with a configuration, and whether they are the recorded ones."""
    period_ns, eager = period_and_eagerness(configuration)
    same = (period_ns, eager) == period_and_eagerness(recorded)
    ticks = history.ticks[before:]
    return SessionTimes(ticks, period_ns, eager=eager, as_recorded=same), same


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The figures of the recording and of the what-if run, with the assumptions of the run."""

    old: Figures
    new: Figures
    assumptions: tuple[str, ...]
    seconds: float
    sessions: int
    ending: str


def what_if(
    recordings: Sequence[Recording],
    changes: Changes,
    until_ns: int | None,
    progress: Callable[[int], None] | None = None,
) -> WhatIf:
    """A what-if run over recordings that follow each other."""
    history = History.read(_entries(recordings), until_ns)
    if not history.ticks:
        then = "" if until_ns is None else " before --until"
        path = recordings[0].path
        raise InputProblem(f"{path}: contains no session{then}, so nothing can be replayed")
    _check(changes.applied_to(history.configuration))
    left = leave_recording(
        _until(_entries(recordings), until_ns),
        scheduler_conf=changes.scheduler_conf,
        # With other session times the run differs from the first session on.
        at=0 if changes.change_times else None,
        source=str(recordings[0].path),
    )
    old = figures(history, history.pods, history.evictions)
    seconds = (history.end_ns - history.start_ns) / _SECOND_NS
    ending = "; ".join(f"{held.path}: {held.ending}" for held in recordings if held.ending)
    if left is None:
        same = ("every session decides as recorded, so the figures are the same",)
        return WhatIf(old, old, same, seconds, len(history.ticks), ending)
    past = History.read(_entries(recordings), sessions=left.before)
    configuration = changes.applied_to(left.core.configuration)
    times, same_times = session_times_of(
        history, left.core.configuration, configuration, left.before
    )
    loop = ClosedLoop(history, left.core, times, past=past, changed=changes.applied_to)
    loop.run(progress, left.session)
    new = figures(history, loop.records, loop.evictions)
    assumptions = _assumptions(history, loop, left, same_times=same_times)
    return WhatIf(old, new, assumptions, seconds, loop.sessions, ending)


def _entries(recordings: Sequence[Recording]) -> Iterator[RecordingEntry]:
    return chain.from_iterable(held.entries() for held in recordings)


def _until(entries: Iterator[RecordingEntry], until_ns: int | None) -> Iterator[RecordingEntry]:
    if until_ns is None:
        return entries
    return takewhile(lambda entry: entry.entry_time.ToNanoseconds() <= until_ns, entries)


def in_order(recordings: Sequence[Recording]) -> list[Recording]:
    """The recordings by time. Raises InputProblem where they are of several clusters."""
    names = sorted({held.header.cluster for held in recordings})
    if len(names) > 1:
        clusters = ", ".join(names)
        raise InputProblem(
            f"{recordings[0].path}: the recordings are of several clusters: {clusters}"
        )
    return sorted(recordings, key=lambda held: held.header.creation_time.ToNanoseconds())


def check_configuration_text(text: str) -> None:
    """Raises InputProblem for an invalid configuration."""
    _check(Configuration(scheduler_conf=text))


def _check(configuration: Configuration) -> None:
    try:
        LocalCore(configuration)
    except ConfigurationRefusedError as error:
        raise InputProblem(f"--conf: {problems_text(error.told)}") from None


def _assumptions(
    history: History, loop: ClosedLoop, left: Left, *, same_times: bool
) -> tuple[str, ...]:
    estimates = loop.estimates
    paced = "sessions run at their recorded times, and at further times when a core would run one"
    if not same_times:
        paced = "sessions run when a core would run them, not at their recorded times"
    assumptions = [
        "nodes, queues, quotas, creations and deletions by users come at their recorded times",
        "binds and evictions succeed, and take as long as recorded, or the median of all",
        "a gang runs while its minimum of pods runs, as long as recorded; after an interruption it "
        "starts again",
        "pods that are evicted or lose their node are replaced, as recorded or after the median time",
        f"{paced}; they take no time",
    ]
    if left.before:
        time = clock(history.ticks[left.before])
        assumptions.insert(0, f"until {time} every session decides as recorded")
    if estimates.estimated_runs:
        count = len(estimates.estimated_runs)
        assumptions.append(
            f"{count} pods never ran in the recording: their run time is the median of similar pods"
        )
    if estimates.endless_runs:
        count = len(estimates.endless_runs)
        assumptions.append(
            f"{count} pods were still running at the end of the recording: they do not end in this run"
        )
    if any(e.object is not None and e.object.HasField(_CLAIM) for e in history.external):
        assumptions.append("volumes are bound to claims as recorded")
    if len(history.configured) > 1:
        assumptions.append(
            "the configuration changed during the recording; it changes in this run too, except "
            "for the replaced settings"
        )
    return tuple(assumptions)


def print_what_if(found: WhatIf) -> None:
    screen = console()
    if found.ending:
        screen.print(escape(f"note: {found.ending}"))
    screen.print(_queue_table(found))
    if jobs := _changed_jobs(found):
        screen.print(_job_table(jobs))
    for line in text_plot(found.old, found.new):
        screen.print(escape(line))
    screen.print("assumed:")
    for line in found.assumptions:
        screen.print(f"  - {escape(line)}")


def _queue_table(found: WhatIf) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title=f"{found.seconds:.0f} s, old → new")
    table.add_column("queue", no_wrap=True)
    titles = ("pods", "placed", "waiting", "mean wait", "median", "p90", "longest")
    for title in (*titles, "evicted", "cpu"):
        table.add_column(title, justify="right", no_wrap=True)
    for queue in sorted({*found.old.queues, *found.new.queues}, key=lambda q: (q == ALL, q)):
        old = found.old.queues.get(queue, QueueFigures())
        new = found.new.queues.get(queue, QueueFigures())
        table.add_row(
            escape(queue or "all"),
            _pair(old.pods, new.pods),
            _pair(old.placed, new.placed),
            _pair(old.still_waiting, new.still_waiting),
            _pair(_s(old.mean_wait), _s(new.mean_wait)),
            _pair(_s(old.median_wait), _s(new.median_wait)),
            _pair(_s(old.p90_wait), _s(new.p90_wait)),
            _pair(_s(old.longest_wait), _s(new.longest_wait)),
            _pair(old.evictions, new.evictions),
            _pair(f"{old.cpu_share:.1%}", f"{new.cpu_share:.1%}"),
        )
    return table


def _s(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def _pair(old: object, new: object) -> str:
    return str(old) if old == new else f"{old} → {new}"


def _changed_jobs(found: WhatIf) -> list[tuple[str, JobFigures | None, JobFigures | None]]:
    """The jobs whose waiting time changed most, by more than a second."""
    never = found.seconds

    def change(job: tuple[str, JobFigures | None, JobFigures | None]) -> float:
        waits = [never if one is None or one.wait is None else one.wait for one in job[1:]]
        return waits[1] - waits[0]

    names = sorted({*found.old.jobs, *found.new.jobs})
    jobs = [(name, found.old.jobs.get(name), found.new.jobs.get(name)) for name in names]
    changed = [job for job in jobs if abs(change(job)) > 1]
    return sorted(changed, key=lambda job: -abs(change(job)))[:_MOST_JOBS]


def _job_table(jobs: list[tuple[str, JobFigures | None, JobFigures | None]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="jobs that changed most")
    table.add_column("job", no_wrap=True)
    table.add_column("queue", no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("evicted", justify="right", no_wrap=True)
    for name, old, new in jobs:
        known = old or new
        table.add_row(
            escape(name),
            escape(known.queue if known else ""),
            _pair(_s(old.wait if old else None), _s(new.wait if new else None)),
            _pair(old.evictions if old else 0, new.evictions if new else 0),
        )
    return table


def what_if_json(found: WhatIf) -> dict[str, Any]:
    return {
        "seconds": found.seconds,
        "sessions": found.sessions,
        "ending": found.ending,
        "assumptions": list(found.assumptions),
        "old": _figures_json(found.old),
        "new": _figures_json(found.new),
    }


def _figures_json(held: Figures) -> dict[str, Any]:
    return {
        "queues": {queue or "all": asdict(made) for queue, made in held.queues.items()},
        "jobs": {job: asdict(made) for job, made in held.jobs.items()},
        "curve": [
            {"second": second, "waiting": waiting, "cpu_share": share}
            for second, waiting, share in held.curve
        ],
    }

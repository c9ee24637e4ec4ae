"""A what-if run: the figures of recordings with the settings of a candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Final

from pumice.evaluation import changed_entries
from pumice.evaluation.candidate import Candidate, CandidateError, check_configuration
from pumice.evaluation.faults import Fault
from pumice.evaluation.figures import Figures, figures
from pumice.evaluation.goals import GoalResult, goal_results
from pumice.recordings import Recording, RecordingError
from pumice.recordings.closed_loop import ClosedLoop
from pumice.recordings.history import History
from pumice.recordings.sections import Sections, damage, in_order
from pumice.recordings.session_times import SessionTimes, period_and_eagerness
from pumice.server.local import Left, leave_recording
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.recording_pb2 import RecordingEntry

_CLAIM: Final = "persistent_volume_claim"
_SECOND_NS = 1_000_000_000

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a what-if run."""

    # The end of the run; None for the end of the recordings.
    until_ns: int | None = None
    # Whether damage of recordings and sessions that are missing between them are errors.
    strict: bool = False
    # Whether the run continues after a fault of a plugin or action.
    allow_faults: bool = False
    # Whether invalid recorded configurations are skipped.
    allow_missing_plugins: bool = False


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The figures of the recording and of the what-if run, with the assumptions of the run."""

    candidate: str
    old: Figures
    new: Figures
    assumptions: tuple[str, ...]
    seconds: float
    sessions: int
    # Damage of the recordings, and gaps between them.
    problems: tuple[str, ...] = ()
    # Faults of plugins and actions. Without ``allow_faults`` the run ends at the first fault, and
    # the new figures are invalid.
    faults: tuple[Fault, ...] = ()

    @property
    def goals(self) -> tuple[GoalResult, ...]:
        return goal_results(self.old, self.new)


def what_if(
    paths: Sequence[Path],
    candidate: Candidate,
    options: Options | None = None,
    progress: Progress | None = None,
) -> WhatIf:
    """A what-if run over consecutive recordings of one cluster.

    Raises RecordingError for invalid recordings, CandidateError and OverrideError for invalid
    settings.
    """
    with ExitStack() as opened:
        held = [opened.enter_context(Recording(path)) for path in paths]
        return _Run(in_order(held), candidate, options or Options()).run(progress)


class _Run:
    """The run of one candidate over open recordings."""

    def __init__(
        self, recordings: Sequence[Recording], candidate: Candidate, options: Options
    ) -> None:
        self._recordings, self._candidate, self._options = recordings, candidate, options
        self._sections = Sections()

    def run(self, progress: Progress | None) -> WhatIf:
        history = History.read(self._entries(), self._options.until_ns)
        problems = self._problems()
        self._check(history)
        old = figures(history, history.pods, history.evictions)
        changes = self._candidate.overrides
        if changes:
            history = History.read(self._changed(), self._options.until_ns)
        added = changed_entries.added_nodes(history, changes)
        left = self._left(added)
        seconds = (history.end_ns - history.start_ns) / _SECOND_NS
        name = self._candidate.name
        if left is None:
            external = changed_entries.external_events(history, changes, added)
            new = figures(history, history.pods, history.evictions, external) if changes else old
            same = ("every session decides as recorded, so the figures are the same",)
            return WhatIf(name, old, new, same, seconds, len(history.ticks), problems)
        loop, same_times = self._loop(history, left, added)
        loop.run(progress, left.session)
        external = changed_entries.external_events(history, changes, added)
        new = figures(history, loop.records, loop.evictions, external)
        known = _assumptions(history, loop, left, same_times=same_times)
        faults = tuple(Fault.read(fault, loop.faulty_ns) for fault in loop.faults)
        return WhatIf(name, old, new, known, seconds, loop.sessions, problems, faults)

    def _problems(self) -> tuple[str, ...]:
        self._sections.check_order()
        found = [*damage(self._recordings), *self._sections.gaps()]
        if found and self._options.strict:
            raise RecordingError(str(self._recordings[0].path), "; ".join(found))
        return tuple(found)

    def _check(self, history: History) -> None:
        if not history.ticks:
            then = "" if self._options.until_ns is None else " before --until"
            problem = f"contains no session{then}, so nothing can be replayed"
            raise RecordingError(str(self._recordings[0].path), problem)
        candidate = self._candidate
        if candidate.scheduler_conf is not None:
            check_configuration(candidate.name, candidate.applied_to(history.configuration))
        names = changed_entries.names_by_kind(history)
        if problem := candidate.overrides.why_not_applicable(names):
            raise CandidateError(problem)

    def _entries(self) -> Iterator[RecordingEntry]:
        return self._sections.entries(self._recordings)

    def _changed(self) -> Iterator[RecordingEntry]:
        entries = self._entries()
        overrides = self._candidate.overrides
        return changed_entries.changed(entries, overrides) if overrides else entries

    def _left(self, added: Sequence[ClusterObject]) -> Left | None:
        entries: Iterator[RecordingEntry] = self._changed()
        until_ns, overrides = self._options.until_ns, self._candidate.overrides
        if until_ns is not None:
            entries = takewhile(lambda e: e.entry_time.ToNanoseconds() <= until_ns, entries)
        if overrides.changes_nodes:
            entries = changed_entries.with_nodes(entries, overrides, added)
        return leave_recording(
            entries,
            scheduler_conf=self._candidate.scheduler_conf,
            at=0 if self._candidate.starts_simulated else None,
            at_faults=not self._options.allow_faults,
            allow_refused=self._options.allow_missing_plugins,
            source=str(self._recordings[0].path),
        )

    def _loop(
        self, history: History, left: Left, added: Sequence[ClusterObject]
    ) -> tuple[ClosedLoop, bool]:
        """The simulation from the first differing session on, and whether it keeps session times."""
        candidate = self._candidate
        past = History.read(self._changed(), sessions=left.before)
        recorded = left.core.configuration
        times, same = session_times_of(
            history, recorded, candidate.applied_to(recorded), left.before
        )
        loop = ClosedLoop(
            history,
            left.core,
            times,
            past=past,
            changed=candidate.applied_to,
            removed=changed_entries.removed_uids(history, candidate.overrides),
            added=added,
            stops_at_faults=not self._options.allow_faults,
        )
        return loop, same


def session_times_of(
    history: History, recorded: Configuration, configuration: Configuration, before: int = 0
) -> tuple[SessionTimes, bool]:
    """The times of sessions with a configuration, and whether the recorded times apply."""
    period_ns, eager = period_and_eagerness(configuration)
    same = (period_ns, eager) == period_and_eagerness(recorded)
    ticks = history.ticks[before:]
    times = SessionTimes(
        ticks, period_ns, eager=eager, as_recorded=same, durations_ns=history.durations_ns
    )
    return times, same


def _assumptions(
    history: History, loop: ClosedLoop, left: Left, *, same_times: bool
) -> tuple[str, ...]:
    estimates = loop.estimates
    paced = "sessions run at their recorded times, and at further times when a core would run one"
    if not same_times:
        paced = "sessions run when a core would run them, not at their recorded times"
    assumptions = [
        "changes of nodes, queues and quotas, and creations and deletions by users, happen at their "
        "recorded times",
        "binds and evictions succeed, and take as long as recorded, or the median of all",
        "a gang runs while its minimum of pods runs, as long as recorded; after an interruption it "
        "starts again",
        "pods that are evicted or lose their node are replaced, as recorded or after the median time",
        f"{paced}; they take no time",
    ]
    if left.before:
        moment = datetime.fromtimestamp(history.ticks[left.before] / _SECOND_NS, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
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
    if any(record.is_old and not record.bound_ns for record in history.pods.values()):
        assumptions.append(
            "jobs that waited when the recording began are counted as created at that time"
        )
    if len(history.configured) > 1:
        assumptions.append(
            "the configuration changed during the recording; it changes in this run too, except "
            "for the replaced settings"
        )
    return tuple(assumptions)

"""Replays a recording and compares the results: to its end, or up to the first departure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pumice.core.decisions import SessionResult
from pumice.core.registry import Registry
from pumice.recordings import Recording
from pumice.server.garbage import GarbageControl
from pumice.server.recording.entries import plugin_versions
from pumice.server.replaying.differences import Difference, differences
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.server.versions import own_version
from pumice.v1 import recording_pb2
from pumice.v1.recording_pb2 import RecordingEntry


@dataclass(slots=True)
class Comparison:
    """The result of replaying a recording."""

    sessions: int = 0
    decisions: int = 0
    first_session: int = 0
    last_session: int = 0
    # The first and last number of each run of sessions. A restarted core counts from 1 again.
    runs: list[tuple[int, int]] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    # The number of sessions that differ, and the first differences in order.
    differing_sessions: int = 0
    difference_count: int = 0
    differences: list[Difference] = field(default_factory=list)
    # Why the file is incomplete; empty: it is complete.
    ending: str = ""
    # Possible reasons for differences.
    warnings: list[str] = field(default_factory=list)
    refused_configurations: list[str] = field(default_factory=list)

    @property
    def identical(self) -> bool:
        return not self.difference_count


def compare(
    recording: Recording,
    registry: Registry,
    *,
    scheduler_conf: str | None = None,
    session: int = 0,
    until_ns: int | None = None,
    statuses: bool = True,
    allow_refused: bool = False,
    max_kept: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Replays every session on the recorded state. ``session`` is the only session to compare."""
    found = Comparison(warnings=_warnings(recording.header, registry))
    playback = Playback(
        registry, scheduler_conf, allow_refused=allow_refused, source=str(recording.path)
    )
    statuses = statuses and not recording.header.redacted
    garbage = GarbageControl()
    with garbage.without_automatic():
        for played in playback.sessions(recording.entries(session)):
            garbage.after_session()
            recorded = played.recorded
            if session and recorded.number < session:
                continue
            if until_ns is not None and recorded.now_ns > until_ns:
                break
            different = differences(played, statuses=statuses)
            _add(
                found,
                recorded.number,
                recorded.now_ns,
                len(recorded.decisions),
                different,
                max_kept,
            )
            if progress is not None:
                progress(recorded.number)
            if session:
                break
    found.ending = str(recording.ending or "")
    found.refused_configurations = playback.refused
    return found


def _add(
    comparison: Comparison,
    number: int,
    now_ns: int,
    decisions: int,
    different: list[Difference],
    max_kept: int,
) -> None:
    if not comparison.sessions:
        comparison.first_session, comparison.first_ns = number, now_ns
    if comparison.runs and number > comparison.runs[-1][1]:
        comparison.runs[-1] = (comparison.runs[-1][0], number)
    else:
        comparison.runs.append((number, number))
    comparison.last_session, comparison.last_ns = number, now_ns
    comparison.sessions += 1
    comparison.decisions += decisions
    comparison.differing_sessions += bool(different)
    comparison.difference_count += len(different)
    comparison.differences += different[: max_kept - len(comparison.differences)]


def _warnings(header: recording_pb2.RecordingHeader, registry: Registry) -> list[str]:
    here, then = plugin_versions(registry), header.plugin_versions
    warnings = [
        f"{name} was {then[name]} and is {here.get(name, 'not installed')}"
        for name in sorted(then)
        if here.get(name) != then[name]
    ]
    own = own_version()
    if header.core_version != own:
        return [f"recorded by pumice {header.core_version}, replayed by {own}"]
    return warnings


@dataclass(frozen=True, slots=True)
class Departure:
    """The first session that decides differently, and the state of the cluster after it.

    A what-if run continues from there.
    """

    # Number of sessions that began before this one.
    before: int
    result: SessionResult
    state: ClusterState


def depart(
    entries: Iterable[RecordingEntry],
    registry: Registry,
    scheduler_conf: str | None = None,
    *,
    at: int | None = None,
    at_faults: bool = False,
    allow_refused: bool = False,
    source: str = "the recording",
) -> Departure | None:
    """Replays until a session decides differently; None: no session does.

    ``at`` is a number of sessions after which the replay stops in any case. ``at_faults`` also
    stops it after a session in which a plugin or action raises.
    """
    playback = Playback(
        registry, scheduler_conf, adopts=False, allow_refused=allow_refused, source=source
    )
    garbage = GarbageControl()
    with garbage.without_automatic():
        begun = 0
        for entry in entries:
            # A session during which the core crashed has begun and not ended.
            begun += entry.HasField("tick") and not entry.tick.skipped
            played = playback.play(entry)
            if played is None:
                continue
            garbage.after_session()
            is_faulty = at_faults and bool(played.replayed.faults)
            if played.departs or is_faulty or (at is not None and begun > at):
                return Departure(begun - 1, played.replayed, playback.state)
    return None

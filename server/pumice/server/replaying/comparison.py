"""A whole recording, replayed and compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pumice.core.registry import Registry
from pumice.recordings import Recording
from pumice.server.garbage import Garbage
from pumice.server.recording.entries import plugin_versions
from pumice.server.replaying.differences import Difference, differences
from pumice.server.replaying.playback import Playback
from pumice.server.versions import own_version
from pumice.v1 import recording_pb2


@dataclass(slots=True)
class Comparison:
    """What came of replaying a recording."""

    sessions: int = 0
    decisions: int = 0
    first_session: int = 0
    last_session: int = 0
    # The first and last of each run of numbers: a core that is started again counts anew.
    runs: list[tuple[int, int]] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    # Sessions that differ, and the first differences, in order.
    differing_sessions: int = 0
    difference_count: int = 0
    differences: list[Difference] = field(default_factory=list)
    # Where the file ends before its time; empty: it is whole.
    ending: str = ""
    # What may be the reason for differences.
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
    most_kept: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Open loop: every session on the recorded state. ``session``: this one only."""
    found = Comparison(warnings=_warnings(recording.header, registry))
    playback = Playback(
        registry, scheduler_conf, allow_refused=allow_refused, source=str(recording.path)
    )
    statuses = statuses and not recording.header.redacted
    garbage = Garbage()
    with garbage.kept_out():
        for played in playback.sessions(recording.entries(session)):
            garbage.after_session()
            recorded = played.recorded
            if session and recorded.number < session:
                continue
            if until_ns is not None and recorded.now_ns > until_ns:
                break
            apart = differences(played, statuses=statuses)
            _add(found, recorded.number, recorded.now_ns, len(recorded.decisions), apart, most_kept)
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
    apart: list[Difference],
    most_kept: int,
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
    comparison.differing_sessions += bool(apart)
    comparison.difference_count += len(apart)
    comparison.differences += apart[: most_kept - len(comparison.differences)]


def _warnings(header: recording_pb2.RecordingHeader, registry: Registry) -> list[str]:
    here, then = plugin_versions(registry), header.plugin_versions
    warnings = [
        f"{name} was {then[name]} and is {here.get(name, 'not here')}"
        for name in sorted(then)
        if here.get(name) != then[name]
    ]
    own = own_version()
    if header.core_version != own:
        return [f"recorded by pumice {header.core_version}, replayed by {own}"]
    return warnings

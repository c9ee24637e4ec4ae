"""Assertions that recordings replay to the recorded decisions."""

from __future__ import annotations

import warnings
from pathlib import Path

from pumice.recordings import SUFFIX, Recording
from pumice.server.local import Comparison, compare_recording
from pumice.testing.clusters import core_with
from pumice.testing.errors import RecordingWarning

_MOST_SHOWN = 10


def assert_replay_identical(
    recording: Path | str,
    *,
    conf: str | None = None,
    statuses: bool = False,
    strict: bool = False,
) -> Comparison:
    """Replays a recording; the assertion error has the first differences with session and pod.

    ``conf`` replaces the recorded configuration in every session, on the recorded state. With
    ``statuses`` the written statuses are compared, too. Raises ValueError for an invalid
    configuration, and RecordingError for a file that is not a recording or whose recorded
    configuration is invalid here. A damaged file is replayed up to the damage, with a
    RecordingWarning; with ``strict`` it fails.
    """
    if conf is not None:
        core_with(conf)
    with Recording(recording) as held:
        found = compare_recording(held, scheduler_conf=conf, statuses=statuses)
    if not found.identical or not found.sessions or (strict and found.ending):
        raise AssertionError(_failure_text(Path(recording), found))
    if found.ending:
        warnings.warn(f"{recording}: {found.ending}", RecordingWarning, stacklevel=2)
    return found


def _failure_text(path: Path, comparison: Comparison) -> str:
    lines = [
        f"{path.name}: {comparison.differing_sessions} of {comparison.sessions} sessions differ"
    ]
    if not comparison.sessions:
        lines = [f"{path.name}: contains no complete session"]
    if comparison.ending:
        lines.append(f"  {comparison.ending}")
    lines += [f"  note: {warning}" for warning in comparison.warnings]
    lines += [f"  session {one.session}: {one}" for one in comparison.differences[:_MOST_SHOWN]]
    more = comparison.difference_count - _MOST_SHOWN
    return "\n".join([*lines, f"  and {more} more"] if more > 0 else lines)


def recordings_in(folder: Path | str) -> list[Path]:
    """The recordings of a folder, ordered by name, for ``pytest.mark.parametrize``.

    Raises NotADirectoryError for a missing folder, with which otherwise no test would run.
    """
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"{folder}: not a folder")
    return sorted(Path(folder).glob(f"*{SUFFIX}"))

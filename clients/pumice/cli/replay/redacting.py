"""Redacted copies of recordings, checked to replay to the same decisions."""

from __future__ import annotations

from pathlib import Path

from pumice.cli.errors import InputProblem
from pumice.recordings import Recording, RecordingError, RecordingWriter
from pumice.recordings.redaction import Pseudonyms, redact
from pumice.server.local import compare_recording


def write_redacted(source: Path, target: Path, names: Pseudonyms | None = None) -> None:
    """Writes a redacted copy, and removes it if its decisions differ from the original."""
    if target.exists():
        raise InputProblem(f"{target}: already exists; choose another name")
    try:
        with Recording(source) as held, RecordingWriter(target) as out:
            for entry in redact(held, names):
                out.write(entry)
        with Recording(target) as made, Recording(source) as held:
            found = compare_recording(made, allow_refused=True)
            before = compare_recording(held, statuses=False, allow_refused=True)
    except RecordingError as error:
        target.unlink(missing_ok=True)
        raise InputProblem(str(error)) from None
    if found.difference_count != before.difference_count:
        target.unlink()
        first = found.differences[0] if found.differences else "a recorded difference is missing"
        raise InputProblem(
            f"{source}: cannot be redacted: decisions differ with other names: {first}"
        )

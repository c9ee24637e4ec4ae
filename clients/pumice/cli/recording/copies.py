"""Copies of recordings: cut, joined and anonymised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pumice.cli.errors import InputProblem
from pumice.cli.queries.tables import counted
from pumice.cli.replay.redacting import write_redacted
from pumice.recordings import SUFFIX, Recording, RecordingError, RecordingWriter
from pumice.recordings.redaction import pseudonyms
from pumice.recordings.sections import Sections, damage, in_order
from pumice.recordings.selection import Cut, Jobs, Selection, until
from pumice.server.local import compare_recording, cut_before
from pumice.v1.recording_pb2 import RecordingEntry


@dataclass(frozen=True, slots=True)
class CutOptions:
    """The part that is kept."""

    from_ns: int | None = None
    until_ns: int | None = None
    selection: Selection = field(default_factory=Selection)
    strict: bool = False


@contextmanager
def _opened(paths: Sequence[Path]) -> Iterator[list[Recording]]:
    """The recordings, ordered by time. A RecordingError becomes an InputProblem."""
    try:
        with ExitStack() as opened:
            yield in_order([opened.enter_context(Recording(path)) for path in paths])
    except RecordingError as error:
        raise InputProblem(str(error)) from None


def cut(paths: Sequence[Path], target: Path, options: CutOptions) -> dict[str, object]:
    with _opened(paths) as held:
        sections = Sections()
        jobs = Jobs()
        jobs.read(sections.entries(held))
        notes = _problems(held, sections, strict=options.strict)
        entries: Iterator[RecordingEntry] = sections.entries(held)
        if options.until_ns is not None:
            entries = until(entries, options.until_ns)
        if options.from_ns is not None:
            entries = cut_before(entries, options.from_ns, str(paths[0]))
        kept = Cut(jobs, options.selection)
        if options.selection and len(kept.left_out) == len(jobs.queues):
            queues = ", ".join(sorted(set(jobs.queues.values())))
            raise InputProblem(f"{paths[0]}: the selection has no jobs; queues: {queues}")
        if options.selection:
            entries = kept.entries(entries)
        _write(target, entries)
    return _checked(target, notes, len(kept.left_out))


def join(paths: Sequence[Path], target: Path, *, strict: bool = False) -> dict[str, object]:
    with _opened(paths) as held:
        if len({one.header.redacted for one in held}) > 1:
            raise InputProblem(f"{paths[0]}: only some of the recordings are anonymised")
        sections = Sections()
        for _ in sections.entries(held):
            pass
        notes = _problems(held, sections, strict=strict)
        _write(target, sections.entries(held))
    return _checked(target, notes, 0)


def _problems(held: Sequence[Recording], sections: Sections, *, strict: bool) -> list[str]:
    sections.check_order()
    found = [*damage(held), *sections.gaps()]
    if found and strict:
        raise InputProblem("; ".join(found))
    return found


def _write(target: Path, entries: Iterable[RecordingEntry]) -> None:
    if target.suffix != SUFFIX:
        raise InputProblem(f"{target}: the name must end in {SUFFIX}")
    if target.exists():
        raise InputProblem(f"{target}: already exists; choose another name")
    try:
        with RecordingWriter(target) as out:
            for entry in entries:
                out.write(entry)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _checked(target: Path, notes: Sequence[str], left_out: int) -> dict[str, object]:
    """The result of a copy: replays it, and counts sessions with different decisions."""
    with Recording(target) as made:
        found = compare_recording(made, statuses=False, allow_refused=True)
    all_notes = list(notes)
    if found.differing_sessions:
        why = ", because the omitted jobs influenced them" if left_out else ""
        all_notes.append(
            f"{target}: in {counted(found.differing_sessions, 'session')} of {found.sessions} "
            f"decisions differ from the recorded ones{why}"
        )
    without = f", without {counted(left_out, 'job')}" if left_out else ""
    return {
        "file": str(target),
        "sessions": found.sessions,
        "differing_sessions": found.differing_sessions,
        "jobs_left_out": left_out,
        "notes": all_notes,
        "text": f"{target}: {counted(found.sessions, 'session')}{without}",
    }


def anonymise(paths: Sequence[Path], output: Path, key: bytes) -> dict[str, object]:
    """Writes copies with one set of new names."""
    targets = _targets(paths, output)
    try:
        with ExitStack() as opened:
            held = [opened.enter_context(Recording(path)) for path in paths]
            names = pseudonyms(held, key)
            notes = damage(held)
    except RecordingError as error:
        raise InputProblem(str(error)) from None
    for source, target in targets:
        write_redacted(source, target, names)
    files = [str(target) for _, target in targets]
    text = "\n".join(
        f"{target}: {source} with other names; it replays like the original"
        for source, target in targets
    )
    return {"files": files, "notes": notes, "text": text}


def _targets(paths: Sequence[Path], output: Path) -> list[tuple[Path, Path]]:
    if len(paths) == 1 and output.suffix == SUFFIX and not output.is_dir():
        return [(paths[0], output)]
    if output.suffix == SUFFIX:
        raise InputProblem(f"{output}: is a file; several recordings need a folder")
    output.mkdir(parents=True, exist_ok=True)
    # File names are replaced too, because they may contain the name of a cluster.
    return [
        (path, output / f"recording-{number:03d}{SUFFIX}") for number, path in enumerate(paths, 1)
    ]

"""``pumice recording info|cut|join|anonymise``."""

from __future__ import annotations

from pathlib import Path

import click

from pumice.cli.errors import BAD_INPUT, InputProblem
from pumice.cli.groups import SuggestingGroup
from pumice.cli.recording.copies import CutOptions, anonymise, cut, join
from pumice.cli.recording.facts import info_json, print_info
from pumice.cli.replay.files import opened_files, recording_files
from pumice.cli.simulate import Moment
from pumice.cli.terminal import json_option, print_error, print_json, print_warning
from pumice.recordings.info import RecordingInfo
from pumice.recordings.sections import Sections
from pumice.recordings.selection import Selection

_FILE = click.Path(dir_okay=False, path_type=Path)
_FILE_OR_FOLDER = click.Path(path_type=Path)
_LEAST_KEY_BYTES = 16

_recordings = click.argument(
    "recordings", metavar="REC...", type=_FILE_OR_FOLDER, nargs=-1, required=True
)
_output = click.option(
    "--output", "-o", type=_FILE, required=True, metavar="FILE", help="File for the copy."
)
_strict = click.option(
    "--strict", is_flag=True, help="Damage and gaps as errors, with exit code 2."
)


@click.group("recording", cls=SuggestingGroup)
def recording_group() -> None:
    """Shows the content of recordings, and copies recordings or parts of them.

    The exit code is 2 if a file cannot be read, or is damaged with --strict.
    """


@recording_group.command("info")
@_recordings
@_strict
@json_option
def info_command(recordings: tuple[Path, ...], strict: bool, as_json: bool) -> int:
    """Shows times, sessions, decisions, objects, damage and gaps of recordings."""
    paths, codes, sections = recording_files(recordings), [0], Sections()
    found = [RecordingInfo.read(held, sections) for held in opened_files(paths, codes)]
    found.sort(key=lambda info: (info.cluster, info.start_ns))
    sections.found.sort(key=lambda section: section.start_ns)
    inside = {problem for info in found for problem in info.problems}
    gaps = [gap for gap in sections.gaps() if gap not in inside]
    gaps += map(str, sections.overlaps())
    if as_json:
        print_json({"recordings": [info_json(info) for info in found], "gaps": gaps})
    else:
        print_info(found, gaps)
    if strict and (gaps or inside):
        print_error(f"{len(gaps) + len(inside)} problems: damage or gaps")
        codes.append(BAD_INPUT)
    return max(codes)


@recording_group.command("cut")
@_recordings
@_output
@click.option("--from", "from_ns", type=Moment(), metavar="TIME", help="Start of the copy.")
@click.option("--until", "until_ns", type=Moment(), metavar="TIME", help="End of the copy.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Queue to keep.")
@click.option(
    "--without-queue", multiple=True, metavar="NAME", help="Queue whose jobs are omitted."
)
@click.option("--job", "jobs", multiple=True, metavar="NAMESPACE/NAME", help="Job to keep.")
@click.option("--without-job", multiple=True, metavar="NAMESPACE/NAME", help="Job to omit.")
@_strict
@json_option
def cut_command(
    recordings: tuple[Path, ...],
    output: Path,
    from_ns: int | None,
    until_ns: int | None,
    queues: tuple[str, ...],
    without_queue: tuple[str, ...],
    jobs: tuple[str, ...],
    without_job: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> int:
    """Copies a part of recordings: a time range, or jobs selected by queue or name.

    Names may contain *. A time range replays like the original. When jobs are omitted, the
    decisions about other jobs may differ from the recorded ones, because jobs compete; the output
    has the number of sessions that differ.
    """
    selection = Selection(queues, without_queue, jobs, without_job)
    if from_ns is None and until_ns is None and not selection:
        raise click.UsageError(
            "nothing selected; use --from, --until, --queue, --job, --without-queue or --without-job"
        )
    result = cut(
        recording_files(recordings), output, CutOptions(from_ns, until_ns, selection, strict)
    )
    return _print_result(result, as_json)


@recording_group.command("join")
@_recordings
@_output
@_strict
@json_option
def join_command(recordings: tuple[Path, ...], output: Path, strict: bool, as_json: bool) -> int:
    """Joins consecutive recordings of one cluster into one file, ordered by time."""
    return _print_result(join(recording_files(recordings), output, strict=strict), as_json)


@recording_group.command("anonymise")
@_recordings
@click.option(
    "--output",
    "-o",
    type=_FILE_OR_FOLDER,
    required=True,
    metavar="FILE|FOLDER",
    help="File for the copy, or folder for copies of several recordings.",
)
@click.option(
    "--key-file",
    type=_FILE,
    metavar="FILE",
    help="File with a key for hashes in the new names; one key gives equal names equal hashes.",
)
@json_option
def anonymise_command(
    recordings: tuple[Path, ...], output: Path, key_file: Path | None, as_json: bool
) -> int:
    """Copies recordings with other names, labels, annotations and images.

    Equal names get equal new names in all recordings of the call, and names keep their order, so
    that the copies replay to the same decisions; otherwise a copy is not written. The copies omit
    the texts of messages and events, and keep amounts, times and the configuration.
    """
    key = b"" if key_file is None else key_file.read_bytes().strip()
    if key_file is not None and len(key) < _LEAST_KEY_BYTES:
        raise InputProblem(
            f"{key_file}: key too short; a key has at least {_LEAST_KEY_BYTES} bytes"
        )
    return _print_result(anonymise(recording_files(recordings), output, key), as_json)


def _print_result(result: dict[str, object], as_json: bool) -> int:
    if as_json:
        print_json(result)
        return 0
    for note in result.get("notes", ()):  # type: ignore[attr-defined]
        print_warning(str(note))
    click.echo(str(result["text"]))
    return 0

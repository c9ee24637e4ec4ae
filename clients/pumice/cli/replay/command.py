"""``pumice replay``: a comparison, a what-if run, or the export of one session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, TextColumn

from pumice.cli.errors import BAD_INPUT, FAILED, InputProblem
from pumice.cli.replay.candidates import (
    candidates_of,
    override_options,
    overrides_of,
    sources_of,
)
from pumice.cli.replay.comparing import comparison_json, print_comparison
from pumice.cli.replay.export import export_scenario
from pumice.cli.replay.files import opened_files, recording_files
from pumice.cli.replay.judging import Judgement, judge_candidates
from pumice.cli.replay.redacting import write_redacted
from pumice.cli.simulate import Moment
from pumice.cli.simulation.reports import clock
from pumice.cli.simulation.sources import read_text
from pumice.cli.terminal import console, json_option, print_error, print_json, print_warning
from pumice.evaluation import Candidate, Options
from pumice.evaluation.candidate import CandidateError, check_configuration
from pumice.recordings import Recording, RecordingError
from pumice.recordings.sections import Section, Sections
from pumice.server.local import Comparison, compare_recording
from pumice.v1.configuration_pb2 import Configuration

_FILE = click.Path(dir_okay=False, path_type=Path)
_FILE_OR_FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Options of a comparison."""

    text: str | None
    session: int | None
    until_ns: int | None
    statuses: bool
    as_json: bool
    strict: bool
    allow_missing_plugins: bool


@click.command("replay")
@click.argument("recordings", metavar="REC...", type=_FILE_OR_FOLDER, nargs=-1, required=True)
@click.option(
    "--diff",
    is_flag=True,
    help="Comparison of every decision, each session on the recorded state; the default "
    "without --conf.",
)
@click.option(
    "--conf",
    "confs",
    metavar="NEW",
    multiple=True,
    help="Scheduler configuration for a what-if run; several are ranked. With --diff, configuration "
    "for the comparison of decisions.",
)
@click.option(
    "--candidate",
    "candidate_files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Candidate with its configuration and overrides, in YAML; several are ranked.",
)
@click.option(
    "--closed",
    is_flag=True,
    help="What-if run with the recorded configuration.",
)
@override_options
@click.option(
    "--schedule-period",
    type=click.FloatRange(0.01, 3600),
    metavar="SECONDS",
    help="Schedule period for a what-if run.",
)
@click.option(
    "--eager/--no-eager",
    default=None,
    help="What-if run with or without sessions before the end of the period.",
)
@click.option(
    "--goal",
    "goals",
    multiple=True,
    metavar="NAME",
    help="Goal by which several candidates are ranked, such as wait.p90; default: all.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of processes for several candidates; default: one per CPU.",
)
@click.option(
    "--until",
    "until_ns",
    type=Moment(),
    metavar="TIME",
    help="Time at which the replay stops, in RFC 3339.",
)
@click.option(
    "--session", type=click.IntRange(1), metavar="N", help="Number of the only session to replay."
)
@click.option("--decisions-only", is_flag=True, help="Comparison without statuses.")
@click.option(
    "--plot",
    type=_FILE,
    metavar="FILE.svg",
    help="File for a plot of the recorded and the what-if run.",
)
@click.option(
    "--page",
    type=_FILE,
    metavar="FILE.html",
    help="File for the verdict with plots, as one self-contained page.",
)
@click.option(
    "--export-scenario",
    "scenario",
    type=_FILE,
    metavar="FILE",
    help="File for the cluster before session N, for 'pumice simulate'; needs --session.",
)
@click.option(
    "--redact",
    "redacted",
    type=_FILE,
    metavar="FILE",
    help="File for a copy with other names and the same decisions.",
)
@click.option(
    "--strict", is_flag=True, help="Damage and gaps of recordings as errors, with exit code 2."
)
@click.option(
    "--allow-faults", is_flag=True, help="What-if run that continues after a fault of a plugin."
)
@click.option(
    "--allow-missing-plugins",
    is_flag=True,
    help="Replay even if a recorded configuration is invalid here.",
)
@json_option
def replay_command(
    recordings: tuple[Path, ...],
    diff: bool,
    confs: tuple[str, ...],
    candidate_files: tuple[Path, ...],
    closed: bool,
    fields: tuple[str, ...],
    removed_nodes: tuple[str, ...],
    added_nodes: tuple[tuple[str, int], ...],
    schedule_period: float | None,
    eager: bool | None,
    goals: tuple[str, ...],
    processes: int | None,
    until_ns: int | None,
    session: int | None,
    decisions_only: bool,
    plot: Path | None,
    page: Path | None,
    scenario: Path | None,
    redacted: Path | None,
    strict: bool,
    allow_faults: bool,
    allow_missing_plugins: bool,
    as_json: bool,
) -> int:
    """Replays recordings at full speed. A folder means all recordings in it.

    Several recordings are compared one after another. A what-if run treats several consecutive
    recordings of one cluster as one recording.

    The exit code is 0 if all decisions are identical, or a what-if run is complete; 1 if decisions
    differ, or a plugin had a fault in a what-if run; 2 if a file is not a recording, or is invalid.
    Damaged files are replayed up to the damage; with --strict damage and gaps are errors.
    """
    changed = overrides_of(fields, removed_nodes, added_nodes)
    paced = schedule_period is not None or eager is not None or bool(changed)
    compares = diff or not (confs or candidate_files or closed or paced)
    paths = recording_files(recordings)
    _check_options(
        several=len(paths) > 1,
        compares=compares,
        simulates=paced or closed or bool(candidate_files) or len(confs) > 1,
        **{
            "--plot": plot,
            "--page": page,
            "--goal": goals or None,
            "--session": session,
            "--export-scenario": scenario,
            "--redact": redacted,
        },
    )
    if redacted is not None:
        return _redact(paths[0], redacted, as_json)
    if scenario is not None and session is not None:
        return _export(paths[0], session, scenario, as_json)
    if compares:
        text = read_text(confs[0]) if confs else None
        _check_text(text)
        asked = (until_ns, not decisions_only, as_json, strict, allow_missing_plugins)
        return _compare(paths, _Comparing(text, session, *asked))
    return judge_candidates(
        Judgement(
            paths,
            candidates_of(confs, candidate_files, schedule_period, eager, changed),
            Options(until_ns, strict, allow_faults, allow_missing_plugins),
            goals,
            processes,
            plot,
            page,
            as_json,
            sources_of(confs, candidate_files),
            Candidate(None, schedule_period, eager, changed),
        ),
        _progress,
    )


def _check_text(text: str | None) -> None:
    if text is not None:
        try:
            check_configuration("--conf", Configuration(scheduler_conf=text))
        except CandidateError as error:
            raise InputProblem(str(error)) from None


def _check_options(*, several: bool, compares: bool, simulates: bool, **given: object) -> None:
    """Raises UsageError for options that cannot be used together."""
    set_ = {name for name, value in given.items() if value is not None}
    if several and (alone := set_ - {"--plot", "--page", "--goal"}):
        raise click.UsageError(f"{min(alone)} accepts only one recording")
    if compares and simulates:
        raise click.UsageError(
            "--diff accepts at most one --conf, and cannot be used with --closed, --candidate, "
            "--set, --remove-node, --add-nodes, --schedule-period or --eager"
        )
    if "--export-scenario" in set_ and "--session" not in set_:
        raise click.UsageError("--export-scenario needs --session N")
    if not compares and "--session" in set_:
        raise click.UsageError("--session needs --diff or --export-scenario")
    for name in ("--plot", "--page", "--goal"):
        if compares and name in set_:
            raise click.UsageError(f"{name} needs a what-if run, such as --conf or --closed")
    for name, suffix in (("--plot", ".svg"), ("--page", ".html")):
        file = given[name]
        if isinstance(file, Path) and file.suffix != suffix:
            raise click.UsageError(f"{name} {file}: the name must end in {suffix}")


def _compare(paths: list[Path], asked: _Comparing) -> int:
    """Compares all recordings, skipping unreadable ones; returns the highest exit code."""
    codes, sections, compared = [0], Sections(), 0
    for held in opened_files(paths, codes):
        if len(paths) > 1 and not asked.as_json:
            click.echo(f"{held.path}:")
        try:
            found = _diff(held, asked, several=len(paths) > 1)
        except RecordingError as error:
            print_error(str(error))
            codes.append(BAD_INPUT)
            continue
        compared += found.sessions
        codes.append(0 if found.identical or not found.sessions else FAILED)
        if found.ending and asked.strict:
            print_error(f"{held.path}: {found.ending}")
            codes.append(BAD_INPUT)
        sections.found += _sections(held, found)
    if len(paths) > 1 and not asked.session:
        codes += _print_gaps(sections, asked)
    # One of several files may have no session: a core began it last, or after ``--until``.
    return max(codes) if compared else BAD_INPUT


def _print_gaps(sections: Sections, asked: _Comparing) -> list[int]:
    gaps = sections.gaps()
    for gap in gaps:
        if asked.strict:
            print_error(gap)
        else:
            print_warning(gap)
    return [BAD_INPUT] if gaps and asked.strict else []


def _sections(held: Recording, found: Comparison) -> list[Section]:
    """The recording as one section; sessions that are missing inside a file are damage."""
    header = held.header
    first = Section(held.path, header.core_id, header.first_session, found.last_session)
    first.start_ns, first.end_ns = header.creation_time.ToNanoseconds(), found.last_ns
    return [first] if found.sessions and len(found.runs) == 1 else []


def _diff(held: Recording, asked: _Comparing, *, several: bool) -> Comparison:
    with _progress("comparing session {}") as progress:
        found = compare_recording(
            held,
            scheduler_conf=asked.text,
            session=asked.session or 0,
            until_ns=asked.until_ns,
            statuses=asked.statuses and asked.text is None,
            allow_refused=asked.allow_missing_plugins,
            progress=progress,
        )
    if not found.sessions and not several:
        _report_no_comparison(held, asked.session, asked.until_ns)
    if asked.as_json:
        print_json(comparison_json(found))
    else:
        print_comparison(found)
    return found


def _report_no_comparison(recording: Recording, session: int | None, until_ns: int | None) -> None:
    """Raises InputProblem if no session was compared because of ``--session`` or ``--until``."""
    runs = recording.sessions()
    if not runs:
        if session:
            raise InputProblem(f"{recording.path}: contains no complete session")
        return
    numbers = ", ".join(f"{first} to {last}" for first, last in runs)
    if session:
        raise InputProblem(
            f"{recording.path}: no complete session {session}; complete sessions: {numbers}"
        )
    if until_ns is not None:
        times = [
            entry.tick.session_time.ToNanoseconds()
            for entry in recording.entries()
            if entry.tick.session
        ]
        ran = f"from {clock(times[0])} to {clock(times[-1])}"
        raise InputProblem(f"{recording.path}: no session until then; {numbers} ran {ran}")


def _redact(source: Path, target: Path, as_json: bool) -> int:
    write_redacted(source, target)
    if as_json:
        print_json({"file": str(target), "recording": str(source)})
    else:
        click.echo(f"{target}: {source} with other names; it replays like the original")
    return 0


def _export(recording: Path, session: int, path: Path, as_json: bool) -> int:
    try:
        with Recording(recording) as held:
            warning = export_scenario(held, session, path)
    except RecordingError as error:
        raise InputProblem(str(error)) from None
    if as_json:
        found: dict[str, Any] = {"file": str(path), "recording": str(recording)}
        print_json({**found, "session": session, "warning": warning})
        return 0
    click.echo(f"{path}: session {session} of {recording}; try 'pumice simulate --check {path}'")
    if warning:
        print_warning(f"{path}: {warning}")
    return 0


@contextmanager
def _progress(text: str) -> Iterator[Callable[[int], None] | None]:
    """A progress line on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"),)
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda number: bar.update(task, description=text.format(number))

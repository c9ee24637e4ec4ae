"""``pumice replay``: comparison, what-if run, or export of one session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, TextColumn

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.replay.comparing import comparison_json, print_comparison
from pumice.cli.replay.export import export_scenario
from pumice.cli.replay.plot import svg_plot
from pumice.cli.replay.redacting import write_redacted
from pumice.cli.replay.whatif import (
    Changes,
    check_configuration_text,
    in_order,
    print_what_if,
    what_if,
    what_if_json,
)
from pumice.cli.simulate import Moment
from pumice.cli.simulation.reports import clock
from pumice.cli.simulation.sources import read_text
from pumice.cli.terminal import console, json_option, say_json, warn
from pumice.recordings import SUFFIX, Recording, RecordingError
from pumice.server.local import compare_recording

_FILE = click.Path(dir_okay=False, path_type=Path)
_FILE_OR_FOLDER = click.Path(path_type=Path)


@click.command("replay")
@click.argument("recordings", metavar="REC...", type=_FILE_OR_FOLDER, nargs=-1, required=True)
@click.option(
    "--diff",
    is_flag=True,
    help="Comparison of every decision, each session with the recorded state; the default "
    "without --conf.",
)
@click.option(
    "--conf",
    metavar="NEW",
    help="Scheduler configuration for a what-if run; with --diff: for the comparison of "
    "decisions, session by session.",
)
@click.option(
    "--closed",
    is_flag=True,
    help="What-if run with the recorded configuration, to compare with the recorded figures.",
)
@click.option(
    "--schedule-period",
    type=click.FloatRange(0.01, 3600),
    metavar="SECONDS",
    help="Schedule period for a what-if run.",
)
@click.option(
    "--eager/--no-eager",
    default=None,
    help="What-if run with or without sessions ahead of the period.",
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
@json_option
def replay_command(
    recordings: tuple[Path, ...],
    diff: bool,
    conf: str | None,
    closed: bool,
    schedule_period: float | None,
    eager: bool | None,
    until_ns: int | None,
    session: int | None,
    decisions_only: bool,
    plot: Path | None,
    scenario: Path | None,
    redacted: Path | None,
    as_json: bool,
) -> int:
    """Replays recordings at full speed. A folder stands for all recordings in it.

    Several recordings are compared one after another. A what-if run takes them as one recording,
    if they are of one cluster and follow each other.

    The exit code is 0 when all decisions are identical, 1 when some differ, and 2 when a file is
    not a recording. A damaged file is replayed up to the damage.
    """
    paced = schedule_period is not None or eager is not None
    compares = diff or not (conf or closed or paced)
    paths = _files(recordings)
    _check_options(
        several=len(paths) > 1,
        compares=compares,
        paced_or_closed=paced or closed,
        **{
            "--plot": plot,
            "--session": session,
            "--export-scenario": scenario,
            "--redact": redacted,
        },
    )
    text = None if conf is None else read_text(conf)
    if redacted is not None:
        return _redact(paths[0], redacted, as_json)
    try:
        if scenario is not None and session is not None:
            with Recording(paths[0]) as held:
                return _export(held, session, scenario, as_json)
        if compares:
            if text is not None:
                check_configuration_text(text)
            asked = (text, session, until_ns, not decisions_only, as_json)
            return max(_diff_file(path, *asked, named=len(paths) > 1) for path in paths)
        changes = Changes(text, schedule_period, eager)
        return _what_if(paths, changes, until_ns, plot, as_json)
    except RecordingError as error:
        raise InputProblem(str(error)) from None


def _files(paths: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise InputProblem(f"{path}: no file in this folder ends in {SUFFIX}")
        found += inside
    return found


def _check_options(
    *, several: bool, compares: bool, paced_or_closed: bool, **given: object
) -> None:
    """Raises UsageError for options that have no effect together."""
    set_ = {name for name, value in given.items() if value is not None}
    if several and (alone := set_ - {"--plot"}):
        raise click.UsageError(f"{min(alone)} takes one recording at a time")
    if compares and paced_or_closed:
        raise click.UsageError(
            "--diff compares each session as it was; it does not go with --closed, "
            "--schedule-period or --eager"
        )
    if "--export-scenario" in set_ and "--session" not in set_:
        raise click.UsageError("--export-scenario needs --session: which one?")
    if not compares and "--session" in set_:
        raise click.UsageError("--session goes with --diff or --export-scenario")
    if compares and "--plot" in set_:
        raise click.UsageError("--plot goes with --conf or --closed: nothing else is drawn")


def _diff_file(path: Path, *asked: Any, named: bool) -> int:
    with Recording(path) as held:
        if named and not asked[-1]:
            click.echo(f"{path}:")
        return _diff(held, *asked)


def _diff(
    recording: Recording,
    text: str | None,
    session: int | None,
    until_ns: int | None,
    statuses: bool,
    as_json: bool,
) -> int:
    with _progress("comparing session {}") as progress:
        found = compare_recording(
            recording,
            scheduler_conf=text,
            session=session or 0,
            until_ns=until_ns,
            statuses=statuses and text is None,
            progress=progress,
        )
    if not found.sessions:
        _report_no_comparison(recording, session, until_ns)
    if as_json:
        say_json(comparison_json(found))
    else:
        print_comparison(found)
    return 0 if found.identical else FAILED


def _report_no_comparison(recording: Recording, session: int | None, until_ns: int | None) -> None:
    """Says that nothing was compared; an error if a session was named."""
    runs = recording.sessions()
    if not runs:
        if session:
            raise InputProblem(f"{recording.path}: no session is in it whole")
        return
    numbers = ", ".join(f"{first} to {last}" for first, last in runs)
    if session:
        raise InputProblem(f"{recording.path}: session {session} is not in it whole; {numbers} are")
    if until_ns is not None:
        times = [
            entry.tick.session_time.ToNanoseconds()
            for entry in recording.entries()
            if entry.tick.session
        ]
        ran = f"from {clock(times[0])} to {clock(times[-1])}"
        raise InputProblem(f"{recording.path}: no session ran until then; {numbers} ran {ran}")


def _what_if(
    paths: list[Path], changes: Changes, until_ns: int | None, plot: Path | None, as_json: bool
) -> int:
    with ExitStack() as opened:
        held = [opened.enter_context(Recording(path)) for path in paths]
        held = in_order(held)
        with _progress("replaying") as progress:
            found = what_if(held, changes, until_ns, progress)
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} to {paths[-1].name}"
    if plot is not None:
        plot.write_text(
            svg_plot(found.old, found.new, f"{name}: {found.seconds:.0f} s"),
            encoding="utf-8",
        )
    if as_json:
        say_json(what_if_json(found))
    else:
        print_what_if(found)
    return 0


def _redact(source: Path, target: Path, as_json: bool) -> int:
    write_redacted(source, target)
    if as_json:
        say_json({"file": str(target), "recording": str(source)})
    else:
        click.echo(f"{target}: {source} with other names; it replays like the original")
    return 0


def _export(held: Recording, session: int, path: Path, as_json: bool) -> int:
    warning = export_scenario(held, session, path)
    if as_json:
        recording = str(held.path)
        found = {"file": str(path), "recording": recording, "session": session, "warning": warning}
        say_json(found)
        return 0
    click.echo(f"{path}: session {session} of {held.path}; try 'pumice simulate --check {path}'")
    if warning:
        warn(f"{path}: {warning}")
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

"""``pumice tune``: a search for better settings with recordings."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import yaml
from rich import box
from rich.markup import escape
from rich.table import Table

from pumice.cli.errors import FAILED, InputProblem
from pumice.cli.replay.candidates import input_problems
from pumice.cli.replay.files import readable_files, recording_files
from pumice.cli.replay.verdicts import amount
from pumice.cli.simulation.sources import read_text
from pumice.cli.terminal import console, json_option, print_error, print_json
from pumice.evaluation import Options, Overrides
from pumice.evaluation.changed_entries import names_by_kind
from pumice.evaluation.processes import judge
from pumice.evaluation.search import Evaluation, Search
from pumice.evaluation.search_space import read_body, space_of
from pumice.recordings import Recording
from pumice.recordings.history import History
from pumice.recordings.sections import Sections, in_order
from pumice.server.local import built_in_configuration

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("tune")
@click.argument(
    "recordings", metavar="REC...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "--goal",
    "goals",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Goal such as wait.p90, lost.cpu or fairness; with several, trade-offs are shown.",
)
@click.option(
    "--into",
    "folder",
    type=_FOLDER,
    required=True,
    metavar="FOLDER",
    help="Folder for a candidate file of every evaluation.",
)
@click.option("--conf", metavar="BASE", help="Configuration to vary; default: the recorded one.")
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="PATH=VALUE,VALUE",
    help="Further field to vary, such as queues/research/weight=1,2,4.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    metavar="N",
    help="Maximum number of evaluations.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="MINUTES",
    help="Time limit; evaluations that have begun are finished.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the search.")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Number of processes; default: one per CPU.",
)
@json_option
def tune_command(
    recordings: tuple[Path, ...],
    goals: tuple[str, ...],
    folder: Path,
    conf: str | None,
    varied: tuple[str, ...],
    evaluations: int,
    minutes: float,
    seed: int,
    processes: int | None,
    as_json: bool,
) -> int:
    """Tries weights and switches of a configuration over recordings.

    Every evaluation is a what-if run, written to FOLDER as a candidate that 'pumice replay' runs
    again. The output has the trade-offs: evaluations that no other one beats in all goals. The same
    seed gives the same evaluations; the time limit only determines their number.
    """
    codes = [0]
    paths = readable_files(recording_files(recordings), codes)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputProblem(f"{folder}: is not empty; choose another folder")
    with input_problems():
        history = _history(paths)
        recorded = history.configuration.scheduler_conf or built_in_configuration()
        body = read_body(recorded if conf is None else read_text(conf))
        search = Search(body, space_of(body, _varied(varied, history)), goals, seed)
        ends = time.monotonic() + minutes * 60
        with judge(paths, Options(), processes) as run_all:
            why = search.run(
                run_all,
                evaluations,
                lambda: time.monotonic() >= ends,
                lambda batch: _save(folder, batch),
            )
    if as_json:
        print_json(_json(search, paths, folder, why))
    else:
        _print(search, paths, folder, why)
    if faulty := [one for one in search.evaluations if one.fault]:
        print_error(f"{faulty[0].candidate.name}: {faulty[0].fault}; not judged")
        codes.append(FAILED)
    return max(codes)


def _save(folder: Path, batch: Sequence[Evaluation]) -> None:
    """Writes evaluations at once, so that they survive an interrupted search."""
    for one in batch:
        _write(folder, one)
    if sys.stderr.isatty():
        click.echo(f"evaluation {batch[-1].number} is done", err=True)


def _history(paths: Sequence[Path]) -> History:
    with ExitStack() as opened:
        held = in_order([opened.enter_context(Recording(path)) for path in paths])
        return History.read(Sections().entries(held))


def _varied(texts: Sequence[str], history: History) -> dict[str, list[str]]:
    """Values by path. Raises InputProblem for a path that matches no object of the history."""
    found = {}
    for text in texts:
        path, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            raise InputProblem(f"--vary {text!r}: expected PATH=VALUE,VALUE")
        found[path] = values.split(",")
    first = Overrides.of({path: values[0] for path, values in found.items()})
    if problem := first.why_not_applicable(names_by_kind(history)):
        raise InputProblem(f"--vary: {problem}")
    return found


def _write(folder: Path, one: Evaluation) -> None:
    body: dict[str, Any] = {"name": one.candidate.name, "conf": one.candidate.scheduler_conf}
    fields = [str(field).partition("=") for field in one.candidate.overrides.fields]
    if fields:
        body["set"] = {path: value for path, _, value in fields}
    text = f"# {one.changes}\n" + yaml.safe_dump(body, sort_keys=False)
    _file(folder, one).write_text(text, encoding="utf-8")


def _file(folder: Path, one: Evaluation) -> Path:
    return folder / f"{one.candidate.name}.yaml"


def _command(paths: Sequence[Path], folder: Path, one: Evaluation) -> str:
    words = ["pumice", "replay", *map(str, paths), "--candidate", str(_file(folder, one))]
    return shlex.join(words)


def _print(search: Search, paths: Sequence[Path], folder: Path, why: str) -> None:
    screen = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="evaluations")
    table.add_column("", no_wrap=True)
    for name in search.goals:
        table.add_column(escape(name), justify="right", no_wrap=True)
    table.add_column("changes")
    first = search.evaluations[0].goals
    table.add_row("recorded", *(amount(goal.old, goal.unit) for goal in first), "")
    for one in search.evaluations:
        cells = [amount(goal.new, goal.unit) for goal in one.goals]
        mark = "*" if one.is_best else ""
        table.add_row(f"{one.candidate.name}{mark}", *cells, escape(one.changes))
    screen.print(table)
    refused = (
        f"; {search.refused} settings were refused or change nothing" if search.refused else ""
    )
    screen.print(f"{why}{refused}; * marks those that no other one beats in all goals")
    for one in search.best:
        screen.print(f"\n[bold]{one.candidate.name}[/] {escape(one.changes)}")
        screen.print(escape(f"  {_command(paths, folder, one)}"))
        for line in (one.candidate.scheduler_conf or "").splitlines():
            screen.print(escape(f"  {line}"))


def _json(search: Search, paths: Sequence[Path], folder: Path, why: str) -> dict[str, Any]:
    return {
        "ended": why,
        "refused": search.refused,
        "recorded": {goal.name: goal.old for goal in search.evaluations[0].goals},
        "evaluations": [
            {
                "name": one.candidate.name,
                "changes": dict(one.point),
                "goals": {goal.name: goal.new for goal in one.goals},
                "best": one.is_best,
                "fault": one.fault,
                "file": str(_file(folder, one)),
                "command": _command(paths, folder, one),
                "conf": one.candidate.scheduler_conf,
            }
            for one in search.evaluations
        ],
    }

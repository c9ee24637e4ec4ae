"""``pumice conf check``: the problems of a scheduler configuration, and an explanation of its lines."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich import box
from rich.markup import escape
from rich.table import Table

from pumice.cli.errors import BAD_INPUT
from pumice.cli.groups import SuggestingGroup
from pumice.cli.simulation.sources import read_text
from pumice.cli.terminal import console, json_option, print_error, print_json, print_warning
from pumice.server.local import check_configuration
from pumice.v1.configuration_pb2 import Configuration, ConfigurationProblem
from pumice.v1.inspection_service_pb2 import CheckConfigResponse, ConfigurationNote


@click.group("conf", cls=SuggestingGroup)
def conf_group() -> None:
    """Checks scheduler configurations."""


@conf_group.command("check", short_help="Problems of a configuration, and its lines explained.")
@click.argument("file", metavar="FILE")
@click.option(
    "--compat",
    metavar="NAME",
    multiple=True,
    help="Compatibility switch, such as kube-batch; can be repeated.",
)
@json_option
def check_command(file: str, compat: tuple[str, ...], as_json: bool) -> int:
    """Shows the problems of a scheduler configuration, and explains each of its lines.

    Every problem has its line and, for an unknown name, the nearest valid one. "-" is standard
    input. The exit code is 2 if the configuration is invalid.
    """
    text = read_text(file)
    found = check_configuration(Configuration(scheduler_conf=text, compat=compat))
    if as_json:
        print_json(_json(file, found))
    else:
        _print(file, found)
    return 0 if found.valid else BAD_INPUT


def _print(file: str, response: CheckConfigResponse) -> None:
    shown = "<stdin>" if file == "-" else file
    for problem in response.problems:
        line = f"{shown}:{problem.line}" if problem.line else shown
        where = f"{line}: {problem.path}" if problem.path else line
        if problem.warning:
            print_warning(f"{where}: {problem.problem}")
        else:
            print_error(f"{where}: {problem.problem}")
    if not response.valid:
        return
    if not response.notes:
        console().print("The file is empty: the built-in configuration would be used.")
    else:
        console().print(_table(response.notes))
        for folder, names in _pages(response.notes).items():
            console().print(escape(f"pages in docs/{folder}: {', '.join(names)}"), soft_wrap=True)
    console().print(f"[green]valid[/], hash {response.config_hash[:12]}")


def _table(notes: Iterable[ConfigurationNote]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("what it does", overflow="fold")
    for note in notes:
        table.add_row(str(note.line), "  " * _depth(note) + escape(note.meaning))
    return table


def _pages(notes: Iterable[ConfigurationNote]) -> dict[str, list[str]]:
    """The pages about the named actions and plugins, by folder."""
    pages: dict[str, list[str]] = {}
    for note in notes:
        folder, _, name = note.page.rpartition("/")
        if name and name not in pages.setdefault(folder, []):
            pages[folder].append(name)
    return pages


def _depth(note: ConfigurationNote) -> int:
    """The indentation: tiers contain plugins, plugins contain flags and arguments."""
    if "plugins[" in note.path:
        return 1 if note.path.endswith(".name") else 2
    return 1 if ".arguments." in note.path else 0


def _json(file: str, response: CheckConfigResponse) -> dict[str, object]:
    return {
        "file": file,
        "valid": response.valid,
        "hash": response.config_hash,
        "problems": [_problem_json(problem) for problem in response.problems],
        "notes": [
            {"line": note.line, "path": note.path, "meaning": note.meaning, "page": note.page}
            for note in response.notes
        ],
    }


def _problem_json(problem: ConfigurationProblem) -> dict[str, object]:
    return {
        "line": problem.line,
        "path": problem.path,
        "problem": problem.problem,
        "suggestion": problem.suggestion,
        "warning": problem.warning,
    }

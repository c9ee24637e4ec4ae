"""Candidates of what-if runs, read from options and files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from pumice.cli.errors import InputProblem
from pumice.cli.simulation.sources import read_text
from pumice.evaluation import (
    Candidate,
    CandidateError,
    OverrideError,
    Overrides,
    UnknownGoalError,
)
from pumice.recordings import RecordingError

F = TypeVar("F", bound=Callable[..., Any])
_KEYS = ("name", "conf", "confFile", "set", "removeNodes", "addNodes", "schedulePeriod", "eager")
# Longer names of candidates are truncated, for the tables.
_LONGEST_NAME = 40


class NodeCount(click.ParamType[tuple[str, int]]):
    """``NAME=COUNT``."""

    name = "name=count"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, _, count = str(value).rpartition("=")
        if not name or not count.isascii() or not count.isdigit() or not int(count):
            self.fail(f"{value!r}: expected NAME=COUNT with a count of 1 or more", param, ctx)
        return name, int(count)


def override_options(command: F) -> F:
    """Adds ``--set``, ``--remove-node`` and ``--add-nodes``."""
    for option in reversed(
        (
            click.option(
                "--set",
                "fields",
                multiple=True,
                metavar="PATH=VALUE",
                help="Changed field of the recorded cluster: queues/NAME/FIELD, nodes/NAME/FIELD, "
                "quotas/NAMESPACE/NAME/RESOURCE or priorities/NAME. Names may contain *.",
            ),
            click.option(
                "--remove-node",
                "removed_nodes",
                multiple=True,
                metavar="NAME",
                help="Node that is missing from the beginning; may contain *.",
            ),
            click.option(
                "--add-nodes",
                "added_nodes",
                type=NodeCount(),
                multiple=True,
                metavar="NAME=COUNT",
                help="Number of copies of a recorded node that exist from the beginning.",
            ),
        )
    ):
        command = option(command)
    return command


def overrides_of(
    fields: Sequence[str], removed_nodes: Sequence[str], added_nodes: Sequence[tuple[str, int]]
) -> Overrides:
    with input_problems():
        return Overrides.of(fields, removed_nodes, dict(added_nodes))


@contextmanager
def input_problems() -> Iterator[None]:
    """Turns errors of recordings, candidates, overrides and goals into InputProblem."""
    try:
        yield
    except (CandidateError, OverrideError, RecordingError, UnknownGoalError) as error:
        raise InputProblem(str(error)) from None


def candidates_of(
    confs: Sequence[str],
    files: Sequence[Path],
    period_seconds: float | None,
    eager: bool | None,
    overrides: Overrides,
) -> list[Candidate]:
    """A candidate for each configuration and each file, or else for the recorded configuration.

    The overrides apply to all candidates.
    """
    found = [
        Candidate(read_text(conf), period_seconds, eager, overrides, _name(conf)) for conf in confs
    ]
    for file in files:
        own = read_candidate(file)
        both = Overrides(
            (*overrides.fields, *own.overrides.fields),
            (*overrides.removed_nodes, *own.overrides.removed_nodes),
            (*overrides.added_nodes, *own.overrides.added_nodes),
        )
        found.append(
            replace(
                own,
                overrides=both,
                period_seconds=period_seconds if own.period_seconds is None else own.period_seconds,
                eager=eager if own.eager is None else own.eager,
            )
        )
    found = found or [Candidate(None, period_seconds, eager, overrides)]
    return _with_own_names(found)


def _name(path: str) -> str:
    return (Path(path).stem or "new")[:_LONGEST_NAME]


def _with_own_names(candidates: Sequence[Candidate]) -> list[Candidate]:
    seen: dict[str, int] = {}
    found = []
    for candidate in candidates:
        count = seen[candidate.name] = seen.get(candidate.name, 0) + 1
        name = candidate.name if count == 1 else f"{candidate.name}-{count}"
        found.append(replace(candidate, name=name))
    return found


def read_candidate(path: Path) -> Candidate:
    """Reads a candidate file. Raises InputProblem."""
    try:
        body = yaml.safe_load(read_text(str(path)))
    except (yaml.YAMLError, RecursionError) as error:
        raise InputProblem(f"{path}: invalid YAML: {error}") from None
    if not isinstance(body, dict):
        raise InputProblem(f"{path}: expected a mapping; allowed keys: {', '.join(_KEYS)}")
    for key in body:
        if key not in _KEYS:
            raise InputProblem(f"{path}: unknown key {key!r}; allowed: {', '.join(_KEYS)}")
    _check_types(path, body)
    conf = body.get("conf")
    if "confFile" in body:
        conf = read_text(str(path.parent / body["confFile"]))
    with input_problems():
        overrides = Overrides.of(
            body.get("set") or {}, body.get("removeNodes") or (), body.get("addNodes")
        )
    name = str(body.get("name") or _name(str(path)))[:_LONGEST_NAME]
    return Candidate(conf, body.get("schedulePeriod"), body.get("eager"), overrides, name)


def _check_types(path: Path, body: Mapping[str, Any]) -> None:
    types = {
        "name": (str, "a text"),
        "conf": (str, "the text of a configuration"),
        "confFile": (str, "the name of a file"),
        "set": (dict, "a mapping of paths to values"),
        "removeNodes": (list, "a list of names"),
        "addNodes": (dict, "a mapping of names to counts"),
        "schedulePeriod": ((int, float), "seconds"),
        "eager": (bool, "true or false"),
    }
    for key, value in body.items():
        kind, text = types[key]
        if value is not None and not isinstance(value, kind):  # type: ignore[arg-type]
            raise InputProblem(f"{path}: {key}: expected {text}")
    if "conf" in body and "confFile" in body:
        raise InputProblem(f"{path}: conf and confFile cannot be used together")
    period = body.get("schedulePeriod")
    if period is not None and (isinstance(period, bool) or not 0.01 <= period <= 3600):
        raise InputProblem(f"{path}: schedulePeriod: expected seconds from 0.01 to 3600")


def sources_of(confs: Sequence[str], files: Sequence[Path]) -> list[list[str]]:
    """The options that define each candidate, in the order of ``candidates_of``."""
    found = [["--conf", conf] for conf in confs]
    found += [["--candidate", str(file)] for file in files]
    return found or [["--closed"]]


def replay_command_line(paths: Sequence[Path], source: Sequence[str], candidate: Candidate) -> str:
    """The command that runs a candidate again, from its options and the common settings."""
    words = ["pumice", "replay", *map(str, paths), *source]
    if candidate.period_seconds is not None:
        words += ["--schedule-period", str(candidate.period_seconds)]
    if candidate.eager is not None:
        words.append("--eager" if candidate.eager else "--no-eager")
    for field in candidate.overrides.fields:
        words += ["--set", str(field)]
    for name in candidate.overrides.removed_nodes:
        words += ["--remove-node", name]
    for name, count in candidate.overrides.added_nodes:
        words += ["--add-nodes", f"{name}={count}"]
    return shlex.join(words)

"""``pumice schedule``: the decisions for a manifest, without applying it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

from pumice.cli.errors import BAD_INPUT, FAILED, InputProblem
from pumice.cli.queries.options import core, core_options, output_options, print_value
from pumice.cli.queries.result_tables import print_result
from pumice.cli.simulation.sources import read_manifest, read_text
from pumice.cli.terminal import print_error, print_warning
from pumice.client import ArgumentError, Manifest, Problem, ScheduleResult, Severity
from pumice.client.requests import inline_source, schedule_request

_HORIZON_SECONDS = 24 * 3600.0


@click.command("schedule")
@click.argument("named", metavar="[FILE]…", nargs=-1)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help='Manifest with Jobs, Deployments, PodGroups, Pods …; "-" is standard input.',
)
@click.option(
    "--inline",
    is_flag=True,
    help="Result for a cluster that consists of the files, without a core.",
)
@click.option(
    "--conf", metavar="FILE", help="Scheduler configuration instead of that of the cluster."
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="KIND/NAME",
    help="Object to remove first: node/NAME, pod/NAMESPACE/NAME …; not with --inline.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Maximum number of sessions; pods that one session binds run in the next.",
)
@click.option(
    "--others",
    is_flag=True,
    help="Results of the other jobs of the cluster, too; not with --inline.",
)
@click.option(
    "--eta",
    is_flag=True,
    help="Estimate of the start of each job within a day; not with --inline.",
)
@core_options
@output_options
def schedule_command(
    named: tuple[str, ...],
    files: tuple[str, ...],
    inline: bool,
    conf: str | None,
    removed: tuple[str, ...],
    sessions: int,
    others: bool,
    eta: bool,
    output: str,
    **connection: Any,
) -> int:
    """Shows the decisions that a core would make for a manifest now. Changes nothing.

    Volcano Jobs and workloads of Kubernetes get the pods that their controllers would create. The
    exit code is 1 if a pod of the manifest would stay pending, and 2 if the manifest has an error.
    """
    if not (files or named or removed):
        raise click.UsageError("no manifest; add one with -f FILE")
    needs_core = {"--remove": removed, "--eta": eta, "--others": others}
    for option in [option for option, value in needs_core.items() if inline and value]:
        raise click.UsageError(f"{option} needs a core and cannot be used with --inline")
    manifests = read_manifests((*files, *named))
    configuration = None if conf is None else read_text(conf)
    if inline:
        result = _inline(manifests, configuration, sessions)
    else:
        with core(**connection) as client:
            result = client.schedule(
                manifests,
                removed=removed,
                configuration=configuration,
                sessions=sessions,
                others=others,
                horizon_seconds=_HORIZON_SECONDS if eta else None,
            )
    if output == "table":
        print_problems(result.problems)
        print_result(result)
    else:
        print_value(result.to_dict(), output)
    if result.errors:
        return BAD_INPUT
    return FAILED if result.waiting else 0


def read_manifests(files: Iterable[str]) -> list[Manifest]:
    """The texts of files; ``-`` is standard input."""
    return [Manifest(text, source) for source, text in map(read_manifest, files)]


def print_problems(problems: Sequence[Problem]) -> None:
    """Prints problems on stderr, one line each."""
    for problem in problems:
        if problem.severity is Severity.ERROR:
            print_error(str(problem))
        else:
            print_warning(str(problem))


def _inline(
    manifests: Sequence[Manifest], configuration: str | None, sessions: int
) -> ScheduleResult:
    # Only this mode imports the engine, which takes time.
    from pumice.server.local import ConfigurationRefusedError, schedule_inline  # noqa: PLC0415

    try:
        request = schedule_request(
            inline_source(manifests), configuration=configuration, sessions=sessions
        )
        return ScheduleResult.from_proto(schedule_inline(request, time.time_ns()))
    except (ConfigurationRefusedError, ArgumentError) as error:
        raise InputProblem(str(error)) from None

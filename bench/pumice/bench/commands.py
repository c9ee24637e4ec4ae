"""``pumice bench``: benchmarks, with one line of JSON for each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pumice.bench import catalogue
from pumice.bench.cases import CASES, Case, CasesError, fitted, product, read_cases, tightened
from pumice.bench.catalogue import BENCHES, MEANINGS, SIZES, RunOptions
from pumice.bench.clusters import Size
from pumice.bench.configurations import DEFAULT, PROFILES, Profile, read_profile
from pumice.bench.engines import kernels
from pumice.bench.estimates import MOMENTS, estimates
from pumice.bench.results import Result
from pumice.recordings import RecordingError
from pumice.server.estimating.learning import learn_path
from pumice.server.estimating.run_times import RunTimes
from pumice.server.plugins import installed_registry

_END_TO_END_SIZE = Size(1000, 300, 10)
_QUICK_SIZE = Size(1000, 100, 10)
_CONTROLLERS_SIZE = Size(500, 500, 10)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--nodes", type=click.IntRange(1), help="Number of nodes."),
    click.option("--jobs", type=click.IntRange(1), help="Number of jobs."),
    click.option("--size", type=click.IntRange(1), help="Pods of each job."),
    click.option("--queues", type=click.IntRange(1), help="Number of queues; default 4."),
    click.option("--classes", type=click.IntRange(1), help="Number of task classes."),
    click.option("--seed", type=int, help="Seed of the background; default 0."),
)
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Output as JSON, one line for each result; always on."
)
_background_option = click.option(
    "--background",
    type=click.Choice(("lifelike", "none")),
    default="lifelike",
    help="Objects in the cluster beside the workload.",
)
_conf_options = (
    click.option(
        "--configuration",
        type=click.Choice(tuple(PROFILES)),
        default=DEFAULT.name,
        help="Scheduler configuration for allocate and mixed.",
    ),
    click.option(
        "--conf",
        type=_FILE,
        help="File with another scheduler configuration for allocate and mixed.",
    ),
)
_client_option = click.option(
    "--client/--no-client", default=True, help="Additional measurement of allocate over the stream."
)


class BenchmarkGroup(click.Group):
    """The command group of the benchmarks."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            allowed = ", ".join(known)
            raise click.UsageError(f"unknown benchmark {args[0]!r}; allowed: {allowed}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Wraps long help lines instead of truncating them."""
        with formatter.section("Commands"):
            helps = (command.help or "" for command in self.commands.values())
            first_lines = (text.partition("\n\n")[0].replace("\n", " ") for text in helps)
            formatter.write_dl(list(zip(self.commands, first_lines, strict=True)))


@click.group("bench", cls=BenchmarkGroup, invoke_without_command=True)
@click.pass_context
def bench_command(context: click.Context) -> None:
    """Runs benchmarks on generated clusters; prints one line of JSON for each result.

    Without a command, all benchmarks run. Times depend on the machine and its load;
    ``machine_speed`` is the speed of the machine during the run. The counts in ``work`` are the
    same on every machine.
    """
    if context.invoked_subcommand is None:
        context.invoke(all_command)


@bench_command.command("all")
@_background_option
@_client_option
@_json_option
def all_command(background: str, client: bool, as_json: bool) -> None:
    """All benchmarks at their standard sizes, except endtoend, controllers and growth."""
    del as_json
    options = RunOptions(with_client=client)
    for name, bench in BENCHES.items():
        for size in SIZES[name]:
            _print(bench(_with(size, {}, background), options))


def _sized(function: Callable[..., None]) -> Callable[..., None]:
    more = (_background_option, *_conf_options, _client_option, _json_option)
    for option in reversed((*_OPTIONS, *more)):
        function = option(function)
    return function


def _command(name: str) -> click.Command:
    @bench_command.command(name, help=MEANINGS[name], short_help=MEANINGS[name])
    @_sized
    def measure(
        background: str,
        configuration: str,
        conf: Path | None,
        client: bool,
        as_json: bool,
        **own: int | None,
    ) -> None:
        del as_json
        options = RunOptions(_profile(configuration, conf), client)
        given = {key: value for key, value in own.items() if value is not None}
        for standard in SIZES[name][:1] if given else SIZES[name]:
            _print(BENCHES[name](_with(standard, given, background), options))

    return measure


for _name in BENCHES:
    _command(_name)


@bench_command.command("growth")
@_json_option
def growth_command(as_json: bool) -> None:
    """Allocate, idle and snapshot at further sizes, for the plots."""
    del as_json
    _print(catalogue.growth(RunOptions()))


@bench_command.command("endtoend")
@_sized
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    help="Kubeconfig file of an empty cluster with the CRDs and queues of deploy/.",
)
@click.option(
    "--pairs", type=click.IntRange(1), help="Number of pairs of runs, for the median; default 5."
)
@click.option("--quick", is_flag=True, help="One pair of runs with 100 jobs and few arrivals.")
def endtoend_command(kubeconfig: str | None, pairs: int | None, quick: bool, **own: Any) -> None:
    """Rate of binds on a real API server, compared with bare bindings."""
    if not kubeconfig:
        raise click.UsageError("endtoend needs a cluster: use --kubeconfig or set KUBECONFIG")
    # Imported here, because it loads the Kubernetes client.
    from pumice.bench.arrivals import ARRIVALS, QUICK_ARRIVALS  # noqa: PLC0415
    from pumice.bench.endtoend import PAIRS, endtoend  # noqa: PLC0415

    sizes = ("nodes", "jobs", "size", "queues", "classes")
    given = {key: own[key] for key in sizes if own[key] is not None}
    size = _with(_QUICK_SIZE if quick else _END_TO_END_SIZE, given, own["background"])
    rates = QUICK_ARRIVALS if quick else ARRIVALS
    _print(endtoend(size, kubeconfig, pairs or (1 if quick else PAIRS), rates))


@bench_command.command("controllers")
@click.option("--nodes", type=click.IntRange(1), help="Number of nodes; default 500.")
@click.option("--jobs", type=click.IntRange(1), help="Number of Jobs; default 500.")
@click.option("--size", type=click.IntRange(1), help="Pods of each Job; default 10.")
@click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    help="Kubeconfig file of an empty cluster with the CRDs and queues of deploy/.",
)
@click.option("--pairs", type=click.IntRange(1), help="Number of pairs of runs; default 3.")
@_background_option
@_json_option
def controllers_command(kubeconfig: str | None, pairs: int | None, **own: Any) -> None:
    """Time until all Jobs run on a real API server, compared with the bare writes."""
    if not kubeconfig:
        raise click.UsageError("controllers needs a cluster: use --kubeconfig or set KUBECONFIG")
    # Imported here, because it loads the Kubernetes client.
    from pumice.bench.controllers import PAIRS, controllers  # noqa: PLC0415

    given = {key: own[key] for key in ("nodes", "jobs", "size") if own[key] is not None}
    size = _with(_CONTROLLERS_SIZE, given, own["background"])
    _print(controllers(size, kubeconfig, pairs or PAIRS))


@bench_command.command("cases")
@click.option("--file", type=click.Path(path_type=Path), default=CASES, help="File with the cases.")
@click.option(
    "--suggest", is_flag=True, help="Output of each count, its bound and a fitting bound."
)
@click.option("--tighten", is_flag=True, help="Lower bounds in the file, where they are too loose.")
def cases_command(file: Path, suggest: bool, tighten: bool) -> int:
    """Check of counted work against bench/cases.yaml; the exit code is 1 above a bound."""
    try:
        cases = read_cases(file)
    except CasesError as error:
        raise click.UsageError(str(error)) from error
    counts: dict[str, dict[str, int]] = {}
    problems = []
    for case in cases:
        most = counts[case.name] = {}
        for kernel_name in kernels():
            result = case.run(kernel_name)
            problems += [f"{kernel_name}: {problem}" for problem in case.problems(result)]
            for name, count in result.work.items():
                most[name] = max(count, most.get(name, 0))
        if suggest:
            _suggest(case, most)
    if tighten:
        text = file.read_text(encoding="utf-8")
        file.write_text(tightened(text, counts, cases), encoding="utf-8")
    for problem in problems:
        click.echo(problem)
    click.echo(f"{len(cases)} cases, {len(problems)} problems")
    return 1 if problems else 0


def _suggest(case: Case, counts: Mapping[str, int]) -> None:
    size = case.size.read()
    for name, text in case.at_most.items():
        count, bound = counts.get(name, 0), product(text, size)
        fits = fitted(text, size, count)
        click.echo(f"{case.name}: {name}: {count} of {bound:g} ({text}); fits: {fits}")
    for name in sorted(set(counts) - set(case.at_most)):
        click.echo(f"{case.name}: {name}: {counts[name]}, without a bound")


@bench_command.command("eta")
@click.argument("recordings", metavar="REC...", type=_FILE, nargs=-1, required=True)
@click.option(
    "--moments",
    type=click.IntRange(1),
    default=MOMENTS,
    show_default=True,
    help="Number of moments in each recording at which starts are estimated.",
)
@click.option(
    "--run-times",
    type=click.Path(exists=True, path_type=Path),
    help="Recording, or folder of recordings, with run times that are known in advance.",
)
@_json_option
def eta_command(
    recordings: tuple[Path, ...], moments: int, run_times: Path | None, as_json: bool
) -> None:
    """Estimated starts compared with the actual starts in recordings."""
    del as_json
    older = RunTimes()
    if run_times is not None:
        learn_path(older, run_times)
    try:
        _print(estimates(path, moments, older) for path in recordings)
    except RecordingError as error:
        raise click.UsageError(str(error)) from error


@bench_command.command("report")
@click.argument("lines", type=_FILE)
@click.option("--date", required=True, metavar="YYYY-MM-DD", help="Day of the run.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the page; its subfolder speed/ gets the plots.",
)
def report_command(lines: Path, date: str, into: Path) -> None:
    """Page about speed, made from the output of a run; prints a table of the targets."""
    from pumice.bench.report import summary, write_report  # noqa: PLC0415

    printed = lines.read_text(encoding="utf-8").splitlines()
    click.echo(summary(printed))
    click.echo(f"wrote {write_report(printed, date, into)}")


def _print(results: Iterable[Result]) -> None:
    for result in results:
        click.echo(result.line())


def _with(size: Size, given: Mapping[str, Any], background: str) -> Size:
    return replace(size, has_background=background == "lifelike", **given)


def _profile(name: str, path: Path | None) -> Profile:
    if path is None:
        return PROFILES[name]
    text = path.read_text(encoding="utf-8")
    return read_profile(str(path), text, registry=installed_registry())

"""``pumice simulate``: the decisions of the engine for clusters in files, without a core."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pumice.cli.errors import BAD_INPUT, FAILED, InputProblem
from pumice.cli.simulation import reports
from pumice.cli.simulation.reports import Verdict
from pumice.cli.simulation.runs import SECOND_NS, Run, run
from pumice.cli.simulation.scenarios import MOST_CYCLES, Scenario
from pumice.cli.simulation.sources import Sources, read_text
from pumice.cli.simulation.verdicts import difference
from pumice.cli.terminal import console, json_option, print_error, print_json, print_warning
from pumice.client.reasons import PluginFault
from pumice.manifests.errors import FieldError
from pumice.manifests.times import timestamp_ns

START_NS = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * SECOND_NS
_MANY_FILES = 20


class Moment(click.ParamType[int]):
    """A time in RFC 3339, as nanoseconds since 1970."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        try:
            if moment := timestamp_ns(str(value), ""):
                return moment
        except FieldError:
            pass
        self.fail(
            f"invalid time {value!r}; allowed: RFC 3339, such as 2026-11-15T12:00:00Z", param, ctx
        )


@click.command("simulate")
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option(
    "--check", is_flag=True, help="Comparison with the expected decisions in scenario files."
)
@json_option
@click.option(
    "--now",
    "now_ns",
    type=Moment(),
    default=START_NS,
    show_default="2026-11-15T12:00:00Z",
    help="Time of the first cycle; each further cycle is one second later.",
)
@click.option("--family", metavar="NAME", help="Family of the scenario files to run.")
@click.option(
    "--scheduler-conf",
    metavar="FILE",
    help="Scheduler configuration instead of that of scenario files.",
)
@click.option(
    "--cycles",
    metavar="N",
    type=click.IntRange(1, MOST_CYCLES),
    help="Number of cycles; default: that of the scenario file, or 1 for manifests.",
)
def simulate_command(
    files: tuple[str, ...],
    check: bool,
    as_json: bool,
    now_ns: int,
    family: str | None,
    scheduler_conf: str | None,
    cycles: int | None,
) -> int:
    """Shows the engine's decisions for clusters in files, without a core.

    A FILE is a scenario (a cluster, a configuration and the expected decisions) or contains
    manifests in YAML or JSON. All manifests together are one cluster; in it, queues without a state
    are open, and a queue named default exists. "-" is standard input. Between cycles bound pods
    start to run, evicted pods are deleted, and statuses are written. With --check, shared devices
    of a node count only after an update of the node, as in Volcano.
    """
    if check and cycles is not None:
        raise click.UsageError(
            "--cycles cannot be used with --check: the files have the number of cycles"
        )
    conf = None if scheduler_conf is None else read_text(scheduler_conf)
    sources = Sources(files, conf, cycles)
    if check:
        return _check(sources, now_ns, family, as_json=as_json)
    return _show(sources, now_ns, family, as_json=as_json)


def _show(sources: Sources, now_ns: int, family: str | None, *, as_json: bool) -> int:
    bad = False
    shown = []
    for source in _of_family(sources, family):
        try:
            scenario = _usable(source)
            begin_ns = scenario.now_ns or now_ns
            done = run(scenario, begin_ns, explain=True)
        except InputProblem as problem:
            print_error(problem.message)
            bad = True
            continue
        bad = _print_set_aside(done.set_aside, scenario) or bad
        _print_faults(done)
        if as_json:
            shown.append(reports.run_json(done, begin_ns))
        else:
            reports.print_run(console(), done, begin_ns)
    if as_json:
        print_json({"runs": shown})
    return BAD_INPUT if bad else 0


def _check(sources: Sources, now_ns: int, family: str | None, *, as_json: bool) -> int:
    verdicts: list[Verdict] = []
    with _progress(len(sources)) as advance:
        for source in _of_family(sources, family):
            verdict = _verdict(source, now_ns)
            verdicts.append(verdict)
            if verdict.difference is not None and not as_json:
                click.echo(reports.verdict_line(verdict))
            advance()
    if as_json:
        print_json(reports.check_json(verdicts))
    else:
        click.echo(reports.tally(verdicts))
    if any(verdict.error or verdict.set_aside for verdict in verdicts):
        return BAD_INPUT
    return 0 if all(verdict.passed for verdict in verdicts) else FAILED


def _verdict(source: Scenario | InputProblem, now_ns: int) -> Verdict:
    try:
        scenario = _usable(source)
        if not scenario.expected:
            raise InputProblem(
                f"{scenario.source}: expect is missing; --check needs expect or expect_any"
            )
        done = run(scenario, scenario.now_ns or now_ns, as_recorded=True)
    except InputProblem as problem:
        print_error(problem.message)
        known = source if isinstance(source, Scenario) else None
        return Verdict(
            known.source if known else problem.message.partition(": ")[0],
            known.name if known else "",
            known.family if known else "",
            error=problem.message,
        )
    _print_set_aside(done.set_aside, scenario)
    _print_faults(done)
    return Verdict(
        scenario.source,
        scenario.name,
        scenario.family,
        difference(scenario, done.outcomes),
        set_aside=done.set_aside,
    )


def _usable(source: Scenario | InputProblem) -> Scenario:
    if isinstance(source, InputProblem):
        raise source
    return source


def _of_family(
    sources: Iterable[Scenario | InputProblem], family: str | None
) -> Iterator[Scenario | InputProblem]:
    """The scenarios of a family, and unreadable files. Raises InputProblem for an unknown family."""
    others: set[str] = set()
    found = family is None
    for source in sources:
        if isinstance(source, InputProblem) or family in (None, source.family):
            found = found or isinstance(source, Scenario)
            yield source
        else:
            others.add(source.family or "(none)")
    if not found:
        raise InputProblem(
            f"unknown family {family!r}; families: {', '.join(sorted(others)) or 'none'}"
        )


def _print_set_aside(lines: Sequence[str], scenario: Scenario) -> bool:
    for line in lines:
        print_error(f"{line} (set aside)")
    if scenario.ignored:
        kinds = ", ".join(scenario.ignored)
        print_warning(f"{scenario.source}: ignored kinds, which scheduling does not read: {kinds}")
    return bool(lines)


def _print_faults(done: Run) -> None:
    """Prints faults of plugins; the sessions continued without these plugins."""
    for number, cycle in enumerate(done.cycles, start=1):
        for fault in cycle.faults:
            where = f"{done.scenario.source}: cycle {number}"
            print_error(f"{where}: {PluginFault.from_proto(fault)}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr for many files, if it is a terminal."""
    if total < _MANY_FILES or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)

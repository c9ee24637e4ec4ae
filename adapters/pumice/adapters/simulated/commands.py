"""`pumice adapter simulated`: a simulated cluster that a core schedules."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from pumice.adapters.core_options import core_options
from pumice.adapters.runtime.clock import Backoff
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.errors import AdapterError
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.shutdown import run_until_signal
from pumice.adapters.simulated.journal import StateError, locked_state
from pumice.adapters.simulated.options import FaultRates, SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.run import Simulation
from pumice.logs import configure_logging

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DEFAULTS = SimulationOptions()
# A simulation is short, so a restarted core must be found soon.
_RECONNECT = Backoff(0.05, 0.5)


def check_faults(
    context: click.Context, parameter: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Checks the names of faults, for commands that pass them on to this one."""
    _read_faults(context, parameter, words)
    return words


def _read_faults(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> FaultRates:
    try:
        return FaultRates.parse(words)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("simulated")
@core_options
@click.option("--cluster", default="simulated", show_default=True, help="Name of the cluster.")
@click.option(
    "--adapter-id", default="", help="Name of this adapter; default: that of the cluster."
)
@click.option(
    "--seed",
    default=_DEFAULTS.seed,
    show_default=True,
    help="Seed of the cluster, its jobs and its faults.",
)
@click.option(
    "--nodes",
    default=_DEFAULTS.nodes,
    show_default=True,
    type=click.IntRange(1),
    help="Number of nodes.",
)
@click.option(
    "--jobs",
    default=_DEFAULTS.jobs,
    show_default=True,
    type=click.IntRange(0),
    help="Number of jobs.",
)
@click.option(
    "--duration",
    default=_DEFAULTS.duration,
    show_default=True,
    type=click.FloatRange(0),
    help="Longest duration in simulated seconds; 0: until all jobs are done.",
)
@click.option(
    "--speed",
    default=_DEFAULTS.speed,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Simulated seconds in one second.",
)
@click.option(
    "--arrivals",
    default=_DEFAULTS.arrival_share,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Share of the duration in which jobs arrive.",
)
@click.option(
    "--load",
    default=_DEFAULTS.load,
    show_default=True,
    type=click.FloatRange(0),
    help="Share of the cluster that jobs request on average; 0: not adjusted.",
)
@click.option(
    "--elastic",
    default=_DEFAULTS.elastic_share,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Share of gangs that need only half of their pods.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that keeps the cluster over restarts; default: in memory.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    callback=_read_faults,
    help="Fault to inject: all, a name such as lost-answers, or with a rate lost-answers=0.2.",
)
@click.option(
    "--refuse-job", "refused", multiple=True, help="Name of a job whose binds are refused."
)
@click.option(
    "--scheduler-conf", type=_FILE, help="Scheduler configuration; default: that of the core."
)
@click.option(
    "--schedule-period",
    default=0.0,
    type=click.FloatRange(0),
    help="Seconds between sessions; 0: the default of the core.",
)
@click.option("--keep", is_flag=True, help="Keep the connection after the end of the jobs.")
@click.option("--json", "as_json", is_flag=True, help="Reports as JSON, one a line.")
@click.option(
    "--report-interval",
    default=0.0,
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Interval between reports; 0: one report at the end.",
)
@click.option("--verbose", is_flag=True, help="Log messages of level info.")
def simulated_command(
    open_channel: ChannelFactory,
    cluster: str,
    adapter_id: str,
    seed: int,
    nodes: int,
    jobs: int,
    duration: float,
    speed: float,
    arrivals: float,
    load: float,
    elastic: float,
    state: Path | None,
    faults: FaultRates,
    refused: tuple[str, ...],
    scheduler_conf: Path | None,
    schedule_period: float,
    keep: bool,
    as_json: bool,
    report_interval: float,
    verbose: bool,
) -> None:
    """Runs a simulated cluster that a core schedules, until its jobs are done.

    The exit code is 0 when the cluster ended or was interrupted, and 1 when the core refused this
    adapter or another adapter replaced it.
    """
    configure_logging("info" if verbose else "error")
    options = SimulationOptions(
        seed=seed,
        nodes=nodes,
        jobs=jobs,
        duration=duration,
        keep=keep,
        speed=speed,
        arrival_share=arrivals,
        load=load,
        elastic_share=elastic,
        faults=faults,
        refused_jobs=frozenset(refused),
        scheduler_conf=scheduler_conf.read_text(encoding="utf-8") if scheduler_conf else "",
        schedule_period=schedule_period,
    )
    runtime = RuntimeOptions(cluster, adapter_id or cluster, reconnect=_RECONNECT)
    try:
        with locked_state(state):
            simulation = Simulation(open_channel, options, runtime, state=state)
            print_report = partial(_print, simulation, as_json=as_json)
            if not run_until_signal(lambda _: _run(simulation, print_report, report_interval)):
                click.echo("interrupted", err=True)
    except StateError as error:
        raise click.UsageError(f"--state: {error}") from None
    except AdapterError as error:
        raise click.ClickException(str(error)) from None
    print_report()


async def _run(
    simulation: Simulation, print_report: Callable[[], None], report_interval: float
) -> bool:
    """Runs until the end of the cluster; returns True."""
    reports = asyncio.create_task(_report_regularly(print_report, report_interval))
    try:
        await simulation.run()
    finally:
        reports.cancel()
    return True


async def _report_regularly(print_report: Callable[[], None], interval: float) -> None:
    while interval:
        await asyncio.sleep(interval)
        print_report()


def _print(simulation: Simulation, *, as_json: bool) -> None:
    report = simulation.world.report()
    click.echo(json.dumps(report.as_dict()) if as_json else _shown(report))


def _shown(report: SimulationReport) -> str:
    lines = [
        f"jobs      {report.jobs_done} of {report.jobs} done, {report.gangs_whole} gangs whole,"
        f" {report.gangs_short} short, {report.jobs_waiting} waiting",
        f"pods      {report.pods_bound} bound, {report.pods_evicted} evicted",
        f"nodes     {report.node_failures} failed",
        f"faults    {report.conflicting_binds} conflicting binds,"
        f" {report.overcommits} overcommitted nodes",
        f"time      {report.simulated_seconds:g} simulated seconds",
        "calls     " + ", ".join(f"{count} {verb}" for verb, count in sorted(report.calls.items())),
    ]
    return "\n".join(lines)

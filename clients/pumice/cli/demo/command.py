"""``pumice demo``: a core and a simulated cluster, live, with a summary at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pumice.adapters.simulated.commands import check_faults
from pumice.cli.demo.processes import ChildProcess
from pumice.cli.demo.run import DemoRun
from pumice.cli.demo.scenario import DemoScenario, socket_address
from pumice.cli.demo.summary import Summary
from pumice.cli.errors import InputProblem
from pumice.cli.terminal import json_option, print_error, print_json
from pumice.client import Client, ClientSettings
from pumice.recordings import SUFFIX

_INTERRUPTED = 130


@click.command("demo")
@click.option("--seed", default=3, show_default=True, help="Seed of the cluster and its jobs.")
@click.option(
    "--nodes", default=8, show_default=True, type=click.IntRange(1, 200), help="Number of nodes."
)
@click.option(
    "--jobs", default=90, show_default=True, type=click.IntRange(1, 500), help="Number of jobs."
)
@click.option(
    "--seconds",
    default=24.0,
    show_default=True,
    type=click.FloatRange(3, 25),
    help="Maximum duration.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    callback=check_faults,
    help="Fault to inject, as for the simulated adapter.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Recording for 'pumice replay'; the name ends in .pumice.",
)
@click.option(
    "--keep", is_flag=True, help="Demo until Ctrl-C, with more jobs; --seconds is ignored."
)
@json_option
def demo_command(
    seed: int,
    nodes: int,
    jobs: int,
    seconds: float,
    faults: tuple[str, ...],
    record: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Runs a core and a simulated cluster as two processes, and shows their state live.

    While the demo runs, other commands can query its core: it shows the address for their option
    --core. A killed process is restarted, and every gang still starts as a whole. The exit code is
    1 if a gang is left bound in part.
    """
    if record is not None:
        _check_name(record)
    scenario = DemoScenario(seed, nodes, jobs, seconds, faults, record, keep)
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as name:
        folder = Path(name)
        run = DemoRun(
            ChildProcess("core", scenario.core_arguments(folder), folder),
            ChildProcess("adapter", scenario.adapter_arguments(folder), folder),
            Client(ClientSettings(socket_address(folder), timeout_seconds=2.0, retry_seconds=0.0)),
            None if keep else seconds,
        )
        run.run(quiet=as_json)
        if run.is_interrupted and not keep:
            print_error("interrupted; both processes have ended")
            raise click.exceptions.Exit(_INTERRUPTED)
        summary = Summary.of(run)
        if summary is None:
            raise click.ClickException(f"the cluster left no report: {run.adapter.last_error()}")
    if as_json:
        print_json(summary.figures)
    else:
        click.echo(summary.text())
        if record is not None:
            click.echo(f"recorded  {record}; 'pumice replay {record}' repeats its decisions")
    if summary.figures["gangs_short"]:
        raise click.exceptions.Exit(1)


def _check_name(record: Path) -> None:
    if record.suffix != SUFFIX:
        raise InputProblem(f"--record {record}: the name must end in {SUFFIX}")
    if not record.parent.is_dir():
        raise InputProblem(f"--record {record}: {record.parent} is not a folder")
    if record.exists():
        raise InputProblem(f"--record {record}: already exists; choose another name")

"""``pumice demo``: puts the parts together, shows them, and sums up."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pumice.cli.demo.children import Child
from pumice.cli.demo.play import Play
from pumice.cli.demo.scene import Scene, socket
from pumice.cli.demo.summary import Summary
from pumice.cli.errors import InputProblem
from pumice.cli.terminal import json_option, say_json
from pumice.client.inspection import InspectionClient
from pumice.recordings import SUFFIX

_INTERRUPTED = 130


@click.command("demo")
@click.option("--seed", default=3, show_default=True, help="Decides the whole cluster.")
@click.option("--nodes", default=8, show_default=True, type=click.IntRange(1, 200))
@click.option("--jobs", default=90, show_default=True, type=click.IntRange(1, 500))
@click.option(
    "--seconds",
    default=24.0,
    show_default=True,
    type=click.FloatRange(3, 25),
    help="When the cluster ends at the latest.",
)
@click.option("--trouble", multiple=True, help="What goes wrong, as for the simulated adapter.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Records it, for 'pumice replay'; the name ends in .pumice.",
)
@json_option
def demo_command(
    seed: int,
    nodes: int,
    jobs: int,
    seconds: float,
    trouble: tuple[str, ...],
    record: Path | None,
    as_json: bool,
) -> None:
    """Runs a core and a simulated cluster as two processes and shows what they do.

    Either process may be killed while it runs: it is started again, and every gang still ends
    whole. Exits with 0 when that is so, with 1 when a gang was left in part.
    """
    if record is not None:
        _check_name(record)
    scene = Scene(seed, nodes, jobs, seconds, trouble, record)
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as name:
        folder = Path(name)
        core = Child("core", scene.core_arguments(folder), folder)
        adapter = Child("adapter", scene.adapter_arguments(folder), folder)
        play = Play(core, adapter, InspectionClient(socket(folder)), seconds)
        play.run(quiet=as_json)
        if play.is_interrupted:
            click.echo("interrupted; both processes have ended", err=True)
            raise click.exceptions.Exit(_INTERRUPTED)
        summary = Summary.of(play, adapter.said())
    if summary is None:
        raise click.ClickException(f"the cluster left no report: {play.complaint}")
    if as_json:
        say_json(summary.figures)
    else:
        click.echo(summary.shown())
        if record is not None:
            click.echo(f"recorded  {record}; 'pumice replay {record}' decides it all again")
    if summary.figures["gangs_short"]:
        raise click.exceptions.Exit(1)


def _check_name(record: Path) -> None:
    if record.suffix != SUFFIX:
        raise InputProblem(f"--record {record}: the name of a recording ends in {SUFFIX}")
    if not record.parent.is_dir():
        raise InputProblem(f"--record {record}: {record.parent} is no folder")
    if record.exists():
        raise InputProblem(f"--record {record}: is there already; choose another name")

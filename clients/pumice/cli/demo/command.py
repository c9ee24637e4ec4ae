"""``pumice demo``: puts the parts together, shows them, and sums up."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pumice.cli.demo.children import Child
from pumice.cli.demo.play import Play
from pumice.cli.demo.scene import Scene, socket
from pumice.cli.demo.summary import Summary
from pumice.cli.terminal import json_option, say_json
from pumice.client.inspection import InspectionClient

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
@json_option
def demo_command(
    seed: int, nodes: int, jobs: int, seconds: float, trouble: tuple[str, ...], as_json: bool
) -> None:
    """Runs a core and a simulated cluster as two processes and shows what they do.

    Either process may be killed while it runs: it is started again, and every gang still ends
    whole. Exits with 0 when that is so, with 1 when a gang was left in part.
    """
    scene = Scene(seed, nodes, jobs, seconds, trouble)
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
    if summary.figures["gangs_short"]:
        raise click.exceptions.Exit(1)

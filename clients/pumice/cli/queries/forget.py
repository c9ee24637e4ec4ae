"""``pumice forget``: makes a core forget a cluster and the epoch of its leader."""

from __future__ import annotations

from typing import Any

import click

from pumice.cli.queries.options import core, core_options


@click.command("forget")
@click.argument("name", metavar="CLUSTER")
@click.option("--force", is_flag=True, help="Also while an adapter is connected.")
@core_options
def forget_command(name: str, force: bool, **connection: Any) -> int:
    """Makes a core forget a cluster: its objects, its sessions and the highest epoch it served.

    An adapter that connects afterwards sends a snapshot, and its epoch may be lower than before.
    """
    with core(**connection) as client:
        epoch = client.forget_cluster(name, force=force)
    click.echo(f"forgot cluster {name}, which was served at epoch {epoch}")
    return 0

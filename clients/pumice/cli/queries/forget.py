"""``pumice forget``: removes a cluster from a core."""

from __future__ import annotations

from typing import Any

import click

from pumice.cli.queries.options import core, core_options
from pumice.cli.terminal import json_option, print_json


@click.command("forget")
@click.argument("name", metavar="CLUSTER")
@click.option("--force", is_flag=True, help="Removal even while an adapter is connected.")
@core_options
@json_option
def forget_command(name: str, force: bool, as_json: bool, **connection: Any) -> int:
    """Removes a cluster from a core: its objects, sessions, configuration and highest epoch.

    An adapter that connects afterwards begins with a snapshot, at any valid epoch. The command
    needs the role admin if the core uses roles.
    """
    with core(**connection) as client:
        epoch = client.forget_cluster(name, force=force)
    if as_json:
        print_json({"cluster": name, "epoch": epoch})
    else:
        click.echo(f"{name}: removed; its highest epoch was {epoch}")
    return 0

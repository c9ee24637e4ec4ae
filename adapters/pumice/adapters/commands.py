"""The commands of this room: `pumice adapter …`."""

import click

from pumice.adapters.simulated.commands import simulated_command


@click.group("adapter")
def adapter_group() -> None:
    """Runs an adapter: it streams a cluster to a core and carries out its decisions."""


adapter_group.add_command(simulated_command)

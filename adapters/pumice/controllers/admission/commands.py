"""The commands `pumice admission`."""

from pathlib import Path

import click
import yaml

from pumice.controllers.admission.groups import ConfigurationError, resource_groups
from pumice.controllers.admission.policies import policies
from pumice.controllers.vcctl.access import BadInputError


@click.group("admission")
def admission_group() -> None:
    """Policies of the API server that take the place of Volcano's webhooks."""


@admission_group.command("resource-groups")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def resource_groups_command(file: Path) -> None:
    """Prints policies for the resourceGroups of a Volcano file.

    FILE is the file of --admission-conf, or the ConfigMap that contains that file. The output is for
    kubectl apply -f -. Exits with 2 when the configuration is invalid.
    """
    try:
        found = policies(resource_groups(file.read_text()))
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: {error}") from None
    if not found:
        raise BadInputError(f"{file}: no resource group that changes pods")
    click.echo(yaml.safe_dump_all(found, sort_keys=False, width=1000), nl=False)

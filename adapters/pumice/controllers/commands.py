"""The command `pumice controllers`."""

from collections.abc import Mapping
from typing import Any, Final

import click

from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.settings import log_level, split
from pumice.adapters.kubernetes.supervision import BAD_INPUT
from pumice.adapters.runtime.errors import AdapterError
from pumice.adapters.runtime.shutdown import run_until_signal
from pumice.controllers.flags import controller_flags
from pumice.controllers.registry import DEFAULT_SELECTION, selected
from pumice.controllers.settings import settings_from
from pumice.logs import configure_logging

# Flags of `pumice run` that are passed on to its controllers.
_SHARED: Final = (
    "kubeconfig",
    "context",
    "master",
    "kube_api_qps",
    "kube_api_burst",
    "leader_elect",
    "leader_elect_lease_duration",
    "leader_elect_renew_deadline",
    "leader_elect_retry_period",
    "leader_elect_resource_namespace",
    "lock_object_namespace",
    "drain_timeout",
)
_DURATIONS: Final = frozenset(
    name for name in _SHARED if name.endswith(("_duration", "_deadline", "_period", "_timeout"))
)

controllers_option = click.option(
    "--controllers",
    is_flag=False,
    flag_value=DEFAULT_SELECTION,
    default=None,
    metavar="[LIST]",
    help="Controllers in a third process: all, or those of a list such as *,-job-controller.",
)


class _AccessProblem(click.ClickException):
    """An invalid kubeconfig, for which a restart does not help."""

    exit_code = BAD_INPUT


@click.command("controllers")
@controller_flags
def controllers_command(**values: Any) -> None:
    """Runs the controllers of Jobs, queues and other objects of a Kubernetes cluster.

    The command accepts the flags of Volcano's controller manager. It exits with 2 if the kubeconfig
    or a flag is invalid, and retries after other errors. On SIGTERM or SIGINT it completes the writes
    in flight, releases the lease and exits; a second signal ends it at once.
    """
    # Imported here because the import takes a second.
    from pumice.controllers.process import run_controllers  # noqa: PLC0415

    configure_logging(log_level(values))
    try:
        settings = settings_from(values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        run_until_signal(lambda shutdown: run_controllers(settings, shutdown))
    except NoAccessError as error:
        raise _AccessProblem(str(error)) from None
    except AdapterError as error:
        raise click.ClickException(str(error)) from None


def controllers_arguments(selection: str, values: Mapping[str, Any]) -> list[str]:
    """The arguments of `pumice controllers` that follow from those of `pumice run`."""
    try:
        selected(split([selection]))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    arguments = [f"--controllers={selection}", f"--log-level={log_level(values)}"]
    arguments += [f"--scheduler-name={name}" for name in values["scheduler_name"]]
    for name in _SHARED:
        value = values[name]
        text = f"{value}s" if name in _DURATIONS else str(value)
        if text:
            arguments.append(f"--{name.replace('_', '-')}={text}")
    return arguments

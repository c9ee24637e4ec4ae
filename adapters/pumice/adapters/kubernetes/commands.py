"""The command `pumice adapter kubernetes`, and the part of `pumice run` that it shares."""

import logging
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from pumice.adapters.core_options import core_options
from pumice.adapters.kubernetes.errors import NoAccessError
from pumice.adapters.kubernetes.flags import adapter_flags
from pumice.adapters.kubernetes.settings import AdapterSettings, log_level, settings_from
from pumice.adapters.kubernetes.supervision import BAD_INPUT, supervise
from pumice.adapters.runtime.clock import SystemClock
from pumice.adapters.runtime.errors import AdapterError
from pumice.adapters.runtime.shutdown import Shutdown, run_until_signal
from pumice.logs import configure_logging

if TYPE_CHECKING:
    from pumice.adapters.runtime.connect import ChannelFactory

__all__ = ["adapter_flags", "kubernetes_command", "run_together"]

# Time from the end of a drain to the end of the process, for reports and the lease.
_AFTER_DRAIN_SECONDS = 6.0


class _AccessProblem(click.ClickException):
    """An invalid kubeconfig, which a restart does not repair."""

    exit_code = BAD_INPUT


@click.command("kubernetes")
@core_options
@adapter_flags
def kubernetes_command(open_channel: "ChannelFactory", **values: Any) -> None:
    """Connects a Kubernetes cluster to a core and applies the decisions of the core.

    The command accepts the flags of Volcano's scheduler. It exits with 2 if the kubeconfig or a flag
    is invalid, and with 1 if the cluster or the core refuses this adapter. It retries after other
    errors. On SIGTERM or SIGINT it completes the gangs that it has begun to bind, reports the
    outcomes, releases the lease and exits. A second signal ends it at once.
    """
    # Imported here, because the import takes a second and `pumice run` does not need it.
    from pumice.adapters.kubernetes.process import run_adapter  # noqa: PLC0415

    _set_up_logging(values)
    settings = _settings(values)
    try:
        run_until_signal(lambda shutdown: run_adapter(settings, open_channel, shutdown))
    except NoAccessError as error:
        raise _AccessProblem(str(error)) from None
    except AdapterError as error:
        raise click.ClickException(str(error)) from None


def run_together(
    values: dict[str, Any],
    for_core: Sequence[str],
    for_adapter: Sequence[str],
    listen: str,
    for_controllers: Sequence[str] | None = None,
) -> int:
    """Runs a core, its adapter and optionally controllers; returns the exit code.

    Without an address the core listens on a temporary socket. ``values`` are the flags of the
    adapter, which are checked before anything is started.
    """
    _set_up_logging(values)
    _settings(values)
    with TemporaryDirectory(prefix="pumice-") as folder:
        address = listen or f"unix:{folder}/core.sock"
        core = ("--log-level", values["log_level"], *for_core)
        grace = values["drain_timeout"] + _AFTER_DRAIN_SECONDS

        async def work(_: Shutdown) -> int:
            return await supervise(
                address, core, for_adapter, SystemClock(), grace, for_controllers
            )

        return run_until_signal(work) or 0


def _settings(values: dict[str, Any]) -> AdapterSettings:
    try:
        return settings_from(values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _set_up_logging(values: dict[str, Any]) -> None:
    level = log_level(values)
    if values["shadow"] and level != "debug":
        # A shadow never applies decisions, and its report contains them.
        for name in ("apply", "resync"):
            logging.getLogger(f"pumice.adapters.runtime.{name}").setLevel(logging.ERROR)
    configure_logging(level)

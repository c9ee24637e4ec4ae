"""``pumice core``: runs the scheduling service as a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pumice.logs import configure_logging
from pumice.server.addresses import DEFAULT_ADDRESS

F = TypeVar("F", bound=Callable[..., Any])
_BAD_INPUT = 2
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class CoreProblem(click.ClickException):
    """A core cannot be started."""

    exit_code = _BAD_INPUT


_CORE_OPTIONS = (
    click.option(
        "--record",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder for recordings of all clusters; a name that ends in .pumice is one file.",
    ),
    click.option(
        "--record-mib",
        default=256,
        show_default=True,
        type=click.IntRange(1),
        help="Size at which a recording is closed and the next one begins.",
    ),
    click.option(
        "--record-minutes",
        default=60.0,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        help="Age at which a recording is closed and the next one begins.",
    ),
    click.option(
        "--record-keep",
        default=0,
        type=click.IntRange(0),
        help="Number of recordings of a cluster to keep; 0: all.",
    ),
    click.option(
        "--replica-at-start",
        is_flag=True,
        help="Start of the replica process, which answers Schedule and Explain, with its "
        "cluster; by default it starts at the first request.",
    ),
    click.option(
        "--replica-idle-minutes",
        default=10.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Time without requests after which a replica process ends; 0: never.",
    ),
    click.option(
        "--run-times",
        type=click.Path(exists=True, path_type=Path),
        help="Recording, or folder of recordings, from which run times of jobs are learned for "
        "estimates of starts, in addition to those of this core's clusters.",
    ),
    click.option(
        "--metrics-address",
        default="",
        metavar="HOST:PORT",
        help="Address of /metrics, /livez and /readyz; port 0: any free port.",
    ),
)


def keeping_options(command: F) -> F:
    """Adds the options of all commands that start a core: recordings, replicas and metrics."""
    for option in reversed(_CORE_OPTIONS):
        command = option(command)
    return command


@click.command("core")
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on: HOST:PORT or unix:/path/to/socket; port 0: any free port.",
)
@click.option("--tls-cert", type=_FILE, help="PEM file with the certificate of the core.")
@click.option("--tls-key", type=_FILE, help="PEM file with the key of the certificate.")
@click.option(
    "--tls-client-ca",
    type=_FILE,
    help="PEM file with the CA of the certificates of adapters and frontends.",
)
@click.option(
    "--access", type=_FILE, help="YAML file with bearer tokens and certificates and their roles."
)
@click.option("--insecure", is_flag=True, help="Permission to serve other machines without TLS.")
@keeping_options
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least severe level that is logged.",
)
def core_command(log_level: str, **asked: Any) -> None:
    """Runs a core. Adapters stream clusters to it, and it returns decisions.

    A core stores nothing on disk except recordings, and can be restarted at any time. SIGTERM stops
    it gracefully.
    """
    # Imported here, so that commands which only use the options above do not load the engine.
    from pumice.core.errors import InputError  # noqa: PLC0415
    from pumice.recordings import RecordingError  # noqa: PLC0415
    from pumice.server.process import run_core  # noqa: PLC0415

    configure_logging(log_level)
    _check_certificates(asked["tls_cert"], asked["tls_key"], asked["tls_client_ca"])
    if asked["record_keep"] and asked["record"] is None:
        raise CoreProblem("--record-keep needs --record")
    try:
        run_core(click.echo, **asked)
    except (InputError, RecordingError) as error:
        raise CoreProblem(str(error)) from error


def _check_certificates(certificate: Path | None, key: Path | None, authority: Path | None) -> None:
    if (certificate or key or authority) and not (certificate and key):
        raise CoreProblem(
            "--tls-cert and --tls-key are needed together; --tls-client-ca needs both"
        )

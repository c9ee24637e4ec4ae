"""``pumice core``: the scheduling service as a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pumice.server.addresses import DEFAULT_ADDRESS
from pumice.server.logs import configure_logging

F = TypeVar("F", bound=Callable[..., Any])
_BAD_INPUT = 2
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class CoreProblem(click.ClickException):
    """Why a core cannot be started, in a line."""

    exit_code = _BAD_INPUT


_KEEPING = (
    click.option(
        "--record",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Records every cluster into this folder; a name that ends in .pumice is one file.",
    ),
    click.option(
        "--record-mib",
        default=256,
        show_default=True,
        type=click.IntRange(1),
        help="A recording of this size is closed, and another one begun.",
    ),
    click.option(
        "--record-minutes",
        default=60.0,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        help="A recording of this age is closed, and another one begun.",
    ),
    click.option(
        "--record-keep",
        default=0,
        type=click.IntRange(0),
        help="Keeps so many recordings of a cluster, and deletes older ones. Default: all.",
    ),
    click.option(
        "--follow-at-once",
        is_flag=True,
        help="Starts the process that answers 'what if' and 'why' with the cluster, not when first asked.",
    ),
    click.option(
        "--follower-idle-minutes",
        default=10.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Such a process, started when asked, ends when unused for so long. 0: never.",
    ),
    click.option(
        "--metrics-address",
        default="",
        metavar="HOST:PORT",
        help="A page of the core's figures for Prometheus.",
    ),
)


def keeping_options(command: F) -> F:
    """What a core keeps beside its clusters, wherever it listens and whoever started it."""
    for option in reversed(_KEEPING):
        command = option(command)
    return command


@click.command("core")
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="ADDRESS",
    help="HOST:PORT or unix:/path/to/socket. Port 0: any free one.",
)
@click.option("--tls-cert", type=_FILE, help="The core's certificate, PEM.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate, PEM.")
@click.option(
    "--tls-client-ca", type=_FILE, help="Who signs the certificates of adapters and frontends, PEM."
)
@click.option("--access", type=_FILE, help="Bearer tokens and certificates with their roles, YAML.")
@click.option("--insecure", is_flag=True, help="Lets others than this machine in, unprotected.")
@keeping_options
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def core_command(log_level: str, **asked: Any) -> None:
    """Runs a core: adapters stream clusters to it, it answers with decisions.

    It keeps nothing on disk but recordings, and can be restarted at any moment. SIGTERM ends it
    cleanly.
    """
    # Only here: others take the declarations above, and need not wait for an engine to be loaded.
    from pumice.core.errors import InputError  # noqa: PLC0415
    from pumice.recordings import RecordingError  # noqa: PLC0415
    from pumice.server.process import run_core  # noqa: PLC0415

    configure_logging(log_level)
    _check_certificates(asked["tls_cert"], asked["tls_key"], asked["tls_client_ca"])
    if asked["record_keep"] and asked["record"] is None:
        raise CoreProblem("--record-keep needs --record; nothing is recorded without it")
    try:
        run_core(click.echo, **asked)
    except (InputError, RecordingError) as error:
        raise CoreProblem(str(error)) from error


def _check_certificates(certificate: Path | None, key: Path | None, authority: Path | None) -> None:
    if (certificate or key or authority) and not (certificate and key):
        raise CoreProblem("--tls-cert and --tls-key go together; give both")

"""``pumice core``: the scheduling service as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from pathlib import Path

import click

from pumice.core.errors import InputError
from pumice.recordings import RecordingError
from pumice.server.addresses import DEFAULT_ADDRESS
from pumice.server.recording.files import RecordingOptions
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.surroundings import FollowerOptions, Surroundings
from pumice.server.tls import TlsFiles

_BAD_INPUT = 2
_IDLE_SECONDS = 30.0
_MINUTE_NS = 60 * 1_000_000_000
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
log = logging.getLogger("pumice.server")


class CoreProblem(click.ClickException):
    """Why a core cannot be started, in a line."""

    exit_code = _BAD_INPUT


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
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Records every cluster into this folder; a name that ends in .pumice is one file.",
)
@click.option(
    "--record-mib",
    default=256,
    show_default=True,
    type=click.IntRange(1),
    help="A recording of this size is closed, and another one begun.",
)
@click.option(
    "--record-minutes",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="A recording of this age is closed, and another one begun.",
)
@click.option(
    "--record-keep",
    default=0,
    type=click.IntRange(0),
    help="Keeps so many recordings of a cluster, and deletes older ones. Default: all.",
)
@click.option(
    "--follow-at-once",
    is_flag=True,
    help="Starts the process that answers 'what if' and 'why' with the cluster, not when first asked.",
)
@click.option(
    "--follower-idle-minutes",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Such a process, started when asked, ends when unused for so long. 0: never.",
)
@click.option("--metrics-address", default="", metavar="HOST:PORT", help="A page for Prometheus.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def core_command(
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    access: Path | None,
    insecure: bool,
    record: Path | None,
    record_mib: int,
    record_minutes: float,
    record_keep: int,
    follow_at_once: bool,
    follower_idle_minutes: float,
    metrics_address: str,
    log_level: str,
) -> None:
    """Runs a core: adapters stream clusters to it, it answers with decisions.

    It keeps nothing on disk but recordings, and can be restarted at any moment. SIGTERM ends it
    cleanly.
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    tls = _tls_files(tls_cert, tls_key, tls_client_ca)
    recording = None
    if record is not None:
        longest_ns = int(record_minutes * _MINUTE_NS)
        recording = RecordingOptions(record, record_mib * 2**20, longest_ns, record_keep)
    followers = FollowerOptions(follow_at_once, int(follower_idle_minutes * _MINUTE_NS))
    around = Surroundings(recording=recording, followers=followers)
    around.garbage.take_over()
    options = ServerOptions(listen, tls, insecure, metrics_address, around, access)
    try:
        if recording is not None:
            recording.check()
        asyncio.run(_run(options))
    except (InputError, RecordingError) as error:
        raise CoreProblem(str(error)) from error


def _tls_files(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> TlsFiles | None:
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise CoreProblem("--tls-cert and --tls-key go together; give both")
    return TlsFiles(certificate, key, authority)


async def _run(options: ServerOptions) -> None:
    server = CoreServer(options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    address = await server.start()
    # Whoever starts a core with port 0 reads the port from this line.
    click.echo(f"pumice core listens on {address}")
    while not stopping.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _IDLE_SECONDS)
        options.around.garbage.idle()
    log.info("stopping")
    await server.stop()

"""A core as a process: put together from what was asked for, and run until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pumice.server.recording.files import RecordingOptions
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.surroundings import FollowerOptions, Surroundings
from pumice.server.tls import TlsFiles

_IDLE_SECONDS = 30.0
_MIB = 2**20
_MINUTE_NS = 60 * 1_000_000_000
log = logging.getLogger("pumice.server")


def run_core(
    say: Callable[[str], None],
    *,
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
) -> None:
    """Takes the options of the command, each by its name. Raises InputError and RecordingError."""
    recording = None
    if record is not None:
        longest_ns = int(record_minutes * _MINUTE_NS)
        recording = RecordingOptions(record, record_mib * _MIB, longest_ns, record_keep)
        recording.check()
    followers = FollowerOptions(follow_at_once, int(follower_idle_minutes * _MINUTE_NS))
    around = Surroundings(recording=recording, followers=followers)
    around.garbage.take_over()
    tls = None
    if tls_cert is not None and tls_key is not None:
        tls = TlsFiles(tls_cert, tls_key, tls_client_ca)
    options = ServerOptions(listen, tls, insecure, metrics_address, around, access)
    asyncio.run(_run(options, say))


async def _run(options: ServerOptions, say: Callable[[str], None]) -> None:
    server = CoreServer(options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    address = await server.start()
    # Whoever starts a core with port 0 reads the port from this line.
    say(f"pumice core listens on {address}")
    if server.http_address:
        say(f"metrics and probes on http://{server.http_address}")
    while not stopping.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _IDLE_SECONDS)
        options.around.garbage.idle()
    log.info("stopping")
    await server.stop()

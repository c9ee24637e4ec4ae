"""Runs a core as a process, until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pumice.server.core_environment import CoreEnvironment, ReplicaOptions
from pumice.server.estimating.learning import learn_path
from pumice.server.recording.files import RecordingOptions
from pumice.server.server import CoreServer, ServerOptions
from pumice.server.tls import TlsFiles

_IDLE_COLLECTION_SECONDS = 30.0
_MIB = 2**20
_MINUTE_NS = 60 * 1_000_000_000
log = logging.getLogger("pumice.server")


def run_core(
    echo: Callable[[str], None],
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
    replica_at_start: bool,
    replica_idle_minutes: float,
    run_times: Path | None,
    metrics_address: str,
) -> None:
    """Runs a core with the options of the command. Raises InputError and RecordingError."""
    recording = None
    if record is not None:
        max_age_ns = int(record_minutes * _MINUTE_NS)
        recording = RecordingOptions(record, record_mib * _MIB, max_age_ns, record_keep)
        recording.check()
    replicas = ReplicaOptions(replica_at_start, int(replica_idle_minutes * _MINUTE_NS))
    env = CoreEnvironment(recording=recording, replicas=replicas)
    env.garbage.take_over()
    tls = None
    if tls_cert is not None and tls_key is not None:
        tls = TlsFiles(tls_cert, tls_key, tls_client_ca)
    options = ServerOptions(listen, tls, insecure, metrics_address, env, access)
    if run_times is not None:
        # This may take long, so it runs on a separate thread.
        learning = (env.run_times, run_times)
        threading.Thread(target=learn_path, args=learning, name="run-times", daemon=True).start()
    asyncio.run(_run(options, echo))


async def _run(options: ServerOptions, echo: Callable[[str], None]) -> None:
    server = CoreServer(options)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    address = await server.start()
    # With port 0, this line is the only place that shows the port.
    echo(f"pumice core listens on {address}")
    if server.http_address:
        echo(f"metrics and probes on http://{server.http_address}")
    while not stopping.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _IDLE_COLLECTION_SECONDS)
        options.env.garbage.collect_idle()
    log.info("stopping")
    await server.stop()

"""`pumice adapter replay`: streams a recording into a live core."""

import asyncio
import json
from pathlib import Path

import click

from pumice.adapters.core_options import core_options
from pumice.adapters.replay.world import ReplayWorld
from pumice.adapters.runtime.clock import Backoff
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.errors import AdapterError
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.shutdown import run_until_signal
from pumice.logs import configure_logging
from pumice.recordings import Recording, RecordingError

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_RECONNECT = Backoff(0.05, 0.5)
_POLL_SECONDS = 0.02


@click.command("replay")
@click.argument("recording", metavar="REC", type=_FILE)
@core_options
@click.option("--cluster", default="", help="Name of the cluster; default: the recorded name.")
@click.option(
    "--adapter-id", default="", help="Name of this adapter; default: that of the cluster."
)
@click.option(
    "--speed",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Recorded seconds in one second.",
)
@click.option(
    "--scheduler-conf", type=_FILE, help="Scheduler configuration; default: the recorded one."
)
@click.option("--json", "as_json", is_flag=True, help="Final report as JSON.")
@click.option("--verbose", is_flag=True, help="Log messages of level info.")
def replay_command(
    recording: Path,
    open_channel: ChannelFactory,
    cluster: str,
    adapter_id: str,
    speed: float,
    scheduler_conf: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Streams a recording into a core, at the recorded speed or another.

    Objects change as they did in the recording. Decisions of the core are confirmed and have no
    effect.
    """
    configure_logging("info" if verbose else "error")
    text = scheduler_conf.read_text(encoding="utf-8") if scheduler_conf else None
    try:
        with Recording(recording) as held:
            name = cluster or held.header.cluster
            options = RuntimeOptions(name, adapter_id or name, reconnect=_RECONNECT)
            world = ReplayWorld(held, speed, text)
            if not run_until_signal(lambda _: _run(world, open_channel, options)):
                click.echo("interrupted", err=True)
            ending = held.ending
    except RecordingError as error:
        raise click.UsageError(str(error)) from None
    except AdapterError as error:
        raise click.ClickException(str(error)) from None
    if ending is not None:
        click.echo(f"{recording}: {ending}", err=True)
    calls = world.calls
    counts = {"changes": world.changes, "binds": calls.binds, "evictions": calls.evictions}
    if as_json:
        click.echo(json.dumps(counts))
    else:
        click.echo(", ".join(f"{number} {word}" for word, number in counts.items()))


async def _run(world: ReplayWorld, open_channel: ChannelFactory, options: RuntimeOptions) -> bool:
    """Runs until the end of the recording; returns True."""
    world.is_served = asyncio.Event()
    runtime = AdapterRuntime(world, open_channel, options)
    served = asyncio.create_task(_set_when_served(runtime, world.is_served))
    try:
        await runtime.run()
    finally:
        served.cancel()
    return True


async def _set_when_served(runtime: AdapterRuntime, is_served: asyncio.Event) -> None:
    """Sets the event when a core serves the adapter."""
    while not runtime.is_served:
        await asyncio.sleep(_POLL_SECONDS)
    is_served.set()

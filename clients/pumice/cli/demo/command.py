"""``pumice demo``: puts the parts together, shows them, and sums up."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click
from rich.console import RenderableType
from rich.live import Live

from pumice.cli.demo.children import Child
from pumice.cli.demo.feed import Feed, Picture
from pumice.cli.demo.view import plain_line, render
from pumice.cli.terminal import console, json_option, say_json
from pumice.client.inspection import InspectionClient

# Simulated seconds in one: jobs of a minute pass in a few seconds.
_SPEED = 4.0
# The demo ends by itself; what is not done by then is not waited for.
_LONGEST_SECONDS = 28.0
_LOOK_SECONDS = 0.25
_LINE_SECONDS = 1.0


@click.command("demo")
@click.option("--seed", default=1, show_default=True, help="Decides the whole cluster.")
@click.option("--nodes", default=12, show_default=True, type=click.IntRange(1, 200))
@click.option("--jobs", default=40, show_default=True, type=click.IntRange(1, 500))
@click.option("--seconds", default=18.0, show_default=True, type=click.FloatRange(3, 25))
@click.option("--trouble", multiple=True, help="What goes wrong, as for the simulated adapter.")
@json_option
def demo_command(
    seed: int, nodes: int, jobs: int, seconds: float, trouble: tuple[str, ...], as_json: bool
) -> None:
    """Runs a core and a simulated cluster as two processes and shows what they do.

    Either process may be killed while it runs: it is started again, and every gang still ends
    whole. Exits with 0 when that is so.
    """
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as folder:
        socket = f"unix:{folder}/core.sock"
        core = Child("core", ["core", "--listen", socket, "--log-level", "warning"], Path(folder))
        world = ["--core", socket, "--cluster", "demo", "--json"]
        world += ["--seed", str(seed), "--nodes", str(nodes), "--jobs", str(jobs)]
        world += ["--duration", str(seconds * _SPEED), "--speed", str(_SPEED)]
        for name in trouble:
            world += ["--trouble", name]
        adapter = Child("adapter", ["adapter", "simulated", *world], Path(folder))
        demo = Demo(core, adapter, InspectionClient(socket), seconds)
        demo.run(quiet=as_json)
        demo.conclude(as_json=as_json)


class Demo:
    """One run of the demo."""

    def __init__(
        self, core: Child, adapter: Child, client: InspectionClient, seconds: float
    ) -> None:
        self._core = core
        self._adapter = adapter
        self._client = client
        self._seconds = seconds
        self._picture = Picture()
        self._feed = Feed(client, self._picture)
        self._started = time.monotonic()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def run(self, *, quiet: bool) -> None:
        """Until the simulated cluster has ended, or somebody wants it to."""
        # A request to end is an interrupt too, so that no process is left behind.
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            self._core.start()
            self._adapter.start()
            if quiet:
                self._watch(lambda: None)
            elif (screen := console()).is_terminal:
                with Live(console=screen, refresh_per_second=8, transient=True) as live:
                    self._watch(lambda: live.update(self._render()))
            else:
                self._watch(self._plain_lines())
        except KeyboardInterrupt:
            self._picture.notes.append("interrupted")
            raise click.exceptions.Exit(130) from None
        finally:
            self._adapter.end()
            self._feed.look()
            self._client.close()
            self._core.end()
            signal.signal(signal.SIGTERM, previous)

    def _render(self) -> RenderableType:
        return render(self._picture, self._elapsed(), self._seconds)

    def _plain_lines(self) -> Callable[[], None]:
        last = -_LINE_SECONDS

        def show() -> None:
            nonlocal last
            if self._elapsed() - last >= _LINE_SECONDS:
                last = self._elapsed()
                click.echo(plain_line(self._picture, last))

        return show

    def _watch(self, show: Callable[[], None]) -> None:
        while self._adapter.code() != 0 and self._elapsed() < _LONGEST_SECONDS:
            for child in (self._core, self._adapter):
                if child.is_hopeless():
                    raise click.ClickException(f"{child.name} keeps dying: {child.complained()}")
                note = child.revive() if child.code() != 0 or child is self._core else None
                if note is not None:
                    self._picture.notes.append(note)
            self._feed.look()
            show()
            time.sleep(_LOOK_SECONDS)

    def conclude(self, *, as_json: bool) -> None:
        report = _last_json(self._adapter.said())
        if report is None:
            raise click.ClickException(f"the cluster did not end: {self._adapter.complained()}")
        picture = self._picture
        figures = {
            "pods_bound": report["pods_bound"],
            "gangs_whole": report["gangs_whole"],
            "gangs_short": report["gangs_short"],
            "jobs": report["jobs"],
            "jobs_done": report["jobs_done"],
            "jobs_waiting": report["jobs_waiting"],
            "evictions": report["pods_evicted"],
            "sessions": picture.session_count,
            "session_median_ms": round(picture.median_milliseconds(), 2),
            "session_slowest_ms": round(picture.slowest_milliseconds(), 2),
            "api_calls": report["calls"],
            "restarts": {child.name: child.restarts for child in (self._core, self._adapter)},
            "seconds": round(self._elapsed(), 1),
        }
        if as_json:
            say_json(figures)
        else:
            _say(figures)
        if figures["gangs_short"]:
            raise click.exceptions.Exit(1)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _last_json(text: str) -> dict[str, object] | None:
    """The last object in what the adapter printed; a killed one may have left half a line."""
    start = text.rfind("\n{") + 1 if "\n{" in text else text.find("{")
    try:
        found = json.loads(text[start:]) if start >= 0 else None
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _say(figures: dict[str, object]) -> None:
    calls = figures["api_calls"]
    assert isinstance(calls, dict)
    lines = (
        ("pods", f"{figures['pods_bound']} bound, {figures['evictions']} evicted"),
        (
            "gangs",
            f"{figures['gangs_whole']} whole, {figures['gangs_short']} short, "
            f"{figures['jobs_waiting']} waiting; {figures['jobs_done']} of {figures['jobs']} jobs "
            "done",
        ),
        (
            "sessions",
            f"{figures['sessions']}, median {figures['session_median_ms']} ms, "
            f"slowest {figures['session_slowest_ms']} ms",
        ),
        ("API calls", ", ".join(f"{count} {verb}" for verb, count in sorted(calls.items()))),
        ("time", f"{figures['seconds']} s"),
    )
    for name, text in lines:
        click.echo(f"{name:<10}{text}")

"""One run of the demo: both processes, from their start to their end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click
from rich.live import Live

from pumice.cli.demo.processes import ChildProcess
from pumice.cli.demo.state import DemoState, Poller
from pumice.cli.demo.view import plain_line, render
from pumice.cli.terminal import console
from pumice.client import Client

# Time after which the demo ends a cluster that still runs.
_LONGEST_SECONDS = 27.5
_POLL_SECONDS = 0.2
_LINE_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoRun:
    """Starts, watches and ends a core and an adapter."""

    def __init__(
        self, core: ChildProcess, adapter: ChildProcess, client: Client, seconds: float | None
    ) -> None:
        """``seconds`` is the planned duration; None runs the demo until it is interrupted."""
        self.core, self.adapter = core, adapter
        self.state = DemoState()
        self.is_interrupted = False
        self._client = client
        self._seconds = seconds
        self._poller = Poller(client, self.state)
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def address(self) -> str:
        return self._client.settings.address

    def run(self, *, quiet: bool) -> None:
        """Returns when the simulated cluster has ended or a signal arrived."""
        with self._signals_noted():
            try:
                self.core.start()
                self.adapter.start()
                self._show(quiet=quiet)
            finally:
                self.adapter.end()
                self._poll()
                self._client.close()
                self.core.end()

    @contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Records signals instead of raising: an exception could leave a process running."""

        def note(_signal: int, _frame: FrameType | None) -> None:
            self.is_interrupted = True

        before = {number: signal.signal(number, note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _show(self, *, quiet: bool) -> None:
        screen = console()
        if quiet:
            self._watch(lambda _is_last: None)
        elif screen.is_terminal:
            with Live(console=screen, screen=True, auto_refresh=False) as live:
                self._watch(
                    lambda _is_last: live.update(
                        render(self.state, self.elapsed, self._seconds, self.address, screen.size),
                        refresh=True,
                    )
                )
        else:
            for line in query_lines(self.address):
                click.echo(line)
            self._watch(self._plain_lines())

    def _plain_lines(self) -> Callable[[bool], None]:
        next_line_time = 0.0
        note_count = 0

        def show(is_last: bool) -> None:
            nonlocal next_line_time, note_count
            for note in self.state.notes[note_count:]:
                click.echo(f"{self.elapsed:5.1f} s  {note}")
            note_count = len(self.state.notes)
            if is_last or self.elapsed >= next_line_time:
                click.echo(plain_line(self.state, self.elapsed))
                next_line_time = self.elapsed + _LINE_SECONDS

        return show

    def _watch(self, show: Callable[[bool], None]) -> None:
        """Polls and calls ``show(False)`` until the demo is over, then ``show(True)`` once."""
        while not self._is_over():
            self._restart_dead()
            self._poll()
            show(False)
            time.sleep(_POLL_SECONDS)
        self._poll()
        show(True)

    def _poll(self) -> None:
        self._poller.poll()
        report = self.adapter.last_report()
        if report is not None:
            self.state.bound, self.state.evicted = report["pods_bound"], report["pods_evicted"]

    def _is_over(self) -> bool:
        is_late = self._seconds is not None and self.elapsed >= _LONGEST_SECONDS
        return self.is_interrupted or is_late or self.adapter.exit_code == 0

    def _restart_dead(self) -> None:
        for process in (self.core, self.adapter):
            if process.is_beyond_restarts():
                error = process.last_error()
                raise click.ClickException(f"{process.name} ended too often: {error}")
            # An adapter exits with 0 when its cluster ends.
            if process is self.adapter and process.exit_code == 0:
                continue
            note = process.restart_if_dead()
            if note is not None:
                self.state.notes.append(note)
                self._poller.process_restarted()


def query_lines(address: str) -> list[str]:
    """Commands for another terminal."""
    return [
        "query it from another terminal while it runs:",
        f"  pumice top --core {address}",
        f"  pumice show jobs --core {address}",
        f"  pumice explain job simulated/JOB --core {address}",
    ]

"""One run of the demo: both processes, from their start to their end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click
from rich.live import Live

from pumice.cli.demo.children import Child
from pumice.cli.demo.feed import Feed, Picture
from pumice.cli.demo.view import plain_line, render
from pumice.cli.terminal import console
from pumice.client.inspection import InspectionClient

# A cluster that is still there then is asked to end, whatever it is waiting for.
_LONGEST_SECONDS = 27.5
_LOOK_SECONDS = 0.2
_LINE_SECONDS = 1.0
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Play:
    """Starts, watches and ends a core and an adapter."""

    def __init__(
        self, core: Child, adapter: Child, client: InspectionClient, seconds: float
    ) -> None:
        self.core, self.adapter = core, adapter
        self.picture = Picture()
        self.is_interrupted = False
        self.complaint = ""
        self._client = client
        self._seconds = seconds
        self._feed = Feed(client, self.picture)
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def run(self, *, quiet: bool) -> None:
        """Until the simulated cluster has ended, or somebody wants it to."""
        with self._interruptible():
            try:
                self.core.start()
                self.adapter.start()
                self._show(quiet=quiet)
            finally:
                self.adapter.end()
                self._feed.look()
                self._client.close()
                self.core.end()
                self.complaint = self.adapter.complained()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """A wish to end is noted, not raised: in the wrong moment it would leave a process."""

        def note(_signal: int, _frame: FrameType | None) -> None:
            self.is_interrupted = True

        before = {number: signal.signal(number, note) for number in _ENDINGS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _show(self, *, quiet: bool) -> None:
        screen = console()
        if quiet:
            self._watch(lambda: None)
        elif screen.is_terminal:
            with Live(console=screen, screen=True, auto_refresh=False) as live:
                self._watch(
                    lambda: live.update(
                        render(self.picture, self.elapsed, self._seconds, screen.size),
                        refresh=True,
                    )
                )
        else:
            self._watch(self._plain_lines())

    def _plain_lines(self) -> Callable[[], None]:
        due = 0.0
        told = 0

        def show() -> None:
            nonlocal due, told
            for note in self.picture.notes[told:]:
                click.echo(f"{self.elapsed:5.1f} s  {note}")
            told = len(self.picture.notes)
            if self.elapsed >= due:
                click.echo(plain_line(self.picture, self.elapsed))
                due = self.elapsed + _LINE_SECONDS

        return show

    def _watch(self, show: Callable[[], None]) -> None:
        while self._goes_on():
            self._revive()
            self._feed.look()
            show()
            time.sleep(_LOOK_SECONDS)

    def _goes_on(self) -> bool:
        ended = self.adapter.code() == 0 or self.elapsed >= _LONGEST_SECONDS
        return not ended and not self.is_interrupted

    def _revive(self) -> None:
        for child in (self.core, self.adapter):
            if child.is_hopeless():
                raise click.ClickException(f"{child.name} keeps dying: {child.complained()}")
            # The adapter ends well when the cluster does.
            if child is self.adapter and child.code() == 0:
                continue
            note = child.revive()
            if note is not None:
                self.picture.notes.append(note)
                self._feed.core_may_be_new()

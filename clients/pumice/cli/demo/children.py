"""The demo's two processes: started, started again when they die, and ended with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# How long a process may take to end when asked to.
_GRACE_SECONDS = 5.0
# A process that dies more often than this has a reason that starting it again does not cure.
_MOST_RESTARTS = 10


@dataclass(slots=True)
class Child:
    """One ``pumice`` process. What it says goes to files beside the socket."""

    name: str
    arguments: Sequence[str]
    folder: Path
    restarts: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _files: list[IO[bytes]] = field(default_factory=list, init=False)

    def start(self) -> None:
        out = (self.folder / f"{self.name}.out").open("ab")
        err = (self.folder / f"{self.name}.err").open("ab")
        self._files += [out, err]
        # A session of its own: Ctrl-C reaches the demo alone, which then ends its children.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pumice.cli", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    def revive(self) -> str | None:
        """Starts it again if something killed it; says so, or None when it is alive."""
        code = self.code()
        if code is None or self.restarts >= _MOST_RESTARTS:
            return None
        self.restarts += 1
        self.start()
        return f"{self.name} died ({_cause(code)}) and was started again"

    def is_hopeless(self) -> bool:
        return self.code() not in (None, 0) and self.restarts >= _MOST_RESTARTS

    def end(self) -> None:
        """Asks it to end, waits, and insists."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for file in self._files:
            file.close()
        self._files.clear()

    def said(self) -> str:
        return (self.folder / f"{self.name}.out").read_text(encoding="utf-8", errors="replace")

    def complained(self) -> str:
        """Its last line on stderr, for an error message."""
        text = (self.folder / f"{self.name}.err").read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

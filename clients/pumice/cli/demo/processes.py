"""Child processes of the demo, which are restarted when they die and end with the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# Time for a process to end after SIGTERM.
_GRACE_SECONDS = 5.0
# A process that dies more often has a problem that a restart does not fix.
_MOST_RESTARTS = 10
# Requests a SIGTERM from Linux for the end of the parent, even by SIGKILL; then executes the command.
# The demo has threads, so this cannot happen between fork and exec.
_PARENT_DEATH_SIGNAL = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
# The size of the end of the output that contains the last report.
_TAIL_BYTES = 16 * 1024


@dataclass(slots=True)
class ChildProcess:
    """A ``pumice`` process, with its output in files."""

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
        # In a separate session the process does not get Ctrl-C; the demo ends it.
        self._process = subprocess.Popen(
            _ending_with_this_process([sys.executable, "-m", "pumice.cli", *self.arguments]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return None if self._process is None else self._process.poll()

    def restart_if_dead(self) -> str | None:
        """Restarts a dead process and returns a message; None while the process runs."""
        code = self.exit_code
        if code is None or self.restarts >= _MOST_RESTARTS:
            return None
        self.restarts += 1
        self.start()
        return f"{self.name} died ({_cause(code)}) and was restarted"

    def is_beyond_restarts(self) -> bool:
        return self.exit_code not in (None, 0) and self.restarts >= _MOST_RESTARTS

    def end(self) -> None:
        """Sends SIGTERM, and SIGKILL after the grace period."""
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

    def last_report(self) -> dict[str, Any] | None:
        """The last JSON object in the output; a killed process can leave an incomplete line."""
        path = self.folder / f"{self.name}.out"
        if not path.exists():
            return None
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            return last_json(file.read().decode("utf-8", errors="replace"))

    def last_error(self) -> str:
        """The last line on stderr."""
        text = (self.folder / f"{self.name}.err").read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()
        return lines[-1] if lines else "no output on stderr"


def last_json(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _ending_with_this_process(command: list[str]) -> list[str]:
    """Wraps the command so that it ends even if this process is killed with SIGKILL."""
    if not sys.platform.startswith("linux"):
        return command
    return [sys.executable, "-S", "-c", _PARENT_DEATH_SIGNAL, str(os.getpid()), *command]

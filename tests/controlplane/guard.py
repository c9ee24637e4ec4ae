"""Processes that end with the process that started them, even when that one is killed."""

from __future__ import annotations

import atexit
import os
import subprocess
from pathlib import Path
from typing import IO, Any

# Reads "start PID" and "end PID"; at the end of its input it kills what was started and not ended.
# Its input ends when the process that writes to it ends, in whatever way.
_WATCHER = """
pids=
while read -r word pid; do
  others=
  for one in $pids; do [ "$one" = "$pid" ] || others="$others $one"; done
  pids=$others
  [ "$word" = end ] || pids="$pids $pid"
done
[ -z "$pids" ] || kill -9 $pids 2>/dev/null
"""


class Guard:
    """Starts processes, and has a watcher that kills them when this process is gone."""

    def __init__(self) -> None:
        self._watcher: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[Any]] = []
        self._owner = 0

    def start(
        self, command: list[str], log: IO[bytes], folder: Path | None = None
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        self.watch(process)
        return process

    def watch(self, process: subprocess.Popen[Any]) -> None:
        """Kills a process that somebody else started, when this process is gone."""
        self._forget_ended()
        self._started.append(process)
        self._tell(f"start {process.pid}")

    def close(self) -> None:
        """Kills what is left, at once."""
        if self._watcher is not None and self._owner == os.getpid():
            self._forget_ended()
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher.wait()
            for process in self._started:
                process.wait()
            self._watcher, self._started = None, []

    def _forget_ended(self) -> None:
        for process in [one for one in self._started if one.poll() is not None]:
            self._started.remove(process)
            self._tell(f"end {process.pid}")

    def _tell(self, line: str) -> None:
        if self._watcher is None:
            # In a session of its own: Ctrl-C in a terminal does not reach it.
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHER], stdin=subprocess.PIPE, start_new_session=True
            )
            self._owner = os.getpid()
            atexit.register(self.close)
        assert self._watcher.stdin is not None
        self._watcher.stdin.write(f"{line}\n".encode())
        self._watcher.stdin.flush()


GUARD = Guard()

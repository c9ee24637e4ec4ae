"""``pumice`` as real processes, found and killed as a person would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.guard import GUARD

# Only for a test that fails: a loaded machine is slow, but not that slow.
_LONGEST_SECONDS = 90.0


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pumice.cli", *map(str, arguments)]


def until(happened: Callable[[], Any], what: str) -> Any:
    """What it says when it says something; fails with what it was waiting for."""
    end = time.monotonic() + _LONGEST_SECONDS
    while not (found := happened()):
        assert time.monotonic() < end, f"still not so after {_LONGEST_SECONDS:g} s: {what}"
        time.sleep(0.05)
    return found


def children(parent: int) -> dict[str, int]:
    """The pumice processes that another one started: `core` or `adapter` to its id."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                after_name = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, ancestor = after_name.split()[:2]
            if int(ancestor) == parent and state != "Z" and "pumice.cli" in words:
                name = words[words.index("pumice.cli") + 1]
                # For a moment a child is still a copy of its parent.
                if name in ("core", "adapter"):
                    found[name] = int(folder.name)
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class RunningDemo:
    """A demo without a terminal: a line a second, then the summary."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self._out = folder / "demo.out"
        self._err = folder / "demo.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command("demo", *arguments), stdout=out, stderr=err, env=_environment(folder)
            )
        GUARD.watch(self.process)

    def output(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def errors(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def children(self) -> dict[str, int]:
        return children(self.process.pid)

    def both_children(self) -> dict[str, int]:
        def both() -> dict[str, int] | None:
            found = self.children()
            return found if len(found) == 2 else None

        found: dict[str, int] = until(both, "core and adapter run")
        return found

    def kill(self, name: str) -> int:
        """Kills a child as nothing can be caught; returns its id."""
        pid = self.both_children()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def ended(self) -> int:
        code: int = until(lambda: _code(self.process), "the demo ends") - 1
        return code

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = json.loads(self.output())
        return figures


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code and one, because 0 would say nothing."""
    code = process.poll()
    return None if code is None else code + 1


def _environment(folder: Path) -> dict[str, str]:
    """Its temporary files go where a test can see whether any were left."""
    return {**os.environ, "TMPDIR": str(folder)}


@contextmanager
def running_demo(folder: Path, *arguments: object) -> Iterator[RunningDemo]:
    demo = RunningDemo(folder, *arguments)
    try:
        yield demo
    finally:
        left = demo.children()
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait()
        for pid in left.values():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)

"""What the tests start ends with the tests, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.tree import REPOSITORY
from tests.controlplane.guard import Guard

_SECONDS = 30.0
_PARENT = """
import signal, sys, time
from pathlib import Path
from tests.controlplane.guard import GUARD
# A test run in the background of a shell ignores interrupts, and its children would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Path(sys.argv[1]).open("wb") as log:
    ended = GUARD.start(["/bin/true"], log)
    ended.wait()
    found = [GUARD.start(["/bin/sleep", "300"], log).pid for _ in range(2)]
print(*found, flush=True)
time.sleep(300)
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_end_with_whoever_started_them(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [is_alive(pid) for pid in pids] == [True, True]
        os.kill(parent.pid, how)
        end = time.monotonic() + _SECONDS
        while any(map(is_alive, pids)):
            assert time.monotonic() < end, f"still there after {how.name}: {pids}"
            time.sleep(0.05)


def test_what_ended_by_itself_is_not_killed_again(tmp_path: Path) -> None:
    guard = Guard()
    with (tmp_path / "log").open("wb") as log:
        first = guard.start(["/bin/true"], log)
        first.wait()
        second = guard.start(["/bin/sleep", "300"], log)
    assert second.poll() is None
    guard.close()
    assert (first.returncode, second.returncode) == (0, -signal.SIGKILL)

"""Children of `pumice run`: restarted when they end, and never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pumice.adapters.kubernetes.supervision import Child, _restart_delay
from pumice.adapters.runtime.clock import SystemClock
from pumice.adapters.runtime.shutdown import Shutdown


async def test_a_child_that_ends_is_started_again(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    script = (
        f"from pathlib import Path; marks = Path({str(marks)!r}); before = marks.exists();"
        "marks.write_text('xx' if before else 'x'); raise SystemExit(2 if before else 1)"
    )
    child = Child("child", (sys.executable, "-c", script), SystemClock())
    assert await child.run() == 2
    assert marks.read_text() == "xx"


async def test_a_child_is_asked_to_end() -> None:
    child = Child("child", (sys.executable, "-c", "import time; time.sleep(60)"), SystemClock())
    running = asyncio.create_task(child.run())
    while child._process is None:
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await child.stop(20)
    assert child._process.returncode == -signal.SIGTERM


class LeapingClock(SystemClock):
    """Each look at it is so many seconds after the last one; sleeping takes no time."""

    def __init__(self, seconds: float) -> None:
        self._now, self._step = 0.0, seconds
        self.sleeps: list[float] = []

    def now(self) -> float:
        self._now += self._step
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)


@pytest.mark.parametrize(
    ("ran_seconds", "delays"), [(60.0, [0.0, 0.0, 0.0]), (1.0, [0.5, 1.0, 2.0])]
)
async def test_a_child_that_ran_well_is_restarted_at_once(
    ran_seconds: float, delays: list[float]
) -> None:
    clock = LeapingClock(ran_seconds)
    child = Child("child", (sys.executable, "-c", "raise SystemExit(1)"), clock)
    running = asyncio.create_task(child.run())
    while len(clock.sleeps) < len(delays):
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await child.stop(20)
    assert clock.sleeps[: len(delays)] == delays


PARENT = """
import asyncio, sys
from pumice.adapters.kubernetes.supervision import Child
from pumice.adapters.runtime.clock import SystemClock
async def main():
    # One write, so that the lines of two children do not mix.
    script = r"import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)"
    children = [Child("child", (sys.executable, "-c", script), SystemClock()) for _ in range(2)]
    await asyncio.gather(*(child.run() for child in children))
asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_children_end_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [int(parent.stdout.readline()) for _ in range(2)]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        end = time.monotonic() + 20
        while any(map(is_running, children)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [pid for pid in children if is_running(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert not left


def test_a_first_request_is_graceful_and_a_second_one_is_not() -> None:
    done: list[str] = []
    shutdown = Shutdown()
    shutdown.offer(lambda: done.append("drain"))
    shutdown.request(lambda: done.append("cancel"))
    shutdown.request(lambda: done.append("cancel"))
    assert done == ["drain", "cancel"]


def test_the_delay_of_a_restart_is_limited() -> None:
    delays = [_restart_delay(failures) for failures in range(20)]
    assert delays == sorted(delays)
    assert delays[-1] == delays[-2] == 30.0

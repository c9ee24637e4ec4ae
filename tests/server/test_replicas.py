"""The processes that answer questions: they come when needed, and always end."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from pumice.server.core_environment import ReplicaOptions
from pumice.server.errors import TrialLostError
from pumice.server.whatif import frames
from pumice.server.whatif.replica_connection import ReplicaConnection
from pumice.server.whatif.replica_pool import ReplicaPool
from pumice.server.whatif.replica_process import ReplicaProcess
from pumice.v1 import scheduling_service_pb2_grpc
from tests.server.running import RunningCore, gang, node, queue, running_core
from tests.server.trials import binds, inline, live, schedule

T = TypeVar("T")
LARGE = [
    queue(),
    *(node(f"n{number}") for number in range(1000)),
    *(item for number in range(800) for item in gang(f"j{number}", 5)),
]


async def test_a_core_that_stops_leaves_no_process_behind(socket_folder: Any) -> None:
    async with running_core(socket_folder) as core:
        await core.served([queue(), node("n1")])
        await schedule(core, live("r1"))
        await schedule(core, inline("r2", queue()))
        processes = followers()
        assert len(processes) == 2
    assert not followers()


async def test_a_follower_that_dies_is_replaced(core: RunningCore) -> None:
    await core.served([queue(), node("n1")])
    await schedule(core, live("r1", *gang("job", 1)))
    (pid,) = followers()
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while True:
            with suppress(grpc.aio.AioRpcError):
                response = await schedule(core, live("r2", *gang("job", 1)))
                break
            await asyncio.sleep(0.05)
    assert binds(response) == {"job-0": "n1"}
    assert pid not in followers()


@pytest.mark.parametrize("goes_away", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13])
async def test_a_process_that_is_just_being_started_ends_as_well(
    steps: int, goes_away: bool
) -> None:
    """Whoever asked for it goes away, or the core stops meanwhile, at any moment of the start."""
    started = ReplicaPool(ReplicaOptions())
    asking = asyncio.create_task(started.inline())
    for _ in range(steps):
        await asyncio.sleep(0)
    if goes_away:
        asking.cancel()
    await started.stop()
    (answer,) = await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(answer, (ReplicaConnection, TrialLostError, asyncio.CancelledError))
    assert not followers()
    with pytest.raises(TrialLostError):
        await started.inline()


async def test_a_core_may_stop_while_a_cluster_gets_its_follower(socket_folder: Any) -> None:
    for steps in (0.0, 0.005, 0.02, 0.05):
        async with running_core(socket_folder) as core:
            await core.served([queue(), node("n1")])
            asking = asyncio.ensure_future(schedule(core, live("r1")))
            await asyncio.sleep(steps)
        await asyncio.gather(asking, return_exceptions=True)
        assert not followers()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.02)


async def test_a_follower_that_nobody_uses_ends_and_comes_back(socket_folder: Any) -> None:
    options = ReplicaOptions(idle_ns=200_000_000)
    async with running_core(socket_folder, replicas=options) as core:
        await core.served([queue(), node("n1")])
        await schedule(core, live("r1"))
        await schedule(core, inline("r2", queue()))
        await until(lambda: not followers())
        response = await schedule(core, live("r3", *gang("job", 1)))
        assert binds(response) == {"job-0": "n1"}
        assert followers()


async def test_a_follower_can_be_there_at_once_and_stays(socket_folder: Any) -> None:
    options = ReplicaOptions(at_start=True, idle_ns=100_000_000)
    async with running_core(socket_folder, replicas=options) as core:
        await core.served([queue(), node("n1")])
        await until(lambda: bool(followers()))
        (pid,) = followers()
        await schedule(core, inline("r1", queue()))
        # The other one is not used, and ends; this one is not used either.
        await until(lambda: followers() == [pid])
        # A new snapshot, a new follower.
        await core.served([queue(), node("n2")], incarnation="i2")
        core.clock.advance(2)
        await until(lambda: bool(followers()) and pid not in followers())


def test_followers_and_trials_end_with_a_core_that_is_killed(socket_folder: Path) -> None:
    address = f"unix:{socket_folder}/killed.sock"
    command = (sys.executable, "-m", "pumice.cli", "core", "--listen", address)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "listens" in process.stdout.readline()
            with grpc.insecure_channel(address) as channel:
                stub: Any = scheduling_service_pb2_grpc.SchedulingServiceStub(channel)
                stub.Schedule(inline("r1", queue()), wait_for_ready=True)
                (follower,) = followers(process.pid)
                # Far too much to be over soon.
                endless = stub.Schedule.future(inline("r2", *LARGE, max_sessions=1000))
                trials = wait_for(lambda: children(follower))
                os.kill(process.pid, signal.SIGKILL)
                endless.cancel()
        finally:
            process.kill()
    wait_for(lambda: not any(map(is_alive, (follower, *trials))))


def wait_for(found: Callable[[], T], seconds: float = 60) -> T:
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def children(parent: int) -> dict[int, bytes]:
    """The processes that one started, and their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                owner = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if int(owner) == parent:
                    found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


def followers(core: int = 0) -> list[int]:
    """The processes that a core, this one if none is named, started to follow clusters."""
    started = children(core or os.getpid())
    return [pid for pid, command in started.items() if b"whatif.replica_process" in command]


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "Z" not in (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2][:3]
    return False


def test_a_trial_that_is_cancelled_when_its_answer_arrives_ends_no_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are ready at one wake-up; the frame closes the pipe that the other event is about."""
    (source, writing), (reading, target) = os.pipe(), os.pipe()
    process = ReplicaProcess(source, target)
    process._forks.start(7, lambda: None, 30, 2**28)
    (fork,) = process._forks._forks.values()
    assert select.select([fork.pipe], [], [], 30)[0]
    os.write(writing, frames.pack(frames.CANCEL, 7))
    os.close(writing)
    ready = process._selector.select
    first = lambda _: sorted(ready(), key=lambda event: event[0].fd != source)  # noqa: E731
    monkeypatch.setattr(process._selector, "select", first)
    process.run()
    assert process._forks._forks == {}
    for descriptor in (source, reading, target):
        os.close(descriptor)

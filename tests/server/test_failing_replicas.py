"""Replicas that are killed, hang, or cannot be started: requests get a status, and nothing remains."""

import asyncio
import errno
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from pumice.server.core_environment import ReplicaOptions
from pumice.server.errors import TrialLostError, TrialTimeoutError
from pumice.server.whatif import replica_connection, replica_pool
from pumice.server.whatif.replica_connection import ReplicaConnection
from pumice.v1.scheduling_service_pb2 import ScheduleRequest
from tests.server.running import RunningCore, gang, node, queue, running_core
from tests.server.test_replicas import LARGE, children, followers, is_alive, until
from tests.server.trials import binds, inline, live, schedule


async def refusal(core: RunningCore, request: ScheduleRequest) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await schedule(core, request)
    code: grpc.StatusCode = refused.value.code()
    return code


def observer_count(core: RunningCore) -> int:
    (cluster,) = core.server._clusters.all()
    return len(cluster.served.observers._all)


async def test_a_replica_that_is_killed_takes_its_forks_with_it(core: RunningCore) -> None:
    """The fork is stopped, so neither it nor the pipes that it inherited end by themselves."""
    await core.served([queue(), node("n1")])
    await schedule(core, inline("r1", queue()))
    (replica,) = followers()
    asking = asyncio.ensure_future(
        refusal(core, inline("r2", *LARGE, max_sessions=1000, timeout={"seconds": 30}))
    )
    await until(lambda: bool(children(replica)))
    forks = children(replica)
    for pid in forks:
        os.kill(pid, signal.SIGSTOP)
    os.kill(replica, signal.SIGKILL)
    assert await asking is grpc.StatusCode.UNAVAILABLE
    await until(lambda: not any(map(is_alive, forks)))


async def test_a_replica_that_hangs_is_replaced(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_connection, "RESPONSE_SECONDS", 0.1)
    await core.served([queue(), node("n1")])
    await schedule(core, live("r1"))
    (hanging,) = followers()
    os.kill(hanging, signal.SIGSTOP)
    request = live("r2", timeout={"nanos": 100_000_000})
    assert await refusal(core, request) is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: not is_alive(hanging))
    response = await schedule(core, live("r3", *gang("job", 1)))
    assert binds(response) == {"job-0": "n1"}


async def test_a_trial_that_takes_too_long_ends_no_replica(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await core.served([queue(), node("n1")])
    await schedule(core, inline("r1", queue()))
    replicas = followers()
    request = inline("r2", *LARGE, max_sessions=1000, timeout={"nanos": 100_000_000})
    assert await refusal(core, request) is grpc.StatusCode.DEADLINE_EXCEEDED
    connection = core.server._frontends._replicas._inline
    assert connection is not None
    assert connection._checking is not None
    await connection._checking
    await schedule(core, inline("r3", queue()))
    assert followers() == replicas


async def test_a_cluster_is_not_observed_for_a_replica_that_died(core: RunningCore) -> None:
    await core.served([queue(), node("n1")])
    await until(lambda: observer_count(core) == 1)
    await schedule(core, live("r1"))
    assert observer_count(core) == 2
    (replica,) = followers()
    os.kill(replica, signal.SIGKILL)
    await until(lambda: observer_count(core) == 1)
    assert not core.server._frontends._replicas._by_cluster


async def test_a_replica_that_dies_does_not_start_again_at_once_by_itself(
    socket_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the memory does not suffice for a replica, sessions would be delayed for it for ever."""
    monkeypatch.setattr(replica_pool, "RESTART_SECONDS", 3600.0)
    options = ReplicaOptions(at_start=True)
    async with running_core(socket_folder, replicas=options) as core:
        adapter = await core.served([queue(), node("n1")])
        await until(lambda: bool(followers()))
        await schedule(core, live("r1"))
        (replica,) = followers()
        os.kill(replica, signal.SIGKILL)
        await until(lambda: not core.server._frontends._replicas._by_cluster)
        for number in (2, 3):
            await adapter.tell(*gang(f"job-{number}", 1))
            core.clock.advance(2)
            await core.session(number)
        assert not core.server._frontends._replicas._starting
        # A request does not wait.
        await schedule(core, live("r2"))
        assert followers()


async def test_a_replica_that_does_not_accept_its_state_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_connection, "_STATE_SECONDS", 0.2)
    monkeypatch.setattr(replica_connection, "_PROGRAM", "import time; time.sleep(3600)")
    ended: list[ReplicaConnection] = []
    connection = ReplicaConnection("c1", ended.append)
    connection.queue_frames()
    await connection.start()
    with pytest.raises(TrialTimeoutError):
        await connection.send_state({}, [b"x" * 100_000] * 100)
    assert connection._process is not None
    await connection._process.wait()
    assert ended == [connection]
    assert connection.has_failed
    await connection.stop()


async def test_changes_that_wait_for_a_replica_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_connection, "MAX_WAITING_BYTES", 10_000)
    monkeypatch.setattr(replica_connection, "_PROGRAM", "import time; time.sleep(3600)")
    connection = ReplicaConnection("c1")
    connection.queue_frames()
    await connection.start()
    sending = asyncio.ensure_future(connection.send_state({}, [b"x" * 100_000] * 100))
    for _ in range(20):
        connection.send("on_batch", b"x" * 1000, 0)
    assert connection.has_failed
    with pytest.raises(TrialLostError):
        await sending
    await connection.stop()


async def test_a_replica_that_cannot_be_started_is_a_status(
    core: RunningCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as busy:
        busy.setattr(asyncio, "create_subprocess_exec", refuse)
        with pytest.raises(grpc.aio.AioRpcError, match="no process could be started") as refused:
            await schedule(core, inline("r1", queue()))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    await schedule(core, inline("r2", queue()))

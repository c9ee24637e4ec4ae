"""The end of a core: streams hear the reason, and nothing keeps the process for long."""

import asyncio
import threading
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest

from pumice.server.limits import Limits
from pumice.v1 import cluster_service_pb2
from pumice.v1.inspection_service_pb2 import WatchSessionsRequest
from tests.server.running import SECOND, RunningCore, gang, node, queue, running_core


async def test_a_session_that_does_not_end_delays_the_end_for_a_limited_time(
    socket_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    async with running_core(socket_folder, Limits(stop_ns=SECOND // 2)) as core:
        adapter = await core.served([queue(), node("n1")])
        await core.session(1)
        state = core.server._clusters.find("c1").served.state
        running = threading.Event()

        def endless(now_ns: int) -> None:
            running.set()
            release.wait(20)

        state.session = endless  # type: ignore[assignment,method-assign]
        await adapter.tell(*gang("job", 1))
        core.clock.advance(2)
        await asyncio.to_thread(running.wait, 20)
        began = time.monotonic()
        await asyncio.gather(core.server.stop(), gone_away(adapter))
        assert time.monotonic() - began < 8
        assert "c1: a session did not end in time and was abandoned" in caplog.text
        release.set()


async def gone_away(adapter: object) -> None:
    away = await adapter.next("go_away")  # type: ignore[attr-defined]
    assert away.reason == cluster_service_pb2.GO_AWAY_REASON_SHUTTING_DOWN
    assert away.message == "the core is shutting down"


async def test_watchers_are_told_that_the_core_ends(core: RunningCore) -> None:
    await core.served([queue(), node("n1"), *gang("job", 1)])
    watching = core.inspection().WatchSessions(WatchSessionsRequest(after_session=0))
    await core.session(1)
    await asyncio.sleep(0.1)
    await core.server.stop()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        async for _ in watching:
            pass
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE

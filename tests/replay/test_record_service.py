"""Recording a running core from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from pumice.recordings import RecordingWriter
from pumice.server.core_environment import CoreEnvironment
from pumice.server.recording.files import RecordingOptions
from pumice.server.server import CoreServer, ServerOptions
from pumice.testing import assert_replay_identical, recordings_in
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2 import RecordRequest
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub
from tests.server.running import (
    ManualClock,
    RunningCore,
    configuration,
    gang,
    node,
    queue,
    running_core,
)

OBJECTS = [queue(), node("n1"), node("n2"), *gang("first", 3)]


def record(core: RunningCore, **request: Any) -> Any:
    stub: Any = RecordingServiceStub(core.channel())
    return stub.Record(RecordRequest(**request))


async def entries_until(call: Any, session: int) -> list[RecordingEntry]:
    """All that comes until a session has ended."""
    found: list[RecordingEntry] = []
    async with asyncio.timeout(30):
        while response := await call.read():
            found += response.entries
            if any(e.session_end.session == session for e in response.entries):
                return found
    raise AssertionError("the stream ended too soon")


async def test_a_recording_from_a_running_core_replays_alone(tmp_path: Path) -> None:
    async with running_core(tmp_path) as core:
        adapter = await core.served(OBJECTS)
        await core.session(1)
        call = record(core, cluster="c1")
        first = await call.read()
        assert first.entries[0].header.first_session == 2
        await adapter.tell(*gang("second", 2))
        core.clock.advance(1)
        found = [*first.entries, *await entries_until(call, 2)]
        call.cancel()
    path = tmp_path / "live.pumice"
    with RecordingWriter(path) as out:
        for entry in found:
            out.write(entry)
    assert assert_replay_identical(path, statuses=True).decisions == 2


async def test_whoever_hangs_up_is_forgotten(tmp_path: Path) -> None:
    async with running_core(tmp_path) as core:
        adapter = await core.served(OBJECTS)
        await core.session(1)
        call = record(core)
        await call.read()
        recorder = core.server._clusters.find("c1").recorder
        assert len(recorder._listeners) == 1
        call.cancel()
        async with asyncio.timeout(30):
            while recorder._listeners:
                await asyncio.sleep(0.01)
        await adapter.close()


async def test_a_cluster_whose_snapshot_is_not_whole_is_not_recorded_yet(tmp_path: Path) -> None:
    async with running_core(tmp_path) as core:
        adapter = core.adapter()
        await adapter.connect()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await record(core, cluster="c1").read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        adapter.cut()


async def test_what_was_said_to_configurations_is_recorded(tmp_path: Path) -> None:
    """One that was refused then is no news when it is refused again."""
    async with running_core(tmp_path) as core:
        adapter = await core.served(OBJECTS)
        await core.session(1)
        call = record(core, cluster="c1")
        first = await call.read()
        await adapter.tell(configuration("actions: fly"), *gang("second", 2))
        core.clock.advance(1)
        found = [*first.entries, *await entries_until(call, 2)]
        call.cancel()
    (result,) = [e.configuration_result for e in found if e.HasField("configuration_result")]
    assert not result.accepted
    path = tmp_path / "live.pumice"
    with RecordingWriter(path) as out:
        for entry in found:
            out.write(entry)
    assert assert_replay_identical(path, statuses=True).refused_configurations == []


async def test_an_unknown_cluster_is_named(tmp_path: Path) -> None:
    async with running_core(tmp_path) as core:
        await core.served(OBJECTS)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await record(core, cluster="c2").read()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert "c2" in (caught.value.details() or "")


async def test_a_recording_ends_after_its_duration(tmp_path: Path) -> None:
    async with running_core(tmp_path) as core:
        await core.served(OBJECTS)
        await core.session(1)
        request = RecordRequest(cluster="c1")
        request.duration.FromMilliseconds(50)
        stub: Any = RecordingServiceStub(core.channel())
        async with asyncio.timeout(30):
            responses = [response async for response in stub.Record(request)]
        assert responses[0].entries[0].HasField("header")


async def test_a_core_that_records_leaves_files_that_replay_also_over_a_reconnection(
    tmp_path: Path,
) -> None:
    env = CoreEnvironment(clock=ManualClock(), recording=RecordingOptions(tmp_path / "held"))
    server = CoreServer(ServerOptions(f"unix:{tmp_path}/core.sock", env=env))
    await server.start()
    assert isinstance(env.clock, ManualClock)
    core = RunningCore(server, env, env.clock)
    adapter = await core.served(OBJECTS)
    await core.session(1)
    adapter.cut()
    again = await core.served([*OBJECTS, *gang("second", 2)], incarnation="i2", epoch=2)
    core.clock.advance(2)
    await core.session(2)
    await again.close()
    await core.close()
    await server.stop()
    (path,) = recordings_in(tmp_path / "held")
    assert assert_replay_identical(path, statuses=True).sessions >= 2

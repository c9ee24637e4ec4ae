"""Core, adapter and a real extender over HTTP; the recording replays without the extender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pumice.server.recording.files import RecordingOptions
from pumice.testing import assert_replay_identical, recordings_in
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, CAPABILITY_QUESTIONS
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import KIND_POD, ClusterObject
from tests.adapters.fake_world import FakeWorld
from tests.loop.stage import Stage, until
from tests.server.running import gang, node, queue

Verdict = Callable[[dict[str, Any]], web.Response]


class Extender:
    """Refuses every node but one, unless a test says otherwise."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[str] = []
        self.verdict: Verdict = self._only("n2")

    def _only(self, name: str) -> Verdict:
        def judge(body: dict[str, Any]) -> web.Response:
            fits = body["node"]["Name"] == name
            return web.json_response({"status": "" if fits else "not here", "code": 3})

        return judge

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(f"{body['task']['Name']} {body['node']['Name']}")
        return self.verdict(body)


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    held = Extender()
    app = web.Application()
    app.router.add_post("/v1/filter", held.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    held.address = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield held
    await runner.cleanup()


class AskingWorld(FakeWorld):
    capabilities = (CAPABILITY_EVICT, CAPABILITY_QUESTIONS)

    def __init__(self, address: str, *objects: ClusterObject, ignorable: bool = False) -> None:
        super().__init__()
        conf = f"""
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: extender
    arguments:
      extender.urlPrefix: {address}
      extender.predicateVerb: filter
      extender.ignorable: {str(ignorable).lower()}
"""
        self.configuration = Configuration(default_queue="default", scheduler_conf=conf)
        for held in (queue(), *objects):
            self.store.put(held)

    def nodes(self) -> dict[str, str]:
        pods = (held.pod for held in self.store.of_kind(KIND_POD))
        return {pod.name: pod.node_name for pod in pods if pod.node_name}


OBJECTS = [node("n1"), node("n2"), *gang("job", 2)]


async def test_the_extender_decides_and_the_recording_replays_without_it(
    extender: Extender, folder: Path, tmp_path: Path
) -> None:
    recording = RecordingOptions(tmp_path / "loop.pumice")
    async with Stage(folder, recording=recording) as stage:
        world = AskingWorld(extender.address, *OBJECTS)
        runtime = stage.start_adapter(world)
        await until(lambda: len(world.nodes()) == 2, "both pods are placed")
        assert await stage.agrees_with(runtime)
    assert world.nodes() == {"job-0": "n2", "job-1": "n2"}
    assert sorted(extender.asked) == ["job-0 n1", "job-0 n2", "job-1 n1", "job-1 n2"]
    (path,) = recordings_in(tmp_path)
    assert_replay_identical(path)


async def test_an_extender_that_fails_holds_up_nothing_where_it_is_ignorable(
    extender: Extender, folder: Path
) -> None:
    extender.verdict = lambda _: web.Response(status=500)
    async with Stage(folder) as stage:
        world = AskingWorld(extender.address, *OBJECTS, ignorable=True)
        stage.start_adapter(world)
        await until(lambda: len(world.nodes()) == 2, "both pods are placed")


async def test_a_core_that_restarts_has_the_answers_with_the_snapshot(
    extender: Extender, folder: Path
) -> None:
    async with Stage(folder) as stage:
        world = AskingWorld(extender.address, *OBJECTS)
        extender.verdict = lambda _: web.json_response({"status": "no", "code": 3})
        runtime = stage.start_adapter(world)
        await until(lambda: len(extender.asked) == 4, "all is asked")
        await until(lambda: runtime.is_idle, "all is told")
        await stage.core.crash()
        await stage.start_core()
        await until(
            lambda: stage.core.metric("pumice_sessions_total"), "the new core has a session"
        )
        await until(lambda: runtime.is_idle, "nothing is left to do")
        assert len(extender.asked) == 4
        assert world.nodes() == {}

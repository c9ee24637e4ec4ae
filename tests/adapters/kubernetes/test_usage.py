"""The usage of nodes: polled from a real HTTP server that behaves well, badly, or not at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from aiohttp import web

from pumice.adapters.kubernetes import usage_sources
from pumice.adapters.kubernetes.errors import ApiError
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.usage_poller import UsagePoller
from pumice.adapters.kubernetes.usage_settings import UsageSettings, usage_settings
from pumice.adapters.kubernetes.usage_sources import UsageError, UsageSource
from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.world import DataSeen, WorldEvent
from pumice.v1.delta_pb2 import Op, PluginData
from tests.adapters.fake_clock import FakeClock, until

NO_API = cast(ApiSession, None)


class Server:
    """An HTTP server whose answer a test can change."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], web.StreamResponse] = lambda _: web.Response()
        self.never = asyncio.Event()
        self.is_silent = False
        self.address = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        form = dict(await request.post()) if "query" in request.path else await request.json()
        self.asked.append(
            {"path": request.path, "auth": request.headers.get("Authorization"), **form}
        )
        if self.is_silent:
            await self.never.wait()
        return self.answer(form)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    held = Server()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", held.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    held.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield held
    held.never.set()
    await runner.cleanup()


def prometheus(cpu: dict[str, str], memory: dict[str, str]) -> Callable[[Any], web.Response]:
    def answer(form: Any) -> web.Response:
        chosen = cpu if "node_cpu_seconds_total" in form["query"] else memory
        result = [{"metric": {"instance": n}, "value": [1.5, v]} for n, v in chosen.items()]
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data})

    return answer


def settings(server: Server, kind: str = "prometheus", **others: Any) -> UsageSettings:
    return UsageSettings(kind, server.address, **others)


async def test_prometheus_is_asked_twice_for_all_nodes(server: Server) -> None:
    server.answer = prometheus({"n1": "12.5", "n2": "NaN"}, {"n1": "40", "n3": "+Inf"})
    found = await UsageSource(settings(server), NO_API, 5).poll(77.0)
    assert {name: (u.cpu, u.memory, u.time) for name, u in found.items()} == {
        "n1": (12.5, 40.0, 77.0)
    }
    assert [ask["path"] for ask in server.asked] == ["/api/v1/query"] * 2
    assert all("[10m:30s]" in ask["query"] for ask in server.asked)


async def test_elasticsearch_is_asked_once_for_all_hosts(server: Server) -> None:
    bucket = {"key": "n1", "cpu": {"value": 0.25}, "memory": {"value": None}}
    server.answer = lambda _: web.json_response({"aggregations": {"hosts": {"buckets": [bucket]}}})
    source = settings(server, "elasticsearch", username="u", password="p", host_field="node")
    found = await UsageSource(source, NO_API, 5).poll(1.0)
    assert (found["n1"].cpu, found["n1"].memory) == (25.0, None)
    (asked,) = server.asked
    assert asked["path"] == "/metricbeat-*/_search"
    assert asked["auth"].startswith("Basic ")
    assert asked["aggs"]["hosts"]["terms"]["field"] == "node"


class CustomMetrics:
    """The part of an ApiSession that is asked; it knows the older version only."""

    async def call(self, method: str, path: str, *, seconds: float) -> bytes:
        if "v1beta2" in path:
            raise ApiError(404, "NotFound", "no such version")
        item = '{"describedObject": {"name": "n1"}, "timestamp": "2026-11-15T12:00:00Z", "value": "%s"}'
        value = item % ("450m" if "cpu" in path else "1")
        return b'{"items": [%s]}' % value.encode()


async def test_custom_metrics_have_times_of_their_own() -> None:
    api = cast(ApiSession, CustomMetrics())
    found = await UsageSource(UsageSettings("prometheus_adaptor"), api, 5).poll(1.0)
    assert (found["n1"].cpu, found["n1"].memory, found["n1"].time) == (45.0, 100.0, 1794744000.0)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda _: web.Response(status=503, text="no"), "status 503"),
        (
            lambda _: web.Response(status=302, headers={"Location": "http://a.invalid"}),
            "status 302",
        ),
        (lambda _: web.Response(text="<html>"), "not JSON"),
        (lambda _: web.json_response({"status": "error", "error": "bad query"}), "bad query"),
        (lambda _: web.json_response([1, 2]), "refuses"),
        (lambda _: web.Response(body=b"x" * 2048), "longer than"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error(
    server: Server, answer: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_sources, "MAX_ANSWER_BYTES", 1024)
    server.answer = answer
    with pytest.raises(UsageError, match=problem):
        await UsageSource(settings(server), NO_API, 5).poll(1.0)


@pytest.mark.parametrize(
    "result",
    [
        "text",
        [1, None, {}, {"metric": 3}, {"metric": {"instance": 7}, "value": [1, "2"]}],
        [
            {"metric": {"instance": "n"}, "value": [1]},
            {"metric": {"instance": "n"}, "value": "1 2"},
        ],
        [{"metric": {"instance": "n"}, "value": [1, "many"]}, {"value": [1, "2"]}],
    ],
)
async def test_series_that_make_no_sense_are_left_out(server: Server, result: Any) -> None:
    answer = {"status": "success", "data": {"result": result}}
    server.answer = lambda _: web.json_response(answer)
    assert await UsageSource(settings(server), NO_API, 5).poll(1.0) == {}


async def test_nodes_beyond_the_limit_are_left_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_sources, "MAX_NODES", 2)
    server.answer = prometheus({"a": "1", "b": "2", "c": "3"}, {"a": "4"})
    assert sorted(await UsageSource(settings(server), NO_API, 5).poll(1.0)) == ["a", "b"]


async def test_a_silent_server_is_given_up(server: Server) -> None:
    server.is_silent = True
    with pytest.raises(TimeoutError):
        await UsageSource(settings(server), NO_API, 0.05).poll(1.0)


# The poller.


class Polling:
    """A poller with a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.events: list[WorldEvent] = []
        self.poller = UsagePoller(
            NO_API, self.events.append, self.clock, Metrics(), random.Random(1)
        )
        self.task = asyncio.ensure_future(self.poller.run())

    def told(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for event in self.events:
            assert isinstance(event, DataSeen)
            found[event.data.name] = dict(event.data.numbers)
        return found


@pytest.fixture
async def polling() -> AsyncIterator[Polling]:
    held = Polling()
    yield held
    held.task.cancel()
    await asyncio.wait({held.task})


def conf(server: Server, interval: str = "30s") -> str:
    return f"metrics: {{type: prometheus, address: '{server.address}/', interval: {interval}}}"


async def test_figures_are_told_with_their_time_and_forgotten_when_they_end(
    server: Server, polling: Polling
) -> None:
    server.answer = prometheus({"n1": "10", "n2": "20"}, {"n1": "30", "n2": "40"})
    polling.poller.configure(conf(server))
    await until(lambda: len(polling.events) == 2)
    assert polling.told()["n2"] == {"cpu": 20.0, "memory": 40.0, "time": 1000.0}
    server.answer = prometheus({"n1": "11"}, {"n1": "31"})
    await until(lambda: 30.0 in polling.clock.sleeps)
    await polling.clock.advance(30)
    await until(lambda: len(polling.events) == 4)
    assert polling.told() == {"n1": {"cpu": 11.0, "memory": 31.0, "time": 1030.0}, "n2": {}}


async def test_after_failures_the_source_is_asked_less_often_and_figures_stay(
    server: Server, polling: Polling
) -> None:
    server.answer = prometheus({"n1": "10"}, {"n1": "30"})
    polling.poller.configure(conf(server))
    await until(lambda: len(polling.events) == 1)
    server.answer = lambda _: web.Response(status=500)
    delays = []
    for _ in range(6):
        await until(lambda: bool(polling.clock.sleeps) and polling.clock.sleeps[-1] != 20.0)
        delays.append(polling.clock.sleeps.pop())
        asked = len(server.asked)
        await polling.clock.advance(delays[-1] + 1)
        await until(lambda asked=asked: len(server.asked) > asked)  # type: ignore[misc]
    assert len(polling.events) == 1
    assert max(delays) <= 300.0
    assert delays[-1] > 30.0


async def test_without_a_source_what_was_told_is_forgotten(
    server: Server, polling: Polling
) -> None:
    server.answer = prometheus({"n1": "10"}, {"n1": "30"})
    polling.poller.configure(conf(server))
    await until(lambda: len(polling.events) == 1)
    polling.poller.configure("actions: allocate")
    await until(lambda: polling.told() == {"n1": {}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("a: [", None),
        ("- 1", None),
        ("metrics: 7", None),
        ("metrics: {type: unknown}", None),
        ("metrics: {type: prometheus_adaptor}", UsageSettings("prometheus_adaptor")),
        (
            "metrics: {type: prometheus, address: 'http://p/', interval: 5m, "
            "tls.insecureSkipVerify: true}",
            UsageSettings("prometheus", "http://p", 300.0, skips_verification=True),
        ),
        (
            "metrics: {type: prometheus, address: p, interval: 1ms}",
            UsageSettings("prometheus", "p", 1.0),
        ),
    ],
)
def test_the_section_metrics_is_read(text: str, expected: UsageSettings | None) -> None:
    assert usage_settings(text) == expected


# On the way to the core.


def test_data_that_waits_is_replaced_and_a_snapshot_has_it_again() -> None:
    buffer = ResumeBuffer()
    outbox = Outbox(buffer)

    def bring(cpu: float) -> None:
        data = PluginData(plugin="usage", name="n1", numbers={"cpu": cpu})
        if buffer.keep_data(data):
            outbox.put_data(data)

    def sent() -> list[float]:
        batch = outbox.next_batch(100, 1 << 20, 1 << 20)
        return [Op.FromString(op).plugin_data.numbers["cpu"] for op in batch.ops] if batch else []

    for cpu in (1.0, 1.0, 2.0):
        bring(cpu)
    assert sent() == [2.0]
    bring(2.0)
    assert sent() == []
    outbox.begin_snapshot()
    assert sent() == [2.0]
    assert outbox.end_snapshot() is not None
    assert [d.count for d in outbox.digests()] == []

"""Questions of plugins: asked over HTTP of a server that is slow, silent, lying, too large or away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from google.protobuf.duration_pb2 import Duration

from pumice.adapters.runtime import questions
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.questions import MAX_NAME, QuestionAnswerer
from pumice.v1.cluster_service_pb2 import Question
from pumice.v1.delta_pb2 import PluginData
from tests.adapters.fake_clock import FakeClock, until

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Extender:
    """A server whose behaviour a test chooses, and an answerer that asks it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.brought: list[PluginData] = []
        self.bodies: list[str] = []
        self.release = asyncio.Event()
        self.busy = self.most_busy = 0
        self.address = ""
        self.answers: Handler = self._well
        self.answerer = QuestionAnswerer(self.brought.append, self.clock, Metrics())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.text())
        return await self.answers(request)

    async def _well(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"path": request.path})

    async def hold(self, request: web.Request) -> web.StreamResponse:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        await self.release.wait()
        self.busy -= 1
        return web.json_response({})

    def ask(
        self, *names: str, seconds: float = 5, needs_answer: bool = True, url: str = ""
    ) -> None:
        timeout = Duration()
        timeout.FromNanoseconds(int(seconds * 1e9))
        self.answerer.add(
            Question(
                plugin="extender",
                name=name,
                url=url or f"{self.address}/predicate",
                body='{"a":1}',
                timeout=timeout,
                needs_answer=needs_answer,
            )
            for name in names
        )

    def told(self) -> dict[str, dict[str, str]]:
        return {data.name: dict(data.texts) for data in self.brought}


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    held = Extender()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", held.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    held.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield held
    held.release.set()
    await held.answerer.close()
    await runner.cleanup()


async def test_an_answer_is_brought_with_its_time(extender: Extender) -> None:
    extender.ask("predicate/u1/n1")
    await until(lambda: bool(extender.brought))
    (data,) = extender.brought
    assert (data.plugin, data.name) == ("extender", "predicate/u1/n1")
    assert data.texts["answer"] == '{"path": "/predicate"}'
    assert data.numbers["time"] == 1000.0
    assert extender.bodies == ['{"a":1}']


async def _too_large(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"x" * (questions.MAX_ANSWER_BYTES + 1))


async def _redirect(_: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "http://elsewhere.invalid"})


async def _not_text(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\xff\xfe")


async def _refuse(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="no")


async def _break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = 1000
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        (_too_large, "longer than"),
        (_redirect, "status 302"),
        (_refuse, "status 500"),
        (_not_text, "codec"),
        (_break_off, ""),
    ],
)
async def test_whatever_the_server_does_there_is_an_answer(
    extender: Extender, behaviour: Handler, problem: str
) -> None:
    extender.answers = behaviour
    extender.ask("q")
    await until(lambda: bool(extender.brought))
    assert problem in extender.told()["q"]["error"]


@pytest.mark.parametrize("seconds", [0.05, -1.0])
async def test_a_silent_server_is_given_up_in_time(
    extender: Extender, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(questions, "_TIME_LIMIT_SECONDS", 0.1)
    extender.answers = extender.hold
    extender.ask("q", seconds=seconds)
    await until(lambda: bool(extender.brought))
    assert extender.told()["q"]["error"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/p", "nonsense", "ftp://a/b", "http://"])
async def test_a_server_that_is_away_is_an_error(extender: Extender, url: str) -> None:
    extender.ask("q", url=url)
    await until(lambda: bool(extender.brought))
    assert extender.told()["q"]["error"]


async def test_questions_are_asked_a_few_at_a_time(
    extender: Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MAX_AT_ONCE", 2)
    extender.answers = extender.hold
    extender.ask(*(f"q{i}" for i in range(6)))
    await until(lambda: extender.busy == 2)
    extender.release.set()
    await until(lambda: len(extender.brought) == 6)
    assert extender.most_busy == 2


async def test_a_question_that_is_being_asked_is_not_asked_again(extender: Extender) -> None:
    extender.answers = extender.hold
    extender.ask("q", "q")
    await until(lambda: extender.busy == 1)
    extender.ask("q")
    extender.release.set()
    await until(lambda: bool(extender.brought))
    assert len(extender.bodies) == 1
    extender.ask("q")
    await until(lambda: len(extender.brought) == 2)


async def test_too_many_questions_have_an_error_for_an_answer(
    extender: Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MAX_AT_ONCE", 0)
    monkeypatch.setattr(questions, "MAX_WAITING", 1)
    extender.ask("q1", "q2")
    assert extender.told() == {"q2": {"error": "too many questions are waiting"}}


async def test_a_question_without_a_sound_name_is_not_asked(extender: Extender) -> None:
    extender.ask("", "x" * (MAX_NAME + 1))
    assert extender.brought == []


async def test_nobody_hears_of_what_needs_no_answer(extender: Extender) -> None:
    extender.ask("told", needs_answer=False)
    await until(lambda: bool(extender.bodies))
    extender.ask("q")
    await until(lambda: "q" in extender.told())
    assert list(extender.told()) == ["q"]


async def test_old_answers_are_forgotten(
    extender: Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    extender.ask("q1")
    await until(lambda: len(extender.brought) == 1)
    await extender.clock.advance(121)
    extender.ask("q2")
    assert extender.told() == {"q1": {}}
    await until(lambda: "q2" in extender.told())
    monkeypatch.setattr(questions, "MAX_ANSWERS", 0)
    extender.ask()
    assert extender.told()["q2"] == {}

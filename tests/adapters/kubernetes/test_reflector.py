"""One reflector against a server that behaves badly: how often it lists and watches."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from aiohttp import web

from pumice.adapters.kubernetes.object_head import Head
from pumice.adapters.kubernetes.reflector import Reflector
from pumice.adapters.kubernetes.resources import NODES
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import node


class JumpingClock(SystemClock):
    """Time passes only in sleeps, all at once."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0.001)


class Objects:
    """A store that remembers names."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._listed: set[str] = set()

    def begin_list(self) -> None:
        self._listed = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        self.names.add(head.metadata.name)
        self._listed.add(head.metadata.name)

    def end_list(self, version: str) -> None:
        self.names &= self._listed

    def delete(self, head: Head) -> None:
        self.names.discard(head.metadata.name)

    async def wait_for_space(self) -> None:
        """There is always space."""


class NeverAbsent:
    async def wait_for(self, source: Source, misses: int) -> None:
        raise AssertionError("nodes are never missing")

    def is_absent(self, source: Source) -> bool:
        return False


class Case:
    def __init__(self, api: FakeApi, session: ApiSession, metrics: Metrics) -> None:
        self.api, self.metrics = api, metrics
        self.clock, self.store = JumpingClock(), Objects()
        self.reflector = Reflector(
            Source(NODES),
            self.store,
            session,
            NeverAbsent(),
            RetryPolicy(self.clock, metrics),
            self.clock,
            random.Random(1),
            metrics,
            page_size=2,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.reflector.run())

    async def stop(self) -> None:
        if self._task is not None:
            await end_tasks(self._task)

    async def run_for(self, seconds: float) -> None:
        end = self.clock.time + seconds
        self.start()
        await until(lambda: self.clock.time >= end, f"time stands still at {self.clock.time}")
        await self.stop()

    @property
    def lists(self) -> int:
        return sum("watch" not in call[2] for call in self.api.made("GET", "/nodes$"))

    @property
    def watches(self) -> int:
        return sum("watch" in call[2] for call in self.api.made("GET", "/nodes$"))


@pytest.fixture
async def case(fake_api: FakeApi, session: ApiSession, metrics: Metrics) -> Case:
    fake_api.put("nodes", node("n1"))
    return Case(fake_api, session, metrics)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer_watches(api: FakeApi, *lines: object) -> None:
    """Every watch gets these lines and ends."""

    async def answer(request: web.Request, resource: str) -> web.StreamResponse:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        return web.Response(text="".join(f"{text}\n" for text in texts))

    api._watch = answer  # type: ignore[method-assign]


def error_event(code: int) -> dict[str, object]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}


async def test_a_server_that_always_says_410_gets_fewer_lists_with_time(case: Case) -> None:
    case.api.trouble.append(Trouble("GET", "watch=1", times=10**9, status=410))
    await case.run_for(4)
    assert 2 <= case.lists <= 5
    await case.run_for(300)
    # At most one list in a second, on average, and about one in half a minute later on.
    assert case.lists <= 30


@pytest.mark.parametrize("code", [400, 410, 429, 500, 503])
async def test_an_error_event_of_any_code_leads_to_a_new_list(case: Case, code: int) -> None:
    answer_watches(case.api, error_event(code))
    await case.run_for(30)
    assert 3 <= case.lists <= 12
    assert case.watches <= case.lists
    assert case.metrics.counted("relists") >= 3
    assert case.metrics.counted("watch_failures", code=str(code)) >= 3


async def test_a_watch_that_ends_at_once_is_not_opened_again_and_again(case: Case) -> None:
    answer_watches(case.api)
    await case.run_for(60)
    assert 3 <= case.watches <= 15
    assert case.lists == 1


async def test_a_watch_that_ends_after_each_event_does_not_spin(case: Case) -> None:
    changed = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "900"}}
    answer_watches(case.api, {"type": "MODIFIED", "object": changed})
    await case.run_for(60)
    assert case.watches <= 15


@pytest.mark.parametrize("line", ["{", '{"type":"ADDED"}', '{"type":"DELETED","object":[]}', "[]"])
async def test_an_event_that_cannot_be_read_leads_to_a_new_list(case: Case, line: str) -> None:
    good = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "900"}}}
    answer_watches(case.api, good, line)
    await case.run_for(30)
    assert 3 <= case.lists <= 12


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"status": "ok"}',
        '{"kind": "Status", "code": 200}',
        '{"kind": "NodeList", "items": []}',
        '{"kind": "NodeList", "metadata": {}, "items": []}',
        "<html>log in first</html>",
        '{"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [\xff]}',
        '{"kind": "NodeList", "x": ' + "[" * 100_000,
    ],
)
async def test_what_is_not_a_list_deletes_nothing(case: Case, body: str) -> None:
    case.start()
    await until(lambda: case.store.names == {"n1"})
    whole = case.api._list

    def wrong(request: web.Request, resource: str) -> web.Response:
        return web.Response(body=body.encode("latin-1"))

    case.api._list = wrong  # type: ignore[method-assign]
    case.api.expire("nodes")
    await until(lambda: case.metrics.counted("api_retries", error="LostAnswerError") >= 3)
    assert case.store.names == {"n1"}
    case.api._list = whole  # type: ignore[method-assign]
    case.api.put("nodes", node("n2"))
    await until(lambda: case.store.names == {"n1", "n2"})
    await case.stop()


async def test_an_object_that_cannot_be_read_leaves_the_rest_of_the_list(case: Case) -> None:
    case.api.objects["nodes", "", "odd"] = {"metadata": []}
    case.start()
    await case.reflector.listed.wait()
    assert case.store.names == {"n1"}
    assert case.metrics.counted("malformed_objects") == 1
    await case.stop()


async def test_a_server_that_is_away_for_long_is_not_listed_again(case: Case) -> None:
    case.start()
    await until(lambda: case.api.open_watches)
    # The answers to many watches in a row are lost; the version is still good after that.
    case.api.trouble.append(Trouble("GET", "watch=1", times=20, loses_answer=True))
    watch = case.api._watch

    async def broken(request: web.Request, resource: str) -> web.StreamResponse:
        return web.Response()

    case.api._watch = broken  # type: ignore[method-assign]
    case.api.end_watches("nodes")
    await until(lambda: case.api.trouble[0].times == 0)
    case.api._watch = watch  # type: ignore[method-assign]
    case.api.put("nodes", node("n2"))
    await until(lambda: case.store.names == {"n1", "n2"})
    assert case.lists == 1
    await case.stop()


@pytest.mark.parametrize("status", [400, 500, 503])
async def test_a_watch_that_cannot_be_opened_leads_to_a_new_list(case: Case, status: int) -> None:
    case.api.trouble.append(Trouble("GET", "watch=1", times=10**9, status=status))
    await case.run_for(60)
    assert 2 <= case.lists <= 15
    assert case.watches <= 60


async def test_a_list_that_expires_is_made_in_one_piece_after_a_delay(case: Case) -> None:
    for number in range(5):
        case.api.put("nodes", node(f"n{number}"))
    case.api.trouble.append(Trouble("GET", "continue=", times=10**9, status=410))
    case.start()
    await case.reflector.listed.wait()
    assert case.store.names == {f"n{number}" for number in range(5)}
    assert case.clock.time >= 0.5
    await case.stop()


async def test_lists_that_are_refused_are_tried_again_with_delays(case: Case) -> None:
    case.api.trouble.append(Trouble("GET", "/nodes", times=10**9, status=400))
    await case.run_for(120)
    assert 3 <= case.lists <= 12


async def test_a_server_that_repeats_its_page_token_does_not_hold_the_list(case: Case) -> None:
    for number in range(5):
        case.api.put("nodes", node(f"n{number}"))
    whole = case.api._list

    def repeat(request: web.Request, resource: str) -> web.Response:
        answer = whole(request, resource)
        body = json.loads(answer.text or "")
        if "limit" in request.query:
            body["metadata"]["continue"] = "2"
        return web.json_response(body)

    case.api._list = repeat  # type: ignore[method-assign]
    case.start()
    await case.reflector.listed.wait()
    assert case.store.names == {f"n{number}" for number in range(5)}
    await case.stop()


async def test_a_reflector_without_a_watch_is_stale_after_a_minute(case: Case) -> None:
    assert case.reflector.why_stale() == "not listed yet"
    case.start()
    await until(lambda: case.api.open_watches)
    case.clock.time += 1000
    await until(lambda: case.reflector.why_stale() == "")
    await case.stop()
    case.clock.time += 59
    assert case.reflector.why_stale() == ""
    case.clock.time += 2
    assert case.reflector.why_stale() == "not watched for 61 s"


async def test_a_watch_is_read_less_often_while_calls_are_slow(
    case: Case, session: ApiSession
) -> None:
    pauses: list[float] = []
    sleep = case.clock.sleep

    async def slept(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    case.clock.sleep = slept  # type: ignore[method-assign]
    case.start()
    await until(lambda: case.watches == 1, "no watch")
    case.api.put("nodes", node("n2"))
    await until(lambda: "n2" in case.store.names, "the watch does not show n2")
    assert not pauses
    for _ in range(100):
        session.durations.add_since(session._clock.now() - 0.06)
    case.api.put("nodes", node("n3"))
    await until(lambda: "n3" in case.store.names, "the watch does not show n3")
    await until(lambda: bool(pauses), "no pause")
    assert 0.01 < pauses[0] < 0.02
    # What fills the buffer of a connection is read at once.
    await until(lambda: len(pauses) == 1)
    large = node("n4")
    large["metadata"]["annotations"] = {"data": "x" * 50_000}
    case.api.put("nodes", large)
    await until(lambda: "n4" in case.store.names, "the watch does not show n4")
    assert len(pauses) == 1
    await case.stop()

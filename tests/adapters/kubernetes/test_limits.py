"""Limits of the adapter that no other test drives, each with a lower value."""

import asyncio

import pytest

from pumice.adapters.kubernetes.errors import ApiError, LostAnswerError
from pumice.adapters.kubernetes.events import _LONGEST_NAME, _LONGEST_TEXT
from pumice.adapters.kubernetes.object_store import WorldEventQueue
from pumice.adapters.kubernetes.process import check
from pumice.adapters.kubernetes.refusals import _LONGEST_REFUSAL, failure
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.configurations import _MOST_PROBLEMS, _problems
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.outbox import _MOST_CONFIGURATIONS
from pumice.adapters.runtime.world import Synced
from pumice.v1.cluster_service_pb2 import ConfigurationResult
from pumice.v1.configuration_pb2 import Configuration, ConfigurationProblem
from tests.adapters.fake_clock import until
from tests.adapters.fake_world import bind
from tests.adapters.kubernetes.conftest import FastClock
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import node, pod
from tests.adapters.kubernetes.test_events import Watched, event, events_of
from tests.adapters.kubernetes.test_reflector import Case, answer_watches, case
from tests.adapters.test_ledger import ledger
from tests.adapters.test_outbox import started

__all__ = ["case"]
KUBERNETES = "pumice.adapters.kubernetes"


async def test_a_page_that_is_too_long_is_an_error(
    fake_api: FakeApi, session: ApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_api.put("nodes", node("n1"))
    await session.page("/api/v1/nodes", {})
    monkeypatch.setattr(f"{KUBERNETES}.session._LONGEST_PAGE", 10)
    with pytest.raises(LostAnswerError, match="longer than"):
        await session.page("/api/v1/nodes", {})


async def test_a_page_that_takes_too_long_is_an_error(
    fake_api: FakeApi, session: ApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.session._PAGE_SECONDS", 0.05)
    fake_api.trouble.append(Trouble("GET", "/nodes", seconds=5.0))
    with pytest.raises(LostAnswerError):
        await session.page("/api/v1/nodes", {})


async def test_a_response_that_is_too_long_is_an_error(
    fake_api: FakeApi, session: ApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_api.put("nodes", node("n1"))
    await session.call("GET", "/api/v1/nodes/n1")
    monkeypatch.setattr(f"{KUBERNETES}.connections._MOST_BYTES", 100)
    with pytest.raises(LostAnswerError, match="too large"):
        await session.call("GET", "/api/v1/nodes/n1")


async def test_a_long_refusal_is_read_in_part_and_cut(
    fake_api: FakeApi, session: ApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.session._LONGEST_ERROR_BODY", 10)
    read: list[int] = []

    def noted(status: int, body: bytes, retry_after: str = "") -> ApiError:
        read.append(len(body))
        return failure(status, body, retry_after)

    monkeypatch.setattr(f"{KUBERNETES}.session.failure", noted)
    fake_api.trouble.append(Trouble("GET", "/nodes", message="x" * 5_000_000))
    with pytest.raises(ApiError):
        await session.page("/api/v1/nodes", {})
    assert 10 < read[0] < 5_000_000
    assert len(failure(500, b"x" * 5000).message) == _LONGEST_REFUSAL


async def test_a_line_of_a_watch_that_is_too_long_leads_to_a_new_list(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.reflector._LONGEST_LINE", 100)
    caplog.set_level("INFO")
    answer_watches(case.api, "x" * 200_000)
    case.start()
    await until(lambda: case.lists > 2)
    await case.stop()
    assert "a line is longer than 100 bytes" in caplog.text


async def test_watches_that_are_silent_lead_to_a_new_list(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.reflector._QUIET_SECONDS", 0.05)
    case.start()
    await until(lambda: case.lists > 1)
    await case.stop()
    assert case.watches >= 3


async def test_lists_and_watches_pause_while_too_much_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.object_store._MOST_WAITING", 2)
    queue = WorldEventQueue()
    for _ in range(2):
        queue.put(Synced())
    await queue.wait_for_space()
    queue.put(Synced())
    waiting = asyncio.create_task(queue.wait_for_space())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    taken = aiter(queue)
    for _ in range(3):
        await anext(taken)
    reading = asyncio.ensure_future(anext(taken))
    await asyncio.wait_for(waiting, 30)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def test_events_about_invalid_objects_are_limited(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.warning_events._MOST_WAITING", 3)
    for number in range(10):
        bad = pod(f"bad{number}")
        bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
        fake_api.put("pods", bad)
    cluster = watched(may_act=lambda: False)
    await until(lambda: cluster.synced)
    await until(lambda: metrics.counted("bad_objects", kind="pod") == 10)
    assert metrics.counted("dropped_events", cause="queue full") == 7


async def test_texts_and_names_of_events_are_cut(fake_api: FakeApi, watched: Watched) -> None:
    told = event("x" * 5000)
    told.name = "n" * 253
    await watched().world.status_updater.write_event(told)
    (written,) = events_of(fake_api)
    assert len(written["message"]) == _LONGEST_TEXT
    assert len(written["metadata"]["name"]) <= 253
    assert written["metadata"]["name"].startswith("n" * _LONGEST_NAME + ".")


async def test_an_api_server_that_does_not_answer_at_the_start_is_given_up(
    fake_api: FakeApi, session: ApiSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{KUBERNETES}.process._FIRST_TRIES", 3)
    fake_api.trouble.append(Trouble("GET", ".*", times=10**6))
    with pytest.raises(Exception, match="trouble"):
        await check(session, RetryPolicy(FastClock(), Metrics()))
    assert len(fake_api.made("GET", ".*")) == 3


def test_the_oldest_decision_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.adapters.runtime.ledger.REMEMBERED", 2)
    book = ledger()
    for name in "abc":
        book.add([], [bind(name)])
        book.close([f"d-{name}"])
    assert book.add([], [bind("c")]) == []
    assert len(book.add([], [bind("a")])) == 1


def test_configurations_without_a_result_are_limited() -> None:
    side = started()
    for number in range(_MOST_CONFIGURATIONS + 4):
        side.buffer.configuration = Configuration(default_queue=f"q{number}")
        side.outbox.configure()
        side.send()
    assert len(side.outbox.sent_configurations) == _MOST_CONFIGURATIONS


def test_problems_of_a_configuration_are_limited() -> None:
    problems = [ConfigurationProblem(problem="bad")] * (_MOST_PROBLEMS + 5)
    shown = _problems(ConfigurationResult(problems=problems))
    assert len(shown) == _MOST_PROBLEMS + 1
    assert shown[-1] == "and 5 more"

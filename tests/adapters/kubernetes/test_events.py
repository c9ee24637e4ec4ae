"""The event recorder: what is written once, counted, combined or dropped."""

from collections.abc import Callable
from typing import Any

import pytest

from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import ApplyCode
from pumice.v1 import status_pb2
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from tests.adapters.fake_clock import FakeClock, until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble

Watched = Callable[..., Cluster]


def event(message: str = "m", uid: str = "u") -> status_pb2.Event:
    return status_pb2.Event(
        kind=KIND_POD,
        namespace="ns",
        name="p",
        uid=uid,
        warning=True,
        reason="FailedScheduling",
        message=message,
    )


def events_of(api: FakeApi) -> list[dict[str, Any]]:
    return [body for key, body in api.objects.items() if key[0] == "events"]


async def test_the_same_event_is_counted_and_seldom_written(
    fake_api: FakeApi, watched: Watched
) -> None:
    updater = watched().world.status_updater
    for _ in range(100):
        assert (await updater.write_event(event())).code is ApplyCode.DONE
    (written,) = events_of(fake_api)
    assert written["source"]["component"] == "volcano"
    assert written["involvedObject"]["kind"] == "Pod"
    await until(lambda: written["count"] == 100)
    assert len(fake_api.made("PATCH", "/events/")) < 10


async def test_many_texts_of_one_reason_share_an_event(fake_api: FakeApi, watched: Watched) -> None:
    updater = watched().world.status_updater
    for number in range(30):
        await updater.write_event(event(f"{number}/30 tasks"))
    written = events_of(fake_api)
    assert len(written) == 11
    combined = [e for e in written if e["message"].startswith("(combined")]
    await until(lambda: combined[0]["count"] == 20)
    assert combined[0]["message"].endswith("29/30 tasks")


async def test_an_event_whose_answer_was_lost_is_written_once(
    fake_api: FakeApi, watched: Watched
) -> None:
    updater = watched().world.status_updater
    fake_api.trouble.append(Trouble("POST", "/events", loses_answer=True))
    assert (await updater.write_event(event())).code is ApplyCode.TIMED_OUT
    assert (await updater.write_event(event())).code is ApplyCode.DONE
    assert len(events_of(fake_api)) == 1


async def test_the_count_of_an_event_is_given_up_after_some_tries(
    fake_api: FakeApi, watched: Watched, metrics: Metrics
) -> None:
    updater = watched().world.status_updater
    await updater.write_event(event())
    fake_api.trouble.append(Trouble("PATCH", "/events/", times=10**6))
    for _ in range(3):
        assert (await updater.write_event(event())).code is ApplyCode.DONE
    await until(lambda: metrics.counted("dropped_events", cause="given up"))
    assert len(fake_api.made("PATCH", "/events/")) == 5


async def test_only_so_many_events_are_remembered_whatever_waits(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.adapters.kubernetes.events._REMEMBERED", 20)
    updater = watched().world.status_updater
    recorder = updater._events
    # No count becomes due.
    monkeypatch.setattr(recorder, "_clock", FakeClock())
    for number in range(100):
        for _ in range(2):
            # A call may exceed its time on a busy machine.
            while (await updater.write_event(event(uid=f"u{number}"))).code is not ApplyCode.DONE:
                pass
    assert len(recorder._written) == 20
    assert len(recorder._texts) == 20
    assert metrics.counted("dropped_events", cause="count forgotten") == 80


async def test_an_event_of_a_pod_group_names_its_api(fake_api: FakeApi, watched: Watched) -> None:
    told = status_pb2.Event(kind=KIND_POD_GROUP, namespace="ns", name="g", uid="u", reason="R")
    await watched().world.status_updater.write_event(told)
    (written,) = events_of(fake_api)
    assert written["involvedObject"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert written["type"] == "Normal"

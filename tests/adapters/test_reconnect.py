"""Delays between streams: short while a core is away, growing where the core ends what it accepted."""

import itertools
import random

import grpc
import pytest

from pumice.adapters.runtime.clock import Backoff
from pumice.adapters.runtime.stream_end import STEADY_SECONDS, NextStep, ReconnectPolicy, StreamEnd
from pumice.v1.cluster_service_pb2 import (
    GO_AWAY_REASON_SHUTTING_DOWN,
    GO_AWAY_REASON_TOO_SLOW,
    GoAwayReason,
)
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import CountingBackoff
from tests.adapters.fake_core import serve
from tests.adapters.fake_world import pod

REFUSED = StreamEnd(NextStep.AGAIN, "limit", was_useful=True, is_refusal=True)
AWAY = StreamEnd(NextStep.AGAIN, "gone", was_useful=True)


def policy() -> ReconnectPolicy:
    return ReconnectPolicy(Backoff(0.05, 0.4), Backoff(0.2, 30.0), random.Random(1))


def test_streams_that_the_core_ends_come_after_growing_delays() -> None:
    reconnect = policy()
    delays = [reconnect.delay_after(REFUSED, 1.0) for _ in range(12)]
    assert all(later > earlier for earlier, later in itertools.pairwise(delays[:8]))
    assert delays[0] <= 0.2
    assert min(delays[9:]) >= 15.0
    assert max(delays) <= 30.0


def test_a_core_that_is_away_is_sought_at_once_whatever_was_before() -> None:
    reconnect = policy()
    for _ in range(10):
        reconnect.delay_after(REFUSED, 1.0)
    assert reconnect.delay_after(AWAY, 1.0) <= 0.05
    assert reconnect.delay_after(REFUSED, 1.0) >= 15.0


def test_a_stream_that_lasted_makes_up_for_earlier_ones() -> None:
    reconnect = policy()
    for _ in range(10):
        reconnect.delay_after(REFUSED, 1.0)
    assert reconnect.delay_after(REFUSED, STEADY_SECONDS) <= 0.2


def test_the_core_may_ask_for_a_longer_delay() -> None:
    end = StreamEnd(NextStep.AGAIN, "busy", retry_after_seconds=7.0, is_refusal=True)
    assert policy().delay_after(end, 0.0) == 7.0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.ABORTED, "STATE_LOST"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED"),
        (grpc.StatusCode.ABORTED, "SEQUENCE_GAP"),
        (grpc.StatusCode.INTERNAL, "INTERNAL"),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_a_core_that_takes_each_snapshot_and_then_ends_gets_fewer_with_time(
    stage: Stage, code: grpc.StatusCode, reason: str
) -> None:
    stage.world.store.put(pod("a"))
    refused = CountingBackoff()
    stage.start(stage.adapter(refusal_backoff=refused))
    for _ in range(4):
        served = serve(await stage.core.accept())
        await served.snapshot_done()
        await served.close()
        served.stream.end(code, "no", reason)
    await stage.core.accept()
    assert refused.asked == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("reason", "asked"), [(GO_AWAY_REASON_SHUTTING_DOWN, []), (GO_AWAY_REASON_TOO_SLOW, [1])]
)
async def test_an_adapter_that_is_sent_away_waits_unless_the_core_ends(
    stage: Stage, reason: GoAwayReason.ValueType, asked: list[int]
) -> None:
    refused = CountingBackoff()
    stage.start(stage.adapter(refusal_backoff=refused))
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    await served.close()
    served.stream.go_away(reason)
    await stage.core.accept()
    assert refused.asked == asked


async def test_a_core_that_begins_anew_gets_what_the_world_kept_for_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A core that has not decided the binds does not assume them."""
    stage.world.store.put(pod("a"))
    stage.start(stage.adapter())
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    monkeypatch.setattr(
        stage.world,
        "release_events",
        lambda: stage.world.store.put(pod("a", node="n1")),
        raising=False,
    )
    await served.close()
    served.stream.end(grpc.StatusCode.ABORTED, "no", "STATE_LOST")
    again = serve(await stage.core.accept())
    await again.snapshot_done()
    assert [held.pod.node_name for _, held in again.model.objects.values()] == ["n1"]
    await again.close()

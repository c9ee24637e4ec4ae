"""An adapter that is asked to end completes gangs that have begun, and begins no others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pumice.adapters.runtime.errors import FencedError
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.world import DONE, ApplyResult
from pumice.v1.cluster_service_pb2 import (
    GO_AWAY_REASON_FENCED,
    GO_AWAY_REASON_SHUTTING_DOWN,
    StatusBatch,
)
from pumice.v1.decision_pb2 import Gang
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import PodGroupStatusChange, StatusChange
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import settle, until
from tests.adapters.fake_core import ServedStream, serve
from tests.adapters.fake_world import bind, gang, group, pod

FIRST, SECOND = ("a", "b", "c"), ("x", "y")
OTHER = Gang(id="g2", job="ns/job", pod_group_uid="uid-job", spec_hash="h1", size=2)


def behind(gate: asyncio.Event, stage: Stage, name: str) -> Callable[[], Awaitable[ApplyResult]]:
    """A bind that is done when the gate opens."""

    async def answer() -> ApplyResult:
        await gate.wait()
        return await stage.world.bind(bind(name).bind)

    return answer


class MidGang:
    """The first gang is being bound, one member at a time; the second one waits."""

    def __init__(self, stage: Stage, adapter: AdapterRuntime, stream: ServedStream) -> None:
        self.stage, self.adapter, self.stream = stage, adapter, stream
        self.gate = asyncio.Event()

    @classmethod
    async def begin(cls, stage: Stage, **options: Any) -> "MidGang":
        stage.world.store.put(group())
        for name in (*FIRST, *SECOND):
            stage.world.store.put(pod(name))
        adapter = stage.adapter(calls_in_flight=1, **options)
        made = cls(stage, adapter, None)  # type: ignore[arg-type]
        made.run = stage.start(adapter)
        made.stream = serve(await stage.core.accept())
        await made.stream.snapshot_done()
        stage.world.answers["a"] = [behind(made.gate, stage, "a")]
        made.stream.stream.decide([bind(name, gang_id="g1") for name in FIRST], [gang(3)])
        made.stream.stream.decide([bind(name, gang_id="g2") for name in SECOND], [OTHER])
        await until(lambda: adapter.metrics.counted("decisions") == 5)
        await until(lambda: stage.world.called("bind") == ["a"])
        return made

    run: "asyncio.Task[None]"

    def bound(self) -> set[str]:
        store = self.stage.world.store
        found = (store.read(KIND_POD, "ns", name).object for name in (*FIRST, *SECOND))
        return {one.pod.name for one in found if one is not None and one.pod.node_name}


async def test_a_drain_completes_the_gang_that_has_begun_and_no_other(stage: Stage) -> None:
    mid = await MidGang.begin(stage)
    mid.adapter.drain()
    await settle()
    assert not mid.run.done()
    mid.gate.set()
    await asyncio.wait_for(mid.run, 30)
    assert mid.bound() == set(FIRST)
    # The core knows what became of them before the adapter ends.
    assert {outcome.decision_id for outcome in mid.stream.model.outcomes} == {"d-a", "d-b", "d-c"}
    assert sum("Successfully assigned" in text for text in stage.world.called("event")) == 3


async def test_a_draining_adapter_takes_no_new_decisions(stage: Stage) -> None:
    mid = await MidGang.begin(stage)
    stage.world.store.put(pod("late"))
    mid.adapter.drain()
    await settle()
    mid.stream.stream.decide([bind("late")])
    await until(lambda: mid.adapter.metrics.counted("decisions") == 6)
    mid.gate.set()
    await asyncio.wait_for(mid.run, 30)
    assert "late" not in stage.world.called("bind")


async def test_a_drain_ends_in_time_whatever_the_cluster_does(stage: Stage) -> None:
    mid = await MidGang.begin(stage, shutdown_timeout_seconds=0.1)
    mid.adapter.drain()
    await asyncio.wait_for(mid.run, 30)
    assert mid.adapter.metrics.counted("drain_timeouts") == 1


async def test_a_drain_does_not_need_the_core(stage: Stage) -> None:
    mid = await MidGang.begin(stage)
    mid.stream.stream.go_away(GO_AWAY_REASON_SHUTTING_DOWN)
    await mid.stream.close()
    mid.adapter.drain()
    await settle()
    mid.gate.set()
    await asyncio.wait_for(mid.run, 30)
    assert mid.bound() == set(FIRST)


async def test_a_core_that_ends_leaves_no_gang_in_part(stage: Stage) -> None:
    mid = await MidGang.begin(stage)
    mid.stream.stream.go_away(GO_AWAY_REASON_SHUTTING_DOWN)
    await mid.stream.close()
    await until(lambda: mid.adapter.metrics.counted("dropped_decisions") == len(SECOND))
    mid.gate.set()
    await until(lambda: mid.bound() == set(FIRST))


async def test_a_fenced_adapter_completes_nothing(stage: Stage) -> None:
    mid = await MidGang.begin(stage)
    mid.stream.stream.go_away(GO_AWAY_REASON_FENCED)
    await mid.stream.close()
    with pytest.raises(FencedError):
        await mid.run
    mid.gate.set()
    await settle()
    assert mid.bound() == set()


async def test_a_drain_does_not_wait_for_binds_that_no_longer_come(stage: Stage) -> None:
    mid = await MidGang.begin(stage, waiting_report_seconds=30.0)

    async def slow() -> ApplyResult:
        await asyncio.sleep(0.05)
        return DONE

    for name in FIRST:
        stage.world.answers[f"event {name}"] = [slow]
    counters = PodGroupStatusChange(
        namespace="ns", name="job", uid="uid-job", status=PodGroupStatus(running=1)
    )
    mid.stream.stream.say_status(StatusBatch(changes=[StatusChange(pod_group=counters)]))
    await until(lambda: not mid.adapter._statuses.is_idle)
    mid.adapter.drain()
    await settle()
    mid.gate.set()
    await asyncio.wait_for(mid.run, 30)
    assert stage.world.called("status") == ["job"]
    assert mid.adapter.metrics.counted("event_writes", result="done") == 3

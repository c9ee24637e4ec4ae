"""A cluster that is not scheduled says so wherever somebody looks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pumice.server.pause import MAX_EVENTS, PauseReason
from pumice.v1 import object_pb2
from pumice.v1.scheduling_service_pb2 import ExplainRequest
from tests.server.running import RunningCore, ScriptedAdapter, configuration, gang, node, queue

GOOD = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
STATUS = health_pb2.HealthCheckResponse
SERVING, NOT_SERVING = STATUS.SERVING, STATUS.NOT_SERVING


async def until(fact: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not fact():
            await asyncio.sleep(0.01)


async def health(core: RunningCore, service: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(core.channel())
    return int((await stub.Check(health_pb2.HealthCheckRequest(service=service))).status)


def reason(core: RunningCore) -> PauseReason | None:
    pause = core.server._clusters.find("c1").served.pause
    return None if pause is None else pause.reason


def gauge(core: RunningCore, why: PauseReason) -> float:
    labels = {"cluster": "c1", "reason": why.value}
    found = core.env.metrics.paused.labels(why.value, "c1")
    assert labels
    return float(found._value.get())


async def sentence(core: RunningCore, job: str) -> str:
    request = ExplainRequest()
    request.job.namespace, request.job.name = "team", job
    answer = await core.scheduling().Explain(request)
    return str(answer.explanation.sentence)


async def test_without_a_configuration_everybody_is_told(
    core: RunningCore, caplog: pytest.LogCaptureFixture
) -> None:
    bad = configuration("actions: [\n")
    adapter = await core.served([queue(), node("n1"), *gang("job", 2)], bad)
    message = "no valid configuration: nothing is scheduled"
    events = (await adapter.next("status_batch")).events
    assert [(e.name, e.reason, e.warning, e.message) for e in events] == [
        ("job", "SchedulingPaused", True, message)
    ]
    assert reason(core) is PauseReason.NO_CONFIGURATION
    assert gauge(core, PauseReason.NO_CONFIGURATION) == 1
    assert await health(core, "cluster/c1") == NOT_SERVING
    assert await health(core, "") == SERVING
    assert (await sentence(core, "job")).startswith(f"{message[0].upper()}{message[1:]}. ")
    assert f"c1: {message}" in [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    await adapter.configure(configuration(GOOD))
    await until(lambda: reason(core) is None)
    assert gauge(core, PauseReason.NO_CONFIGURATION) == 0
    assert len(await adapter.decisions()) == 2
    assert await health(core, "cluster/c1") == SERVING


async def drifted(core: RunningCore) -> ScriptedAdapter:
    """An adapter that claims a pod which it never sends."""
    adapter = await core.served([queue(), node("n1"), *gang("job", 9)])
    await adapter.next("status_batch")
    adapter.sums.put(object_pb2.KIND_POD, "ghost", 7)
    await adapter.digest()
    for _ in range(2):
        resync = await adapter.next("resync")
        assert list(resync.kinds) == [object_pb2.KIND_POD]
        await adapter.snapshot(gang("job", 9)[1:], kinds=[object_pb2.KIND_POD])
    return adapter


async def test_drift_that_stays_is_told(core: RunningCore) -> None:
    await drifted(core)
    await until(lambda: reason(core) is PauseReason.DRIFT)
    assert gauge(core, PauseReason.DRIFT) == 1
    assert await health(core, "cluster/c1") == NOT_SERVING
    assert "hold different objects (Pod): nothing is scheduled" in await sentence(core, "job")


async def test_a_cluster_without_its_adapter_is_paused_and_health_follows(
    core: RunningCore,
) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 9)])
    await until(lambda: reason(core) is None)
    await until(lambda: gauge(core, PauseReason.NO_ADAPTER) == 0)
    assert await health(core, "cluster/c1") == SERVING
    adapter.cut()
    await until(lambda: reason(core) is PauseReason.NO_ADAPTER)
    assert await health(core, "cluster/c1") == NOT_SERVING
    assert (await sentence(core, "job")).startswith("No adapter is connected")


async def test_events_about_a_pause_are_limited(core: RunningCore) -> None:
    waiting = [one for number in range(MAX_EVENTS + 5) for one in gang(f"w{number}", 1)]
    adapter = await core.served([queue(), *waiting], configuration("actions: [\n"))
    assert len((await adapter.next("status_batch")).events) == MAX_EVENTS


TREE = (
    'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    "  - name: predicates\n  - name: capacity\n    enableHierarchy: true\n"
)


async def test_a_queue_without_its_parent_is_told(
    core: RunningCore, caplog: pytest.LogCaptureFixture
) -> None:
    queues = [queue("root"), queue("kid", parent="lost")]
    adapter = await core.served([*queues, node("n1"), *gang("job", 1)], configuration(TREE))
    text = "queue kid: its parent lost does not exist, so nothing is scheduled"
    found: list[Any] = []
    while not found:
        batch = await adapter.next("status_batch")
        found = [event for event in batch.events if event.kind == object_pb2.KIND_QUEUE]
    assert [(e.name, e.uid, e.reason, e.warning, e.message) for e in found] == [
        ("kid", "queue-kid", "QueueTreeInvalid", True, text)
    ]
    assert core.metric("pumice_broken_queues") == 1
    assert f"c1: {text}" in [record.getMessage() for record in caplog.records]
    await adapter.tell(queue("kid", parent="root"))
    core.clock.advance(2)
    await until(lambda: core.metric("pumice_broken_queues") == 0)

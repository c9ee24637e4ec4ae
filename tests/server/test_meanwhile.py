"""What is answered, and what is begun, while a long session runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.v1 import object_pb2, pod_pb2
from pumice.v1.scheduling_service_pb2 import ExplainRequest, ExplainResponse, ObjectName
from tests.server.holding import WAITING, Hold, hold_a_session, holding_core, in_a_session
from tests.server.running import (
    RunningCore,
    configuration,
    gang,
    group,
    node,
    pod,
    queue,
    tombstone,
)
from tests.server.test_replicas import followers
from tests.server.trials import live, schedule


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
async def core(socket_folder: Path, hold: Hold) -> AsyncIterator[RunningCore]:
    async with holding_core(socket_folder, hold) as running:
        yield running


async def test_a_job_is_explained_while_a_session_runs(core: RunningCore, hold: Hold) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 9)], WAITING)
    await core.session(1)
    await hold_a_session(core, hold, adapter, node("n2", 1000))
    stub, named = core.scheduling(), ObjectName(namespace="team", name="job")
    early = await stub.Explain(ExplainRequest(job=named))
    assert not hold.let_go.is_set()
    assert early.without_nodes
    assert (early.session, early.based_on_seq) == (1, adapter.seq)
    assert "must start together fit" in early.explanation.sentence
    assert early.explanation.history
    assert not early.explanation.nearest_nodes
    # One with patience gets all of it when the session ends.
    asking = stub.Explain(ExplainRequest(job=named, max_wait=Duration(seconds=30)))
    hold.let_go.set()
    late = await asking
    assert not late.without_nodes
    assert late.explanation.nearest_nodes
    assert late.explanation.blocking_pod == "job-5"
    assert "no node takes job-5" in late.explanation.sentence
    assert "the nearest node for job-5 is n1, which lacks 1 cpu" in late.explanation.sentence


async def explained_pod(core: RunningCore, name: str, **fields: Any) -> ExplainResponse:
    named = ObjectName(namespace="team", name=name)
    response: ExplainResponse = await core.scheduling().Explain(ExplainRequest(pod=named, **fields))
    return response


async def test_pods_are_explained_while_a_session_runs(core: RunningCore, hold: Hold) -> None:
    waits = [group("waits", 1), pod("waits", 0, 9000), pod("lost", 0)]
    shut = pod("shut", 0)
    shut.pod.spec.scheduling_gates.append("example.com/quota")
    objects = [queue(), node("n1"), *gang("job", 2), *waits, group("shut", 1), shut]
    adapter = await core.served(objects, WAITING)
    await core.session(1)
    await hold_a_session(core, hold, adapter, node("n2", 1000))
    placed, pending, lost, gated = [
        await explained_pod(core, name) for name in ("job-0", "waits-0", "lost-0", "shut-0")
    ]
    assert not hold.let_go.is_set()
    for early in (placed, pending, lost, gated):
        assert early.without_nodes
        assert (early.session, early.based_on_seq) == (1, adapter.seq)
    told = placed.explanation
    assert told.sentence == "pod job-0 is on n1, where allocate put it in session 1."
    assert [(p.pod, p.node.node, p.session) for p in told.placements] == [("job-0", "n1", 1)]
    told = pending.explanation
    assert (told.job, told.queue, told.blocking_pod) == ("team/waits", "default", "waits-0")
    assert "no node takes waits-0" in told.sentence
    assert told.history
    assert not told.nearest_nodes
    assert lost.explanation.sentence == "pod lost-0 waits: its PodGroup team/lost does not exist."
    assert "shut-0 has a scheduling gate (example.com/quota)" in gated.explanation.sentence
    # One with patience gets all of it when the session ends.
    asking = asyncio.ensure_future(explained_pod(core, "waits-0", max_wait=Duration(seconds=30)))
    hold.let_go.set()
    late = await asking
    assert not late.without_nodes
    assert [nearest.node for nearest in late.explanation.nearest_nodes] == ["n1", "n2"]


async def test_an_evicted_pod_is_explained_while_a_session_runs(
    core: RunningCore, hold: Hold
) -> None:
    low = pod("low", 0, 3000, node_name="n1", phase=pod_pb2.POD_PHASE_RUNNING, priority=1)
    urgent = object_pb2.ClusterObject()
    urgent.priority_class.uid = urgent.priority_class.name = "high"
    urgent.priority_class.value = 100
    high = [group("high", 1, priority_class_name="high"), pod("high", 0, 3000, priority=100)]
    preempting = configuration(
        'actions: "enqueue, allocate, preempt"\n'
        "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n"
        "- plugins:\n  - name: predicates\n  - name: proportion\n  - name: waiting\n"
    )
    adapter = await core.served(
        [queue(), node("n1"), urgent, group("low", 0), low, *high], preempting
    )
    await adapter.decisions()
    await hold_a_session(core, hold, adapter, *gang("other", 1))
    going = await explained_pod(core, "low-0")
    assert not hold.let_go.is_set()
    assert going.without_nodes
    assert "was evicted from n1 in session 1" in going.explanation.sentence
    hold.let_go.set()
    await core.session(2)
    # Also when it is gone.
    hold.reached.clear()
    await hold_a_session(core, hold, adapter, tombstone(object_pb2.KIND_POD, "pod-low-0"))
    gone = await explained_pod(core, "low-0")
    assert not hold.let_go.is_set()
    assert gone.without_nodes
    assert "to make room for team/high" in gone.explanation.sentence


async def test_a_pod_that_came_during_a_session_is_waited_for(
    core: RunningCore, hold: Hold
) -> None:
    adapter = await core.served([queue(), node("n1"), *gang("job", 2)], WAITING)
    await core.session(1)
    await hold_a_session(core, hold, adapter, node("n2"))
    await adapter.post(*gang("late", 1, 9000))
    asking = asyncio.ensure_future(explained_pod(core, "late-0"))
    await asyncio.wait({asking}, timeout=0.2)
    assert not asking.done()
    hold.let_go.set()
    assert not (await asking).without_nodes


async def test_a_follower_starts_beside_a_session_and_hears_what_it_decided(
    core: RunningCore, hold: Hold
) -> None:
    await in_a_session(core, hold, *gang("other", 2))
    asking = asyncio.ensure_future(schedule(core, live("r1", *gang("mine", 1))))
    async with asyncio.timeout(60):
        while not followers():
            await asyncio.sleep(0.02)
    assert not hold.let_go.is_set()
    hold.let_go.set()
    # Four fit, of which two were bound before the session and two in it.
    response = await asking
    assert [wait.job for wait in response.waits] == ["team/mine"]


async def test_no_process_is_started_for_a_cluster_that_is_not_complete(core: RunningCore) -> None:
    await core.adapter().connect()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await schedule(core, live("r1"))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not followers()


async def test_patience_has_an_end(core: RunningCore) -> None:
    await core.served([queue()])
    named = ObjectName(namespace="team", name="job")
    with pytest.raises(grpc.aio.AioRpcError, match="max_wait 31 s is not between 0 and 30 s"):
        await core.scheduling().Explain(ExplainRequest(job=named, max_wait=Duration(seconds=31)))

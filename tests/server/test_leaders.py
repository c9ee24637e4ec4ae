"""Who is listened to: epochs, incarnations, and streams that come back."""

import asyncio
import threading
from pathlib import Path

import grpc
import pytest

from pumice.client.details import read_status_details
from pumice.server import errors
from pumice.server.limits import Limits
from pumice.v1 import cluster_service_pb2, decision_pb2, object_pb2
from tests.server.running import RunningCore, gang, node, outcome, pod, queue, running_core

RESUME = cluster_service_pb2.WELCOME_MODE_RESUME
SNAPSHOT = cluster_service_pb2.WELCOME_MODE_SNAPSHOT
Code = grpc.StatusCode
EMPTY = [queue(), node("n1")]


async def test_an_old_epoch_is_fenced(core: RunningCore) -> None:
    await core.served(EMPTY, epoch=5)
    old = core.adapter(epoch=4, adapter_id="a2")
    await old.send(hello=old.hello)
    code, metadata = await old.ended_with()
    detail = read_status_details(metadata)
    assert code == Code.FAILED_PRECONDITION
    assert detail.reason == "EPOCH_STALE"


async def test_the_epoch_outlives_the_stream(core: RunningCore) -> None:
    leader = await core.served(EMPTY, epoch=5)
    await leader.close()
    old = core.adapter(epoch=4, adapter_id="a2")
    await old.send(hello=old.hello)
    assert (await old.ended_with())[0] == Code.FAILED_PRECONDITION


async def test_a_new_leader_fences_the_old_one(core: RunningCore) -> None:
    old = await core.served(EMPTY, epoch=5)
    new = core.adapter(epoch=6, adapter_id="a2", incarnation="i2")
    assert (await new.connect()).mode == SNAPSHOT
    farewell = await old.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_FENCED
    assert (await old.ended_with())[0] == Code.OK


async def test_two_adapters_at_one_epoch_are_one_too_many(core: RunningCore) -> None:
    first = await core.served(EMPTY)
    second = core.adapter(adapter_id="a2", incarnation="i2")
    await second.send(hello=second.hello)
    assert (await second.ended_with())[0] == Code.ALREADY_EXISTS
    await first.tell(node("n2"))


async def test_the_newer_stream_of_an_adapter_replaces_the_older(core: RunningCore) -> None:
    older = await core.served(EMPTY)
    newer = core.adapter(last_acknowledged_seq=older.seq, digests=older.sums.write())
    assert (await newer.connect()).mode == RESUME
    farewell = await older.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_REPLACED
    await newer.tell(node("n2"))


async def test_a_stream_resumes_where_it_was_cut(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    # StateCheckpoint in, but the answer is lost.
    await adapter.post(*gang("job", 2))
    await adapter.acknowledged()
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=3, digests=[])
    welcome = await again.connect()
    assert (welcome.mode, welcome.resume_after_seq) == (RESUME, adapter.seq)
    core.clock.advance(1)
    assert len(await again.decisions()) == 2


async def test_a_stream_that_was_told_more_than_we_hold_is_not_resumed(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=adapter.seq + 1)
    assert (await again.connect()).mode == SNAPSHOT


async def test_a_stream_whose_digests_differ_is_not_resumed(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    adapter.cut()
    adapter.sums.put(object_pb2.KIND_NODE, "another", 1)
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
    assert (await again.connect()).mode == SNAPSHOT


async def test_a_restarted_adapter_begins_anew(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    await adapter.decisions()
    adapter.cut()
    again = core.adapter(incarnation="i2")
    assert (await again.connect()).mode == SNAPSHOT
    # Numbers from 1, and what the old process knew is gone.
    await again.snapshot([*EMPTY, *gang("other", 1)])
    assert [d.bind.name for d in await again.decisions()] == ["other-0"]


async def test_after_a_snapshot_nothing_is_assumed(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    first = await adapter.decisions()
    adapter.cut()
    again = core.adapter(incarnation="i2")
    await again.connect()
    await again.snapshot([*EMPTY, *gang("job", 1)])
    second = await again.decisions()
    assert [d.bind.name for d in second] == ["job-0"]
    assert second[0].id != first[0].id


async def test_decisions_lost_with_a_stream_are_made_again(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1), *gang("held", 1)])
    made = {d.bind.name: d.id for d in await adapter.decisions()}
    adapter.cut()
    again = core.adapter(
        last_acknowledged_seq=adapter.seq,
        digests=adapter.sums.write(),
        held_decision_ids=[made["held-0"]],
    )
    assert (await again.connect()).mode == RESUME
    core.clock.advance(1)
    anew = await again.decisions()
    assert [d.bind.name for d in anew] == ["job-0"]
    assert core.metric("pumice_lost_decisions_total") == 1


async def test_statuses_that_may_be_lost_are_told_again(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("large", 1, cpu=99_000)])
    await core.session(1)
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
    assert (await again.connect()).mode == RESUME
    told = await again.next("status_batch")
    assert {change.pod_group.name for change in told.changes} >= {"large"}
    # What came back is not told again.
    again.sums, again._revision = adapter.sums, adapter._revision
    await again.tell(*gang("large", 1, cpu=99_000))
    again.cut()
    third = core.adapter(last_acknowledged_seq=again.seq, digests=again.sums.write())
    await third.connect()
    await third.tell(node("n2"))
    kept = [m for m in third._kept if m.HasField("status_batch")]
    assert not [c for m in kept for c in m.status_batch.changes if c.HasField("pod_group")]


async def until_forgotten(core: RunningCore, name: str) -> None:
    async with asyncio.timeout(20):
        while name in core.server._clusters.names():
            await asyncio.sleep(0.01)


async def test_a_cluster_that_nobody_comes_back_for_is_forgotten(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.close()
    cluster = core.server._clusters.find("c1")
    assert await cluster.owner.call(lambda served: served.complete)
    core.clock.advance(3601)
    await until_forgotten(core, "c1")
    assert not cluster.owner._thread.is_alive()
    with pytest.raises(errors.NotReadyError):
        await cluster.owner.call(lambda served: served.complete)
    assert core.metric("pumice_streams") == 0
    assert not [t for t in threading.enumerate() if t.name == "owner of c1"]
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
    assert (await again.connect()).mode == SNAPSHOT


async def test_an_adapter_that_comes_back_when_its_cluster_is_removed_gets_a_new_one(
    core: RunningCore,
) -> None:
    adapter = await core.served(EMPTY)
    await adapter.close()
    clusters = core.server._clusters
    (removed,) = clusters.all()
    clusters._abandoned(removed)
    # No other task has run yet.
    assert clusters.of("c1") is not removed
    await core.served(EMPTY)


async def test_what_was_applied_before_the_cut_is_not_lost(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    made = (await adapter.decisions())[0]
    await adapter.tell(outcome(made.id, decision_pb2.OUTCOME_CODE_APPLIED))
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=adapter.sums.write())
    assert (await again.connect()).mode == RESUME
    core.clock.advance(1)
    await again.tell(pod("job", 0, node_name="n1"), *gang("other", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await again.decisions()] == ["other-0"]


async def test_names_that_never_were_complete_are_forgotten_soon(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(max_clusters=3)) as core:
        for number in range(3):
            junk = core.adapter(cluster=f"junk{number}")
            await junk.connect()
            junk.cut()
        full = core.adapter(cluster="honest")
        await full.send(hello=full.hello)
        assert (await full.ended_with())[0] is Code.RESOURCE_EXHAUSTED
        while [c for c in core.server._clusters.all() if c.stream is not None]:
            await asyncio.sleep(0.01)
        for cluster in core.server._clusters.all():
            await cluster.owner.call(lambda _: None)
        core.clock.advance(61)
        for number in range(3):
            await until_forgotten(core, f"junk{number}")
        await core.served(EMPTY, cluster="honest")


async def test_an_unfinished_snapshot_of_a_cut_stream_is_dropped_at_once(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    begin = cluster_service_pb2.SnapshotBegin(first_seq=1)
    await adapter.send(snapshot_begin=begin)
    await adapter.tell(*(node(f"n{number}") for number in range(50)))
    cluster = core.server._clusters.find("c1")
    assert await cluster.owner.call(lambda served: served.state.sums.total()) == 50
    adapter.cut()
    async with asyncio.timeout(20):
        while await cluster.owner.call(lambda served: served.state.sums.total()):
            await asyncio.sleep(0.01)


async def test_an_epoch_ahead_keeps_others_out_for_a_minute_at_most(core: RunningCore) -> None:
    now_ms = core.clock.now_ns() // 1_000_000
    far = core.adapter(epoch=now_ms + 61_000)
    await far.send(hello=far.hello)
    assert (await far.ended_with())[0] is Code.OUT_OF_RANGE
    near = core.adapter(epoch=now_ms + 59_000, adapter_id="liar")
    await near.connect()
    near.cut()
    honest = core.adapter(epoch=now_ms)
    await honest.send(hello=honest.hello)
    assert (await honest.ended_with())[0] is Code.FAILED_PRECONDITION
    await core.server._clusters.forget("c1", force=True)
    again = core.adapter(epoch=now_ms)
    await again.connect()

"""The stream: its beginning, its numbers, and what ends it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest

from pumice.client.details import read_status_details
from pumice.server.limits import Limits
from pumice.server.stream import AdapterStream
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2
from tests.server.running import (
    SECOND,
    START,
    RunningCore,
    ScriptedAdapter,
    gang,
    node,
    pod,
    queue,
    running_core,
    tombstone,
)

Code = grpc.StatusCode
SMALL = [queue(), node("n1"), *gang("job", 2)]
EMPTY = [queue(), node("n1")]


def batch(first_seq: int, ops: int, **fields: str) -> delta_pb2.DeltaBatch:
    held = [delta_pb2.Op() for _ in range(ops)]
    return delta_pb2.DeltaBatch(first_seq=first_seq, ops=held, **fields)


async def refusal(adapter: ScriptedAdapter) -> tuple[grpc.StatusCode, str]:
    code, metadata = await adapter.ended_with()
    detail = read_status_details(metadata)
    return code, detail.reason


async def test_a_snapshot_is_decided_on_at_once(core: RunningCore) -> None:
    adapter = await core.served(SMALL)
    decided = await adapter.next("decision_batch")
    assert [d.bind.name for d in decided.decisions] == ["job-0", "job-1"]
    assert [g.size for g in decided.gangs] == [2]
    assert (decided.epoch, decided.based_on_seq) == (1, adapter.seq)
    assert decided.decisions[0].id.startswith(core.env.core_id)


# The beginning.


async def test_the_first_message_must_be_hello(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.send(delta_batch=batch(1, 1))
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "HELLO_MISSING")


async def test_a_stream_that_says_nothing_is_refused(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter._call.done_writing()
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "HELLO_MISSING")


async def test_a_second_hello_is_refused(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(hello=adapter.hello)
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "HELLO_REPEATED")


@pytest.mark.parametrize(
    ("wrong", "code", "reason"),
    [
        ({"cluster": ""}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"incarnation": ""}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"adapter_id": ""}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"adapter_id": "x" * 300}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"epoch": 0}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"epoch": START // 10**6 + 2 * 86_400_000}, Code.OUT_OF_RANGE, "EPOCH_TOO_HIGH"),
        ({"last_acknowledged_seq": -1}, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_a_hello_that_makes_no_sense_is_refused(
    core: RunningCore, wrong: dict[str, Any], code: grpc.StatusCode, reason: str
) -> None:
    adapter = core.adapter(**wrong)
    await adapter.send(hello=adapter.hello)
    assert await refusal(adapter) == (code, reason)


async def test_an_adapter_of_another_protocol_is_told_so(core: RunningCore) -> None:
    adapter = core.adapter()
    adapter.hello.min_protocol, adapter.hello.max_protocol = 7, 9
    await adapter.send(hello=adapter.hello)
    assert await refusal(adapter) == (Code.UNIMPLEMENTED, "PROTOCOL_VERSION_UNSUPPORTED")


async def test_welcome_names_the_limits(core: RunningCore) -> None:
    welcome = await core.adapter().connect()
    assert welcome.mode == cluster_service_pb2.WELCOME_MODE_SNAPSHOT
    assert welcome.limits.credit == core.env.limits.credit
    assert welcome.limits.max_message_bytes == 4 * 1024 * 1024
    assert welcome.effective_config_hash == ""


# Numbers.


async def test_duplicates_are_no_ops(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    taken = core.metric("pumice_ops_total")
    for first in (1, 2, adapter.seq):
        await adapter.send(delta_batch=batch(first, 1))
        assert (await adapter.next("ack")).applied_seq == adapter.seq
    assert core.metric("pumice_ops_total") == taken


async def test_a_batch_that_is_old_in_part_brings_the_rest(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    old = adapter.seq
    ops = [delta_pb2.Op(), *adapter.upserts(gang("job", 1))]
    await adapter.send(delta_batch=delta_pb2.DeltaBatch(first_seq=old, ops=ops))
    assert (await adapter.next("ack")).applied_seq == old + 2
    core.clock.advance(1)
    assert [d.bind.name for d in await adapter.decisions()] == ["job-0"]


async def test_a_gap_is_refused(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.send(delta_batch=batch(adapter.seq + 2, 1))
    assert await refusal(adapter) == (Code.ABORTED, "SEQUENCE_GAP")


async def test_numbers_begin_with_one(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.send(delta_batch=batch(0, 1))
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "SEQUENCE_NUMBER_INVALID")


async def test_a_batch_of_another_incarnation_is_refused(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.send(delta_batch=batch(adapter.seq + 1, 1, incarnation="i2"))
    assert await refusal(adapter) == (Code.FAILED_PRECONDITION, "INCARNATION_MISMATCH")


async def test_ops_and_messages_from_the_future_are_ignored(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await adapter.send()
    await adapter.send(delta_batch=batch(adapter.seq + 1, 1))
    assert (await adapter.next("ack")).applied_seq == adapter.seq + 1


async def test_more_than_the_credit_is_refused(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(credit=10)) as core:
        adapter = await core.served(EMPTY)
        await adapter.send(delta_batch=batch(adapter.seq + 1, 11))
        code, metadata = await adapter.ended_with()
        detail = read_status_details(metadata)
        assert code == Code.RESOURCE_EXHAUSTED
        assert (detail.limit_name, detail.limit, detail.given) == ("credit", 10, 11)


async def test_a_message_over_the_limit_is_refused(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    huge = pod("job", 0, annotations={"a": "x" * 5 * 1024 * 1024})
    await adapter.post(huge)
    code, metadata = await adapter.ended_with()
    assert code == Code.RESOURCE_EXHAUSTED
    detail = read_status_details(metadata)
    assert (detail.limit_name, detail.limit) == ("bytes of a message", 4 * 1024 * 1024)
    assert detail.given > 5 * 1024 * 1024
    # The cluster is unharmed.
    again = core.adapter(incarnation="i2")
    assert (await again.connect()).core_id == core.env.core_id


async def test_so_is_a_first_message_over_the_limit(core: RunningCore) -> None:
    adapter = core.adapter(adapter_id="x" * 5 * 1024 * 1024)
    await adapter.send(hello=adapter.hello)
    assert (await adapter.ended_with())[0] == Code.RESOURCE_EXHAUSTED


# Snapshots.


async def test_nothing_is_taken_before_the_snapshot_begins(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(delta_batch=batch(1, 1))
    assert await refusal(adapter) == (Code.FAILED_PRECONDITION, "SNAPSHOT_EXPECTED")


async def test_an_end_marker_needs_a_beginning(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(snapshot_end=cluster_service_pb2.SnapshotEnd(seq=0))
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "SNAPSHOT_MARKER_UNEXPECTED")


async def test_an_end_marker_must_name_the_last_op(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
    await adapter.send(snapshot_end=cluster_service_pb2.SnapshotEnd(seq=7))
    assert await refusal(adapter) == (Code.ABORTED, "SNAPSHOT_END_MISMATCH")


async def test_a_whole_snapshot_was_asked_for(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    begin = cluster_service_pb2.SnapshotBegin(first_seq=1, kinds=[object_pb2.KIND_POD])
    await adapter.send(snapshot_begin=begin)
    assert await refusal(adapter) == (Code.INVALID_ARGUMENT, "SNAPSHOT_MARKER_UNEXPECTED")


async def test_an_adapter_that_dies_in_a_snapshot_leaves_it_undone(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
    await adapter.tell(*SMALL)
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=adapter.seq)
    assert (await again.connect()).mode == cluster_service_pb2.WELCOME_MODE_SNAPSHOT
    core.clock.advance(5)
    await again.snapshot(EMPTY)
    core.clock.advance(1)
    await again.tell(*gang("other", 1))
    core.clock.advance(1)
    assert [d.bind.name for d in await again.decisions()] == ["other-0"]


async def test_a_snapshot_that_takes_too_long_is_ended(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
    await adapter.tell(*SMALL)
    core.clock.advance(301)
    farewell = await adapter.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW


async def test_unfinished_snapshots_of_a_peer_are_limited(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(snapshots_per_peer=1)) as core:
        first = core.adapter(cluster="c1")
        await first.connect()
        await first.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
        await first.tell(*SMALL)
        second = core.adapter(cluster="c2")
        await second.connect()
        await second.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
        assert await refusal(second) == (Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")


async def test_streams_of_a_peer_are_limited(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(streams_per_peer=1)) as core:
        await core.adapter(cluster="c1").connect()
        second = core.adapter(cluster="c2")
        await second.send(hello=second.hello)
        assert await refusal(second) == (Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")


async def test_silent_streams_do_not_lock_an_address_out(socket_folder: Path) -> None:
    limits = Limits(streams_per_peer=4)
    async with running_core(socket_folder, limits) as core:
        silent = [core.adapter(cluster=f"s{number}") for number in range(4)]
        for each in silent:
            await each._call.wait_for_connection()
        await asyncio.sleep(0.1)
        honest = core.adapter(cluster="c1")
        await honest.connect()
        assert (await silent[0].ended_with())[0] is Code.DEADLINE_EXCEEDED


async def test_a_stream_without_hello_ends_after_a_while(socket_folder: Path) -> None:
    limits = Limits(hello_timeout_ns=SECOND // 5)
    async with running_core(socket_folder, limits) as core:
        silent = core.adapter()
        assert await refusal(silent) == (Code.DEADLINE_EXCEEDED, "HELLO_TIMEOUT")


async def test_a_cluster_with_too_many_objects_is_refused(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(cluster_objects=5)) as core:
        adapter = await core.served([queue(), node("n1")])
        await adapter.post(*gang("job", 4))
        assert await refusal(adapter) == (Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
        served = core.server._clusters.find("c1").served
        while served.pause is None:
            await asyncio.sleep(0.01)
        assert served.pause.message.startswith("objects of a cluster: 7 is over the limit of 5")
        assert served.state.sums.total() == 0


async def test_a_cluster_with_too_many_bytes_is_refused(socket_folder: Path) -> None:
    async with running_core(socket_folder, Limits(large_object_bytes=100_000)) as core:
        adapter = await core.served([queue()])
        for number in range(3):
            held = node(f"n{number}")
            held.node.annotations["big"] = "x" * 40_000
            small = [node(f"small{n}") for n in range(number)]
            await adapter.post(*small, held)
        assert await refusal(adapter) == (Code.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")


async def test_a_large_object_that_shrinks_or_goes_gives_its_bytes_back(core: RunningCore) -> None:
    adapter = await core.served([queue()])
    large = node("n1")
    large.node.annotations["big"] = "x" * 40_000
    other = pod("job", 0)
    other.pod.annotations["big"] = "x" * 20_000
    await adapter.tell(*(node(f"a{n}") for n in range(9)), large, other, pod("job", 1))
    owner = core.server._clusters.find("c1").owner

    async def held() -> int:
        return await owner.call(lambda served: served.state.large_objects.bytes)

    assert 60_000 < await held() < 61_000
    await adapter.tell(node("n1"))
    assert 20_000 < await held() < 21_000
    await adapter.tell(tombstone(object_pb2.KIND_POD, "pod-job-0"))
    assert await held() == 0


async def test_bytes_that_are_not_acknowledged_stop_the_reading(socket_folder: Path) -> None:
    release = threading.Event()
    async with running_core(socket_folder, Limits(credit_bytes=100_000)) as core:
        adapter = await core.served([queue()])
        cluster = core.server._clusters.find("c1")

        def hold() -> None:
            release.wait(20)

        cluster.owner.post(hold)

        async def flood() -> None:
            for number in range(40):
                held = node(f"n{number}")
                held.node.annotations["big"] = "x" * 400_000
                await adapter.post(held)

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0.5)
        assert cluster.stream is not None
        rules = cluster.stream.rules
        assert rules is not None
        assert 100_000 < rules.pending_bytes < 1_000_000
        release.set()
        await flooding
        await adapter.acknowledged()
        assert rules.pending_bytes == 0


# The end.


async def test_a_core_that_ends_says_so(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    await core.server.stop()
    farewell = await adapter.next("go_away")
    assert farewell.reason == cluster_service_pb2.GO_AWAY_REASON_SHUTTING_DOWN
    assert await adapter.ended_with() == (Code.OK, ())


async def test_a_reader_that_is_too_slow_is_sent_away() -> None:
    hello = cluster_service_pb2.Hello()
    limits = Limits(outgoing_bytes=100)
    stream = AdapterStream(hello, "unix", limits, asyncio.get_running_loop())
    status = cluster_service_pb2.StatusBatch(session=1)
    status.events.add(message="x" * 200)
    large = cluster_service_pb2.ConnectResponse(status_batch=status)
    # What one session has to say may be large; what waits when the next one comes may not.
    stream.send(large, large)
    await asyncio.sleep(0)
    assert [stream.ended] == [False]
    assert await stream.next() == large.SerializeToString()
    stream.send(large)
    await asyncio.sleep(0)
    assert stream.ended
    farewell = await stream.next()
    assert farewell is not None
    last = cluster_service_pb2.ConnectResponse.FromString(farewell)
    assert last.go_away.reason == cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
    assert await stream.next() is None


async def test_clusters_live_side_by_side(core: RunningCore) -> None:
    adapters = [
        await core.served([queue(), node("n1"), *gang(f"job{number}", 1)], cluster=f"c{number}")
        for number in range(5)
    ]
    names = [(await adapter.decisions())[0].bind.name for adapter in adapters]
    assert names == [f"job{number}-0" for number in range(5)]

"""Requests are checked on their bytes: a bomb is refused before it is built."""

from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.server.errors import LimitError, ServiceError
from pumice.server.limits import Limits
from pumice.server.rules import MAX_KINDS
from pumice.server.scheduling import content_hash
from pumice.server.serialized import MAX_OTHER_FIELDS, op_sizes, read_schedule
from pumice.v1 import cluster_service_pb2, configuration_pb2, delta_pb2
from pumice.v1.inspection_service_pb2 import ListClustersRequest
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.scheduling_service_pb2 import ObjectSet, ScheduleRequest
from tests.server.holding import WAITING, Hold, hold_a_session, holding_core
from tests.server.hostile import damaged, scramble
from tests.server.running import RunningCore, gang, node, queue
from tests.server.trials import inline, live

LIMITS = Limits()
OBJECTS = [queue(), node("n1"), node("n2"), *gang("job", 3)]


def field(number: int, *values: bytes) -> bytes:
    """Length-delimited fields of a number."""
    return b"".join(bytes((number << 3 | 2,)) + varint(len(value)) + value for value in values)


def varint(number: int) -> bytes:
    head = b""
    while number > 127:
        head, number = head + bytes((number & 127 | 128,)), number >> 7
    return head + bytes((number,))


MANY = LIMITS.trial_objects + 9
BOMBS = {
    "objects": field(2, field(1, field(4, b"") * MANY)),
    "empty sets": field(2, field(1, b"") * (MAX_OTHER_FIELDS + 1)),
    "removed objects": field(3, field(3, b"") * MANY),
    "sources": field(2, b"") * (MAX_OTHER_FIELDS + 1),
    "an object": field(2, field(1, field(4, field(4, b"\0" * LIMITS.trial_object_bytes)))),
    "a configuration": field(4, b"\0" * (LIMITS.trial_object_bytes + 1)),
    "unknown fields": field(15, b"") * (MAX_OTHER_FIELDS + 1),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_on_their_bytes(name: str) -> None:
    with pytest.raises(LimitError) as refused:
        read_schedule(field(1, b"r") + BOMBS[name], LIMITS)
    # The first one too many was enough.
    limit, given_ = (int(refused.value.metadata[word]) for word in ("limit", "given"))
    assert given_ <= limit + 10


def test_a_batch_of_too_many_ops_is_refused_on_its_bytes() -> None:
    ops = [delta_pb2.Op(), *([delta_pb2.Op()] * 5)]
    batch = delta_pb2.DeltaBatch(first_seq=1, ops=ops)
    request = cluster_service_pb2.ConnectRequest(delta_batch=batch).SerializeToString()
    assert op_sizes(request, 6) == [0] * 6
    with pytest.raises(LimitError):
        op_sizes(request, 5)


async def test_a_bomb_costs_its_sender_an_error(core: RunningCore) -> None:
    call: Any = core.channel().unary_unary("/pumice.v1.SchedulingService/Schedule")
    for bomb in BOMBS.values():
        assert await call(field(1, b"r") + bomb).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    stream: Any = core.channel().stream_stream("/pumice.v1.ClusterService/Connect")()
    await stream.write(field(2, field(2, b"") * 100_000))
    assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_requests_of_other_calls_are_smaller(core: RunningCore) -> None:
    call: Any = core.channel().unary_unary("/pumice.v1.InspectionService/ListJobs")
    data = field(15, b"x" * (LIMITS.small_request_bytes - 9))
    assert await call(data).code() is grpc.StatusCode.NOT_FOUND
    assert await call(data + field(15, b"xxxxxxxxx")).code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_kinds_of_a_message_are_limited(core: RunningCore) -> None:
    for number in range(3):
        adapter = await core.served([queue()], cluster=f"c{number}")
        digests = [delta_pb2.KindDigest()] * (MAX_KINDS + 1)
        if number == 0:
            message = cluster_service_pb2.Digest(seq=adapter.seq, digests=digests)
            await adapter.send(digest=message)
        else:
            kinds = [KIND_POD] * (MAX_KINDS + 1) if number == 1 else []
            begin = cluster_service_pb2.SnapshotBegin(first_seq=adapter.seq + 1, kinds=kinds)
            await adapter.send(snapshot_begin=begin)
            end = cluster_service_pb2.SnapshotEnd(seq=adapter.seq, digests=digests)
            await adapter.send(snapshot_end=end)
        assert (await adapter.ended_with())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


# What is read is what was sent.


def rebuilt(data: bytes) -> ScheduleRequest:
    first, *rest = read_schedule(data, LIMITS).parts()
    assert isinstance(first, ScheduleRequest)
    inline_ = first.WhichOneof("source") == "inline"
    for part in rest:
        if isinstance(part, configuration_pb2.Configuration):
            first.configuration.MergeFrom(part)
        elif isinstance(part, ObjectSet):
            held = first.inline.objects if inline_ else first.cluster.hypothetical
            held.MergeFrom(part)
        else:
            first.cluster.MergeFrom(part)  # type: ignore[arg-type]
    return first


@given(st.integers(0, 2**32), st.booleans())
def test_header_and_parts_are_the_request(seed: int, is_live: bool) -> None:
    random = Random(seed)
    request = (live if is_live else inline)("r", *OBJECTS)
    scramble(request, random, 0.1)
    if request.WhichOneof("source") is not None:
        assert rebuilt(request.SerializeToString()) == request


@given(st.integers(0, 2**32))
def test_whatever_the_bytes_are_the_error_is_one_for_the_caller(seed: int) -> None:
    random = Random(seed)
    data = inline("r", *OBJECTS).SerializeToString()
    for _ in range(10):
        data = damaged(data, random)
    for read in (read_schedule, lambda data, limits: op_sizes(data, limits.credit)):
        try:
            read(data, LIMITS)
        except ServiceError:
            continue


def test_the_order_of_a_map_does_not_matter_and_its_content_does() -> None:
    digests = set()
    for names in (("a", "b"), ("b", "a"), ("a", "c")):
        held = node("n1")
        for name in names:
            held.node.labels[name] = "x"
        # Bytes of a message that was read have the maps in the order of the bytes.
        data = inline("r", held).SerializeToString()
        digests.add(content_hash(read_schedule(data, LIMITS), LIMITS))
    assert len(digests) == 2


async def test_digests_wait_outside_while_a_session_runs(socket_folder: Path) -> None:
    hold = Hold()
    async with holding_core(socket_folder, hold) as core:
        adapter = await core.served([queue(), node("n1"), *gang("job", 2)], WAITING)
        await adapter.decisions()
        await hold_a_session(core, hold, adapter, node("n2"))
        calls = core.server._clusters.find("c1").owner._calls
        for _ in range(30):
            await adapter.digest()
        # Calls of the same connection: what was sent before has arrived.
        for _ in range(5):
            await core.inspection().ListClusters(ListClustersRequest())
        assert len(calls) <= 2

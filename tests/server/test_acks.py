"""Acks that were not sent yet are replaced by the next one, and Acks in quick succession are sent as one."""

import asyncio

from pumice.server.limits import Limits
from pumice.server.rules import StreamRules
from pumice.server.stream import ACK_SECONDS, AdapterStream
from pumice.v1 import cluster_service_pb2, object_pb2
from pumice.v1.cluster_service_pb2 import ConnectResponse


def ack(seq: int, *rejected: str) -> ConnectResponse:
    named = [object_pb2.RejectedObject(uid=uid) for uid in rejected]
    return ConnectResponse(ack=cluster_service_pb2.Ack(applied_seq=seq, rejected=named))


async def sent(*responses: ConnectResponse) -> list[ConnectResponse]:
    stream = AdapterStream(
        cluster_service_pb2.Hello(), "peer", Limits(), asyncio.get_running_loop()
    )
    for response in responses:
        stream.send(response)
    await asyncio.sleep(0)
    found = []
    while stream._queue:
        following = await stream.next()
        assert following is not None
        found.append(ConnectResponse.FromString(following))
    assert stream._bytes == 0
    return found


async def test_of_acks_in_a_row_the_last_is_sent() -> None:
    assert await sent(ack(1), ack(2), ack(3)) == [ack(3)]


async def test_an_ack_that_names_objects_is_not_lost() -> None:
    assert await sent(ack(1, "bad"), ack(2)) == [ack(1, "bad"), ack(2)]


async def test_acks_do_not_overtake_anything_else() -> None:
    between = ConnectResponse(resync=cluster_service_pb2.Resync(reason="drift"))
    assert await sent(ack(1), between, ack(2)) == [ack(1), between, ack(2)]


async def read(stream: AdapterStream) -> ConnectResponse:
    found = await asyncio.wait_for(stream.next(), 10)
    assert found is not None
    return ConnectResponse.FromString(found)


async def flowing(limits: Limits | None = None) -> AdapterStream:
    """A stream that sent an Ack a moment ago."""
    hello, loop = cluster_service_pb2.Hello(), asyncio.get_running_loop()
    stream = AdapterStream(hello, "peer", limits or Limits(), loop)
    stream.rules = StreamRules("", 20_000, 0)
    stream.send(ack(1))
    assert await read(stream) == ack(1)
    return stream


async def test_acks_in_quick_succession_are_sent_as_one() -> None:
    stream = await flowing()
    began = asyncio.get_running_loop().time()
    for seq in (2, 3, 4):
        stream.send(ack(seq))
        await asyncio.sleep(0)
    assert await read(stream) == ack(4)
    assert asyncio.get_running_loop().time() - began > ACK_SECONDS / 2


async def test_another_message_takes_a_delayed_ack_along() -> None:
    stream = await flowing()
    resync = ConnectResponse(resync=cluster_service_pb2.Resync(reason="drift"))
    stream.send(ack(2))
    stream.send(resync)
    assert [await read(stream), await read(stream)] == [ack(2), resync]
    stream.send(ack(3, "bad"))
    assert await read(stream) == ack(3, "bad")


async def test_an_ack_of_many_ops_is_not_delayed() -> None:
    stream = await flowing()
    stream.send(ack(5_000))
    await asyncio.sleep(0)
    assert stream._queue


async def test_a_delayed_ack_is_not_sent_after_the_end() -> None:
    stream = await flowing()
    stream.send(ack(2))
    stream.end(cluster_service_pb2.GO_AWAY_REASON_SHUTTING_DOWN, "")
    assert (await read(stream)).HasField("go_away")
    await asyncio.sleep(2 * ACK_SECONDS)
    assert await stream.next() is None


async def test_an_ack_is_not_delayed_while_an_adapter_has_little_credit() -> None:
    stream = await flowing(Limits(credit=50))
    stream.send(ack(40))
    await asyncio.sleep(0)
    assert stream._queue

"""Acks that were not sent yet are overtaken by the next one."""

import asyncio

from pumice.server.limits import Limits
from pumice.server.stream import AdapterStream
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

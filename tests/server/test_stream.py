"""The stream: order, numbers, resuming and what ends it."""

from pumice.v1 import cluster_service_pb2
from tests.server.running import RunningCore, gang, node, queue

SMALL = [queue(), node("n1"), *gang("job", 2)]


async def test_a_snapshot_is_decided_on_at_once(core: RunningCore) -> None:
    adapter = await core.served(SMALL)
    batch = await adapter.next("decision_batch")
    assert [d.bind.name for d in batch.decisions] == ["job-0", "job-1"]
    assert [g.size for g in batch.gangs] == [2]
    assert (batch.epoch, batch.based_on_seq) == (1, adapter.seq)

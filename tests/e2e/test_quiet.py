"""What a cluster costs in which nothing happens."""

from __future__ import annotations

import asyncio

from tests.e2e.cluster import Cluster

PERIOD_SECONDS = 0.5
LEASES = "leases.coordination.k8s.io"


async def test_a_settled_cluster_with_pending_gangs_sees_no_write_and_no_read(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(3)
    await cluster.add_gang("train", 6)
    for number in range(5):
        await cluster.add_gang(f"large-{number}", 20)
    proxy = await cluster.add_proxy()
    cluster.scheduler.start_core()
    cluster.start_adapter(f"--schedule-period={PERIOD_SECONDS}s", server=proxy.url)
    await cluster.until_placed({"train": 6})
    for number in range(5):
        await cluster.until_waiting(f"large-{number}")
    await cluster.until_quiet(proxy)
    since = len(proxy.calls)
    await asyncio.sleep(10 * PERIOD_SECONDS)
    calls = [call for call in proxy.calls[since:] if call.resource != LEASES]
    assert calls == []

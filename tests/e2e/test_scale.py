"""Many pods at once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.e2e.cluster import PODS, Cluster
from tests.e2e.objects import pod_body, pod_group_body

NODES, GANGS, SIZE = 500, 500, 10


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_five_thousand_pods_on_five_hundred_nodes_are_all_bound(cluster: Cluster) -> None:
    # No kubelets: their writes would be half of the load, and binding is what is looked at.
    await cluster.kubelets.stop()
    await cluster.add_nodes(NODES, cpu="12")
    await cluster.client.create_all(
        pod_group_body(f"train-{number:03}", SIZE) for number in range(GANGS)
    )
    cluster.run_scheduler()
    await cluster.client.create_all(
        pod_body(f"train-{number:03}", task) for number in range(GANGS) for task in range(SIZE)
    )

    async def are_bound() -> bool:
        return not await cluster.client.list(PODS, fieldSelector="spec.nodeName=", limit="1")

    await cluster.until("all pods are bound", are_bound, 150)
    counts = Counter((await cluster.placed()).values())
    assert counts.total() == GANGS * SIZE
    assert max(counts.values()) <= 12

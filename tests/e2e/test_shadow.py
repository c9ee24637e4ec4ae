"""A shadow on a real API server, beside a scheduler that the test plays itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.credentials import NOBODY
from tests.controlplane.manifests import DEPLOY, documents
from tests.e2e.cluster import PODS, Cluster

BINDING = "shadow-in-a-test"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


async def place(cluster: Cluster, name: str, node: str) -> None:
    """As the scheduler that runs the cluster does."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await cluster.client.call("POST", f"{PODS}/{name}/binding", body)


@pytest.fixture
async def looker(cluster: Cluster) -> AsyncIterator[str]:
    """Somebody who has the shipped rights of a shadow, and no others."""
    for body in documents(DEPLOY / "shadow" / "rbac.yaml"):
        await cluster.client.apply(body)
    await cluster.client.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": BINDING},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "pumice-shadow",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NOBODY}],
        }
    )
    yield NOBODY
    # Other tests count on somebody who may do nothing.
    await cluster.client.delete(f"{BINDINGS}/{BINDING}")


def told(report: Path, kind: str) -> list[dict[str, Any]]:
    lines = report.read_text().splitlines() if report.exists() else []
    return [line for line in map(json.loads, lines) if line["type"] == kind]


def last_summary(report: Path) -> dict[str, Any]:
    return (told(report, "summary") or [{}])[-1]


async def test_a_shadow_tells_what_it_would_have_done_and_touches_nothing(
    cluster: Cluster, looker: str
) -> None:
    (node,) = await cluster.add_nodes(1)
    # Open, as Volcano's controllers make it: the shadow opens none.
    await cluster.add_queue("red")
    await cluster.add_gang("fits", 2, queue="red")
    # Only the other scheduler starts it: half of it has no room.
    await cluster.add_gang("large", 6, queue="red")
    report = cluster.folder / "report.jsonl"
    proxy = await cluster.add_proxy()
    run = cluster.scheduler.start_both(
        cluster.kubeconfig(looker, proxy.url),
        "--shadow",
        f"--shadow-report={report}",
        "--shadow-wait=2s",
        "--shadow-every=0.3s",
        "--schedule-period=0.5s",
    )

    async def would_start_it() -> bool:
        return ("team/fits", "job only ours") in {
            (one["job"], one["what"]) for one in told(report, "difference")
        }

    await cluster.until("the shadow would start what fits", would_start_it)
    await asyncio.gather(*(place(cluster, f"fits-{number}", node) for number in range(2)))

    async def agrees() -> bool:
        return bool(last_summary(report).get("pods_same_node") == 2)

    await cluster.until("both chose the one node there is", agrees)
    await place(cluster, "large-0", node)

    async def differs() -> bool:
        return bool(last_summary(report).get("jobs_later") == 1)

    await cluster.until("the shadow would have let the large gang wait", differs)
    assert await asyncio.to_thread(run.stop) == 0
    assert "job team/large: volcano started it, pumice lets it wait" in run.said
    assert "shadow of volcano: 66.7 % of all decisions were the same" in run.said

    assert proxy.calls
    assert {call.status for call in proxy.calls} <= {200, 404}
    # Not even the lease.
    assert [call for call in proxy.calls if call.is_write] == []
    assert await cluster.phase("fits") == ""
    assert await cluster.events(name="fits-0") == []

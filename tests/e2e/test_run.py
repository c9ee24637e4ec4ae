"""`pumice run`, custom resources that appear later, and configurations that change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pumice.client import AsyncClient
from pumice.recordings import Recording
from tests.controlplane.client import Object, RefusedError
from tests.controlplane.credentials import ADMIN
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE, pod_body
from tests.e2e.test_gangs import PREEMPT

SIGS = "scheduling.sigs.dev"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_one_command_schedules_a_cluster_and_ends_when_asked(cluster: Cluster) -> None:
    await cluster.add_nodes(2)
    await cluster.add_gang("train", 6)
    run = cluster.scheduler.start_both(cluster.kubeconfig(), "--schedule-period=1s")
    await cluster.until_placed({"train": 6})
    assert await asyncio.to_thread(run.stop) == 0
    lease = await cluster.client.get(
        "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
    )
    assert not lease["spec"].get("holderIdentity")


async def test_its_core_can_be_asked_and_records(cluster: Cluster) -> None:
    await cluster.add_nodes(2)
    await cluster.add_gang("train", 2)
    # Paths of sockets are short.
    with TemporaryDirectory(prefix="pumice") as folder:
        address, recordings = f"unix:{folder}/core.sock", Path(folder, "recordings")
        options = (f"--listen={address}", "--record", str(recordings), "--replica-at-start")
        run = cluster.scheduler.start_both(cluster.kubeconfig(), *options)
        await cluster.until_placed({"train": 2})
        async with AsyncClient(address=address) as core:
            found = await core.explain_job(f"{NAMESPACE}/train", wait_seconds=10)
            assert "2 of 2 pods are placed" in found.sentence
        assert await asyncio.to_thread(run.stop) == 0
        (path,) = recordings.rglob("*.pumice")
        with Recording(path) as recording:
            assert recording.header.cluster == "kubernetes"


async def test_a_configuration_is_taken_over_while_it_runs(cluster: Cluster) -> None:
    await cluster.add_priority_class("low", 1)
    await cluster.add_priority_class("high", 1000)
    await cluster.add_nodes(1)
    await cluster.add_gang("idle", 4, minimum=1, priority="low")
    flag = cluster.configuration(PREEMPT.replace("preempt, ", ""))
    cluster.run_scheduler(flag)
    await cluster.until_placed({"idle": 4})
    await cluster.add_gang("urgent", 2, priority="high")
    await cluster.until_waiting("urgent")
    path = cluster.folder / flag.rpartition("/")[2]
    # A wrong one changes nothing; the next good one does.
    path.write_text(PREEMPT.replace("preempt", "preemt"))
    await asyncio.sleep(2)
    assert len(await cluster.placed("idle")) == 4
    path.write_text(PREEMPT)
    await cluster.until_placed({"urgent": 2, "idle": 2})


def definition(kind: str, scope: str) -> Object:
    plural = f"{kind.lower()}s"
    anything: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{SIGS}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, in a test"},
        },
        "spec": {
            "group": SIGS,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural},
            "versions": [
                {
                    "name": "v1alpha2",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


async def test_kube_batchs_pod_groups_are_served_once_their_definition_appears(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(1)
    await cluster.add_gang("first", 1)
    cluster.run_scheduler(user=ADMIN)
    await cluster.until_placed({"first": 1})
    body = definition("PodGroup", "Namespaced")
    await cluster.client.apply(body)
    group = {
        "apiVersion": f"{SIGS}/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "old", "namespace": NAMESPACE},
        "spec": {"minMember": 2, "queue": "default"},
    }
    try:

        async def is_made() -> bool:
            try:
                await cluster.client.create(group)
            except RefusedError as error:
                return error.status == 409
            return True

        await cluster.until("the definition is served", is_made)
        await cluster.client.create_all(pod_body("old", number) for number in range(2))
        await cluster.until_placed({"old": 2})

        async def is_written() -> bool:
            path = f"/apis/{SIGS}/v1alpha2/namespaces/{NAMESPACE}/podgroups/old"
            found = await cluster.client.get(path)
            return bool(found.get("status", {}).get("phase") == "Running")

        await cluster.until("its status is written apart from the object", is_written)
    finally:
        await cluster.client.delete(f"{DEFINITIONS}/{body['metadata']['name']}")

"""Pods whose volumes are made, or bound, once they have a node."""

from __future__ import annotations

from typing import Any

from tests.controlplane.client import Object
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body

SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"


DRIVER = "disks.example.com"


async def add_drivers(cluster: Cluster, nodes: list[str]) -> None:
    """A driver of volumes on each node, with room for ten."""
    for node in nodes:
        driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": 10}}
        await cluster.client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": node},
                "spec": {"drivers": [driver]},
            }
        )


async def add_class(cluster: Cluster, name: str, provisioner: str) -> None:
    await cluster.client.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )


def claim_body(name: str, storage_class: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def uses(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def volume_body(name: str, storage_class: str, node: str) -> Object:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
    }


async def test_a_volume_is_made_where_its_first_consumer_goes(cluster: Cluster) -> None:
    await add_class(cluster, "made", DRIVER)
    await add_drivers(cluster, await cluster.add_nodes(3, cpu="1"))
    await cluster.client.create(pod_group_body("etl", 2))
    for number in range(2):
        await cluster.client.create(claim_body(f"data-{number}", "made"))
        await cluster.client.create(pod_body("etl", number, **uses(f"data-{number}")))
    cluster.run_scheduler()
    placed = await cluster.until_placed({"etl": 2})
    for number in range(2):
        claim = await cluster.client.get(f"{CLAIMS}/data-{number}")
        assert claim["metadata"]["annotations"][SELECTED_NODE] == placed[f"etl-{number}"]
        assert claim["spec"]["volumeName"]


async def test_a_volume_that_exists_draws_its_pod_to_its_node(cluster: Cluster) -> None:
    await add_class(cluster, "local", "kubernetes.io/no-provisioner")
    nodes = await cluster.add_nodes(3)
    await cluster.client.create(volume_body("disk", "local", nodes[1]))
    await cluster.client.create(claim_body("data", "local"))
    await cluster.client.create(pod_group_body("etl", 1))
    await cluster.client.create(pod_body("etl", 0, **uses("data")))
    # As in Volcano, a provisioner is taken for a driver with a limit unless it is named here.
    cluster.run_scheduler("--ignored-provisioners=kubernetes.io/no-provisioner")
    assert await cluster.until_placed({"etl": 1}) == {"etl-0": nodes[1]}
    volume = await cluster.client.get("/api/v1/persistentvolumes/disk")
    assert volume["spec"]["claimRef"]["name"] == "data"


async def test_a_claim_that_is_never_served_lets_the_pod_wait(cluster: Cluster) -> None:
    await add_class(cluster, "made", DRIVER)
    await add_drivers(cluster, await cluster.add_nodes(1))
    await cluster.volumes.stop()
    await cluster.client.create(claim_body("data", "made"))
    await cluster.client.create(pod_group_body("etl", 1))
    await cluster.client.create(pod_body("etl", 0, **uses("data")))
    cluster.run_scheduler("--apply-timeout=5s")

    async def is_chosen() -> bool:
        claim = await cluster.client.get(f"{CLAIMS}/data")
        return SELECTED_NODE in claim["metadata"].get("annotations", {})

    async def is_taken_back() -> bool:
        return not await is_chosen()

    await cluster.until("the claim has a node", is_chosen)
    await cluster.until("the node is taken back after the time limit", is_taken_back)
    assert not await cluster.placed()
    # Somebody repairs the provisioner.
    cluster.volumes.start()
    await cluster.until_placed({"etl": 1})

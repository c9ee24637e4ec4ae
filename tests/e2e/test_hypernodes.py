"""The HyperNode controller on a real API server, with the rights that are shipped."""

from tests.e2e.cluster import Cluster

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
CONF = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config: {networkTopologyTypes: {net: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}
"""


async def test_a_rack_is_discovered_and_counted(cluster: Cluster) -> None:
    client = cluster.client
    for name in await cluster.add_nodes(2):
        await client.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"rack": "r1"}}})
    metadata = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await client.create({**body, "data": {"volcano-controller.conf": CONF}})
    cluster.start_controllers("--controllers=hyperNode-controller")

    async def is_counted() -> bool:
        found = await client.list(HYPER_NODES)
        return [one.get("status", {}).get("nodeCount") for one in found] == [2]

    await cluster.until("a HyperNode with two nodes", is_counted)
    cluster.scheduler.stop()
    await client.delete(f"/api/v1/namespaces/volcano-system/configmaps/{metadata['name']}")
    await client.call("DELETE", HYPER_NODES)

"""The controller of ColocationConfigurations on a real API server, with the rights that are shipped."""

from tests.e2e.cluster import PODS, Cluster
from tests.e2e.objects import NAMESPACE

CONFIG = "config.volcano.sh/v1alpha1"


async def test_a_pod_gets_its_settings(cluster: Cluster) -> None:
    client = cluster.client
    await cluster.add_gang("web", 1)
    metadata = {"name": "one", "namespace": NAMESPACE}
    spec = {"selector": {"matchLabels": {"job": "web"}}, "memoryQos": {"highRatio": 80}}
    kind = "ColocationConfiguration"
    await client.create({"apiVersion": CONFIG, "kind": kind, "metadata": metadata, "spec": spec})
    cluster.start_controllers("--controllers=colocation-config-controller")

    async def has_settings() -> bool:
        (pod,) = await client.list(PODS)
        annotations = pod["metadata"].get("annotations", {})
        return '"highRatio":80' in annotations.get("volcano.sh/colocation-config", "")

    await cluster.until("the pod has its settings", has_settings)
    cluster.scheduler.stop()
    path = f"/apis/{CONFIG}/namespaces/{NAMESPACE}/colocationconfigurations/one"
    await client.delete(path)

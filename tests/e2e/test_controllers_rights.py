"""The shipped role of the controllers is enough and no more; a steady cluster causes no writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.controlplane.client import Object
from tests.controlplane.credentials import CONTROLLERS
from tests.controlplane.manifests import DEPLOY, documents
from tests.controlplane.proxy import FaultyProxy
from tests.controlplane.scheduler import Child
from tests.e2e.cluster import JOBS, PODS, Cluster
from tests.e2e.objects import NAMESPACE, pod_body, queue_body
from tests.e2e.test_flows_and_schedules import BATCH, CRONS, FLOW, FLOWS, TEMPLATES, thing
from tests.e2e.test_hypernodes import CONF, HYPER_NODES
from tests.e2e.test_jobs import Jobs, job, task
from tests.e2e.test_queues_and_groups import SETS
from tests.e2e.test_sharing import SHARDING, SHARDS

SYSTEM = "/api/v1/namespaces/volcano-system/configmaps"
COLOCATIONS = f"/apis/config.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/colocationconfigurations"
VERBS = {"list", "watch", "create", "update", "patch", "delete"}
# The API server itself asks for them, where it checks owner references.
FINALIZERS = {
    ("update", "jobs/finalizers.batch.volcano.sh"),
    ("update", "cronjobs/finalizers.batch.volcano.sh"),
    ("update", "jobflows/finalizers.flow.volcano.sh"),
}


def granted() -> set[tuple[str, str]]:
    """What the shipped roles allow; the Lease may also be read by name."""
    found = set()
    for document in documents(DEPLOY / "controllers" / "rbac.yaml"):
        for rule in document.get("rules", []):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    name = f"{resource}.{group}" if group else resource
                    found |= {(verb, name) for verb in VERBS & set(rule["verbs"])}
    return found


def config_map(name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": "volcano-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Everything:
    """Work for every controller."""

    def __init__(self, cluster: Cluster, proxy: FaultyProxy) -> None:
        self.cluster, self.client, self.proxy = cluster, cluster.client, proxy
        self.jobs = Jobs(cluster)

    def start(self) -> Child:
        kubeconfig = self.cluster.kubeconfig(CONTROLLERS, self.proxy.url)
        return self.cluster.scheduler.start_controllers(kubeconfig, "--controllers=*")

    async def make(self) -> None:
        client, nodes = self.client, await self.cluster.add_nodes(3)
        for name in nodes[:2]:
            await client.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"rack": "r1"}}})
        await client.create(
            config_map("volcano-controller-configmap", **{"volcano-controller.conf": CONF})
        )
        await client.create(config_map("volcano-sharding-configmap", **{"sharding.yaml": SHARDING}))
        await client.create(queue_body("mid"))
        await self._make_web()
        plugins: dict[str, list[str]] = {"svc": [], "ssh": [], "env": []}
        await client.create(job("plain", task("w", 2), plugins=plugins))
        await client.create(job("brief", task("w", 1), ttlSecondsAfterFinished=1))
        await client.create(job("stays", task("w", 2), queue="mid", plugins={"svc": []}))
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes = [{"mountPath": "/data", "volumeClaim": claim}]
        await client.create(job("claims", task("w", 1), volumes=volumes))
        spec = {"tasks": [task("work", 1)]}
        await client.create(thing(FLOW, "JobTemplate", "a", spec))
        await client.create(thing(FLOW, "JobFlow", "flow", {"flows": [{"name": "a"}]}))
        schedule = {"schedule": "@every 1s", "jobTemplate": {"spec": spec}}
        await client.create(thing(BATCH, "CronJob", "tick", schedule))

    async def _make_web(self) -> None:
        """A ReplicaSet with a pod that has no PodGroup, and settings for its pod."""
        client = self.client
        spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = thing("apps/v1", "ReplicaSet", "web", {"replicas": 1, "template": template})
        body["spec"]["selector"] = {"matchLabels": labels}
        made = await client.create(body)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
        pod = thing("v1", "Pod", "web-1", spec)
        pod["metadata"] |= {
            "labels": labels, "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
        }  # fmt: skip
        await client.create(pod)
        settings = {"selector": {"matchLabels": labels}, "memoryQos": {"highRatio": 80}}
        await client.create(
            thing("config.volcano.sh/v1alpha1", "ColocationConfiguration", "one", settings)
        )

    async def until(self, what: str, is_so: Callable[[], Awaitable[object]]) -> None:
        await self.cluster.until(what, is_so)

    async def until_made(self) -> None:
        client, jobs = self.client, self.jobs
        await jobs.until_running("plain", 2)
        await jobs.until_running("stays", 2)
        await jobs.until_running("brief", 1)
        for path in (f"{JOBS}/flow-a", f"{SHARDS}/volcano"):
            await self.until(path, lambda path=path: client.find(path))  # type: ignore[misc]
        await self.until("a HyperNode", lambda: client.list(HYPER_NODES))

        async def is_web_ready() -> bool:
            notes = (await client.get(f"{PODS}/web-1"))["metadata"].get("annotations", {})
            wanted = {"scheduling.k8s.io/group-name", "volcano.sh/colocation-config"}
            return wanted <= set(notes)

        await self.until("a PodGroup and settings of a pod", is_web_ready)

        async def has_ticked() -> bool:
            status = (await client.get(f"{CRONS}/tick")).get("status", {})
            return bool(status.get("active"))

        await self.until("a Job of a schedule", has_ticked)
        await client.merge(f"{CRONS}/tick", {"spec": {"suspend": True}})

    async def change(self) -> None:
        """Changes that need the rights to patch and to delete."""
        client, jobs = self.client, self.jobs
        await client.merge(f"{JOBS}/stays", {"spec": {"tasks": [task("w", 3)], "minAvailable": 3}})
        await jobs.until_running("stays", 3)
        await client.create(pod_body("load", 0, "3", nodeName="node-0000"))
        label = {"metadata": {"labels": {"rack": "r2"}}}
        await client.merge("/api/v1/nodes/node-0001", label)
        for name in ("plain-w-0", "plain-w-1", "brief-w-0"):
            await jobs.end(name, "Succeeded")
        # The API server refuses its pods again and again.
        refused = task("w", 1)
        del refused["template"]["spec"]["containers"][0]["image"]
        await client.create(job("refused", refused))
        await client.merge(f"{CRONS}/tick", {"spec": {"schedule": "@yearly"}})
        await jobs.command("stays", "AbortJob")
        await jobs.until_phase("stays", "Aborted")
        await client.merge("/api/v1/nodes/node-0001", {"metadata": {"labels": {"rack": None}}})
        only = SHARDING[: SHARDING.index("- name: agent-scheduler")]
        path = f"{SYSTEM}/volcano-sharding-configmap"
        await client.merge(path, {"data": {"sharding.yaml": only}})

    async def remove(self) -> None:
        client = self.client
        for path in (
            f"{SYSTEM}/volcano-controller-configmap",
            f"{SYSTEM}/volcano-sharding-configmap",
        ):
            await client.delete(path)
        for path in (CRONS, FLOWS, TEMPLATES, HYPER_NODES, SHARDS, COLOCATIONS, SETS):
            await client.call("DELETE", path)


async def test_each_right_is_used_none_is_missing_and_a_steady_cluster_causes_no_writes(
    cluster: Cluster,
) -> None:
    proxy = await cluster.add_proxy()
    work = Everything(cluster, proxy)
    try:
        await work.make()
        cluster.run_scheduler()
        child = work.start()
        await work.until_made()
        await cluster.until_quiet(proxy)

        # A process that starts reads everything, and finds nothing to do.
        child.stop()
        before = len(proxy.calls)
        child = work.start()

        async def reads() -> bool:
            return "reconciling begins" in child.said

        await cluster.until("it reads", reads)
        await asyncio.sleep(3)
        written = [f"{call.verb} {call.resource} {call.name}" for call in proxy.writes(before)]
        assert written == []

        await work.change()
        expected = granted() - FINALIZERS

        async def are_used() -> bool:
            return expected <= set(proxy.counts())

        try:
            await cluster.until("every right is used", are_used, 30)
        except AssertionError as error:
            raise AssertionError(f"not used: {sorted(expected - set(proxy.counts()))}") from error
        assert [call for call in proxy.calls if call.status == 403] == []
        assert {
            (call.verb, call.resource) for call in proxy.calls if call.verb != "get"
        } <= granted()
    finally:
        cluster.scheduler.stop()
        await work.remove()

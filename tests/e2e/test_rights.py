"""The shipped roles are enough, and no more than enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.controlplane.credentials import NOBODY
from tests.controlplane.manifests import DEPLOY, documents
from tests.controlplane.scheduler import Child
from tests.e2e import test_devices
from tests.e2e.cluster import GROUPS, LEASE, PODS, Cluster
from tests.e2e.objects import NAMESPACE, pod_body, pod_group_body
from tests.e2e.test_native_groups import NATIVE, group_body, member_body
from tests.e2e.test_sharing import SHARDS, gated_pod_body, shard_body
from tests.e2e.test_volumes import DRIVER, add_class, add_drivers, claim_body, uses, volume_body

CONF = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
CONFIG_MAP = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
# Given for clusters whose definitions are not those of deploy/: a status beside the object, and
# kube-batch's groups.
OTHERS = {
    "podgroups/status.scheduling.volcano.sh",
    # Asked for by the API server itself when an allocation is written.
    "resourceclaims/binding.resource.k8s.io",
}
WRITING = {"create", "update", "patch", "delete"}


def granted() -> set[tuple[str, str]]:
    """What the shipped roles allow to change, in the API groups of this cluster."""
    found = set()
    for document in documents(DEPLOY / "scheduler" / "rbac.yaml"):
        for rule in document.get("rules", []):
            for group in rule["apiGroups"]:
                if group in ("scheduling.incubator.k8s.io", "scheduling.sigs.dev"):
                    continue
                for resource in rule["resources"]:
                    name = f"{resource}.{group}" if group else resource
                    found |= {(verb, name) for verb in WRITING & set(rule["verbs"])}
    return found


async def test_each_right_to_change_something_is_used_and_none_is_missing(
    cluster: Cluster,
) -> None:
    shipped = await cluster.client.get(CONFIG_MAP)
    await cluster.client.merge(CONFIG_MAP, {"data": {"volcano-scheduler.conf": CONF}})
    try:
        await _use_everything(cluster)
    finally:
        await cluster.client.merge(CONFIG_MAP, {"data": shipped["data"]})
        await cluster.client.delete(f"{SHARDS}/volcano")
        await cluster.client.delete(f"{NATIVE}/native")


async def _use_everything(cluster: Cluster) -> None:
    client = cluster.client
    await cluster.add_priority_class("low", 1)
    await cluster.add_priority_class("high", 1000)
    nodes = await cluster.add_nodes(2)
    await add_drivers(cluster, nodes)
    await add_class(cluster, "made", DRIVER)
    await add_class(cluster, "local", "kubernetes.io/no-provisioner")
    await client.create(volume_body("disk", "local", nodes[0]))
    await client.create(shard_body("volcano", nodes))
    await client.delete(f"{GROUPS}/queues/default")
    await client.delete(LEASE)
    proxy = await cluster.add_proxy()
    cluster.scheduler.start_core()
    cluster.start_adapter(
        "--scheduler-configmap=volcano-system/volcano-scheduler-configmap",
        "--ignored-provisioners=kubernetes.io/no-provisioner",
        "--scheduler-sharding-mode=soft",
        "--feature-gates=SchedulingGatesQueueAdmission=true",
        server=proxy.url,
    )
    await client.create(pod_group_body("etl", 2, priority="low"))
    for number, name in enumerate(("made", "local")):
        await client.create(claim_body(name, name))
        await client.create(pod_body("etl", number, "1", "low", **uses(name)))
    await cluster.until_placed({"etl": 2})
    await client.create(pod_group_body("gated", 1))
    await client.create(gated_pod_body("gated", "1"))
    await cluster.until_placed({"gated": 1})
    await client.create(group_body("native", 1))
    await client.create(member_body("native", 0, "10m"))
    await client.create(test_devices.class_body(test_devices.RESOURCE))
    await client.create(test_devices.slice_body(nodes[0], "t4", "a100", "a100"))
    await client.create(test_devices.claim_body("device", "t4"))
    await client.create(pod_group_body("claims", 1))
    await client.create(pod_body("claims", 0, "10m", **test_devices.uses("device")))
    await cluster.until_placed({"claims": 1})
    # Without its group it waits. An adapter that ended has left a claim with other requests.
    pod = await client.create(pod_body("extended", 0, **test_devices.asks_for(1)))
    await test_devices.leave_claim(cluster, pod, nodes[0])
    await client.create(pod_group_body("extended", 1))
    await cluster.until_placed({"extended": 1})
    await cluster.add_gang("idle", 3, minimum=1, priority="low")
    await cluster.until_placed({"idle": 3})
    await cluster.add_gang("urgent", 1, "2", priority="high")
    await cluster.until_placed({"urgent": 1})
    await cluster.add_gang("large", 99)

    expected = {right for right in granted() if right[1] not in OTHERS}

    async def are_used() -> bool:
        return expected <= set(proxy.counts())

    # An event that comes again is counted after a while.
    for number in range(3):
        await client.delete(f"/api/v1/namespaces/team/pods/large-{number}", 0)
        await asyncio.sleep(1.5)
        await client.create(pod_body("large", number))
    try:
        await cluster.until("every right is used", are_used, 30)
    except AssertionError as error:
        unused = sorted(expected - set(proxy.counts()))
        raise AssertionError(f"not used: {unused}") from error
    refused = [call for call in proxy.calls if call.status == 403]
    assert not refused
    assert {(call.verb, call.resource) for call in proxy.writes()} <= granted()


async def test_missing_rights_are_named(cluster: Cluster) -> None:
    adapter = cluster.run_scheduler(user=NOBODY)

    async def is_said() -> bool:
        return "missing rights: list on pods; grant it" in adapter.said

    await cluster.until("the adapter says what it may not do", is_said)


async def test_the_shipped_account_may_not_touch_secrets(cluster: Cluster) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:volcano-system:pumice-adapter",
            "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = await cluster.client.call("POST", path, review)
    assert answer["status"]["allowed"] is False


async def test_a_right_that_is_taken_away_costs_few_calls_until_it_is_given_back(
    cluster: Cluster,
) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/pumice-adapter"
    rules = (await cluster.client.get(role))["rules"]
    fewer = [
        {**rule, "resources": [one for one in rule["resources"] if one != "pods/status"]}
        for rule in rules
    ]
    proxy = await cluster.add_proxy()
    cluster.scheduler.start_core()
    adapter = cluster.start_adapter(server=proxy.url)
    count = 60

    def refused() -> int:
        return sum(call.status == 403 for call in proxy.calls)

    async def have_conditions() -> bool:
        pods = (await cluster.client.get(PODS))["items"]
        return len(pods) == 2 * count and all(pod["status"].get("conditions") for pod in pods)

    await cluster.client.merge(role, {"rules": [rule for rule in fewer if rule["resources"]]})
    try:
        await cluster.add_nodes(1)
        await cluster.add_gang("large", count)
        await cluster.until("calls are withheld", _says(adapter, "the others are withheld"))
        # Pods that are reported later are not tried at all.
        before = refused()
        await cluster.add_gang("larger", count)
        await cluster.until("the second gang waits", _waits(cluster, "larger"))
        assert before + 10 > refused() < count
    finally:
        await cluster.client.merge(role, {"rules": rules})
    await cluster.until("the conditions are written", have_conditions, 90)
    assert adapter.said.count("the others are withheld") == 1


def _waits(cluster: Cluster, name: str) -> Callable[[], Awaitable[bool]]:
    async def waits() -> bool:
        group = await cluster.client.get(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups/{name}")
        conditions = group.get("status", {}).get("conditions", [])
        return any(one["type"] == "Unschedulable" for one in conditions)

    return waits


def _says(child: Child, text: str) -> Callable[[], Awaitable[bool]]:
    async def is_said() -> bool:
        return text in child.said

    return is_said

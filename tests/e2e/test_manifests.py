"""What deploy/ ships, as a real API server takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import TABLE, Client, Object, RefusedError, path_of
from tests.controlplane.manifests import (
    ADMISSION,
    CRDS,
    DEFAULTS,
    DEPLOY,
    PLAIN,
    SCHEDULER,
    apply_all,
    documents,
)
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE

VOLCANO = "scheduling.volcano.sh/v1beta1"
TOPOLOGY = "topology.volcano.sh/v1alpha1"
PG, Q = f"/apis/{VOLCANO}/namespaces/{NAMESPACE}/podgroups", f"/apis/{VOLCANO}/queues"
HN = f"/apis/{TOPOLOGY}/hypernodes"

COLUMNS = {
    PG: ["Name", "STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"],
    Q: ["Name", "PARENT"],
    HN: ["Name", "Tier", "TierName", "NodeCount", "Age"],
    "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies": ["Name", "Age"],
    "/apis/shard.volcano.sh/v1alpha1/nodeshards": ["Name", "AGE"],
    "/apis/batch.volcano.sh/v1alpha1/jobs": [
        "Name",
        "STATUS",
        "minAvailable",
        "RUNNINGS",
        "AGE",
        "QUEUE",
    ],
    "/apis/batch.volcano.sh/v1alpha1/cronjobs": ["Name", "Age"],
    "/apis/flow.volcano.sh/v1alpha1/jobflows": ["Name", "Status", "Age"],
    "/apis/flow.volcano.sh/v1alpha1/jobtemplates": ["Name", "Age"],
    "/apis/config.volcano.sh/v1alpha1/colocationconfigurations": ["Name", "Age"],
}
SHORT_NAMES = {
    "/apis/scheduling.volcano.sh/v1beta1": {
        "podgroups": ["pg", "podgroup-v1beta1"],
        "queues": ["q", "queue-v1beta1"],
        "queues/status": None,
    },
    "/apis/topology.volcano.sh/v1alpha1": {"hypernodes": ["hn"], "hypernodes/status": None},
    "/apis/nodeinfo.volcano.sh/v1alpha1": {"numatopologies": ["numatopo"]},
    "/apis/shard.volcano.sh/v1alpha1": {"nodeshards": ["nsh"], "nodeshards/status": None},
    "/apis/batch.volcano.sh/v1alpha1": {
        "jobs": ["vcjob", "vj"],
        "jobs/status": None,
        "cronjobs": ["cronvcjob", "cronvj"],
        "cronjobs/status": None,
    },
    "/apis/flow.volcano.sh/v1alpha1": {
        "jobflows": ["jf"],
        "jobflows/status": None,
        "jobtemplates": ["jt"],
        "jobtemplates/status": None,
    },
    "/apis/config.volcano.sh/v1alpha1": {
        "colocationconfigurations": None,
        "colocationconfigurations/status": None,
    },
}
NAMESPACED = {"PodGroup", "CronJob", "JobFlow", "JobTemplate", "ColocationConfiguration"}


def body(version: str, kind: str, name: str = "one", **parts: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE} if kind in NAMESPACED else {"name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def group(**spec: Any) -> Object:
    return body(VOLCANO, "PodGroup", spec=spec)


def queue(**spec: Any) -> Object:
    return body(VOLCANO, "Queue", spec=spec)


def cron_job(**spec: Any) -> Object:
    template = {"spec": {"tasks": [{"replicas": 1}]}}
    spec = {"schedule": "* * * * *", "jobTemplate": template, **spec}
    return body("batch.volcano.sh/v1alpha1", "CronJob", spec=spec)


def flow(*flows: Object, **spec: Any) -> Object:
    return body("flow.volcano.sh/v1alpha1", "JobFlow", spec={"flows": list(flows), **spec})


def hyper_node(*members: Object, **spec: Any) -> Object:
    return body(TOPOLOGY, "HyperNode", spec={"tier": 1, "members": list(members), **spec})


def test_every_file_of_the_folder_is_applied() -> None:
    # The rights of a shadow and to lock nodes, and the smoke test, are no part of an installation.
    names = (
        "shadow/rbac.yaml",
        "node-locks/rbac.yaml",
        "device-config/rbac.yaml",
        "npu-info/rbac.yaml",
        "ufm/rbac.yaml",
        "smoke-test/gang.yaml",
    )
    others = {DEPLOY / name for name in names}
    kustomizations = {
        DEPLOY / folder / "kustomization.yaml" for folder in ("scheduler", "controllers")
    }
    assert {*CRDS, *PLAIN, *ADMISSION, *others, *kustomizations} == set(DEPLOY.rglob("*.yaml"))


async def test_all_manifests_can_be_applied_again(client: Client) -> None:
    await apply_all(client)


@pytest.mark.parametrize("path", COLUMNS)
async def test_columns_are_those_that_users_know(client: Client, path: str) -> None:
    table = await client.get(path, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == COLUMNS[path]


@pytest.mark.parametrize("path", SHORT_NAMES)
async def test_short_names_and_subresources(client: Client, path: str) -> None:
    found = {one["name"]: one.get("shortNames") for one in (await client.get(path))["resources"]}
    assert found == SHORT_NAMES[path]


async def test_a_pod_group_gets_its_defaults(cluster: Cluster) -> None:
    spec: Object = {"networkTopology": {}, "subGroupPolicy": [{"networkTopology": {}}]}
    made = await cluster.client.create(group(**spec))
    assert made["spec"] == {
        "queue": "default",
        "networkTopology": {"mode": "hard"},
        "subGroupPolicy": [
            {"networkTopology": {"mode": "hard"}, "subGroupSize": 1, "minSubGroups": 0}
        ],
    }


async def test_a_pod_groups_status_is_part_of_the_object(cluster: Cluster) -> None:
    created = await cluster.client.create({**group(minMember=1), "status": {"phase": "Inqueue"}})
    assert created["status"] == {"phase": "Inqueue"}
    table = await cluster.client.get(PG, accept=TABLE)
    assert table["rows"][0]["cells"][:4] == ["one", "Inqueue", 1, None]
    merged = await cluster.client.merge(path_of(created), {"status": {"running": 3}})
    assert merged["status"] == {"phase": "Inqueue", "running": 3}
    with pytest.raises(RefusedError, match="404"):
        await cluster.client.merge(f"{path_of(created)}/status", {"status": {"running": 4}})


async def test_a_queue_gets_its_defaults_and_has_its_status_apart(cluster: Cluster) -> None:
    sample = {**queue(parent="root"), "status": {"state": "Open"}}
    created = await cluster.client.create(sample)
    assert created["spec"] == {
        "weight": 1,
        "parent": "root",
        "dequeueStrategy": "traverse",
        "reclaimable": True,
    }
    assert "status" not in created
    path = f"{path_of(created)}/status"
    merged = await cluster.client.merge(path, {"status": {"allocated": {"cpu": "1500m"}}})
    assert merged["status"] == {"allocated": {"cpu": "1500m"}}


GOOD = [
    group(minMember=0, minResources={"cpu": 1, "memory": "2Gi", "example.com/gpu": "-1"}),
    group(minTaskMember={"worker": 2}, queue="team.red", priorityClassName="high"),
    group(subGroupPolicy=[{"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["c"]}]),
    queue(weight=65535, capability={"cpu": "4"}, deserved={"cpu": 2}, priority=3, type="any"),
    queue(guarantee={"resource": {"cpu": "500m"}}, reclaimable=False, dequeueStrategy="fifo"),
    queue(
        affinity={
            "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]},
            "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["b"]},
        }
    ),
    queue(extendClusters=[{"name": "far", "weight": 1, "capacity": {"cpu": "1"}}]),
    hyper_node({"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}}, tierName="rack"),
    hyper_node({"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^a"}}}),
    hyper_node({"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}}),
    body(
        "nodeinfo.volcano.sh/v1alpha1",
        "Numatopology",
        spec={
            "policies": {"CPUManagerPolicy": "static"},
            "resReserved": {"cpu": "1"},
            "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
            "cpuDetail": {"0": {"numa": 0, "socket": 0, "core": 0}},
            "podAllocations": [
                {"uid": "u", "containerAllocations": [{"name": "c", "allocations": {"cpu": "0"}}]}
            ],
        },
    ),
    body("shard.volcano.sh/v1alpha1", "NodeShard", spec={"nodesDesired": ["node-1"]}),
    cron_job(timeZone="Europe/Berlin", startingDeadlineSeconds=0, failedJobsHistoryLimit=0),
    flow(
        {"name": "a"},
        {
            "name": "b",
            "dependsOn": {
                "targets": ["a"],
                "probe": {
                    "httpGetList": [
                        {"taskName": "t", "port": 80, "httpHeader": {"name": "a", "value": "b"}}
                    ],
                    "tcpSocketList": [{"taskName": "t", "port": 80}],
                    "taskStatusList": [{"taskName": "t", "phase": "Running"}],
                },
            },
            "patch": {"jobSpec": {"maxRetry": 1}},
        },
        jobRetainPolicy="delete",
    ),
    body("flow.volcano.sh/v1alpha1", "JobTemplate", spec={"tasks": [{"name": "t"}], "queue": "q"}),
    body(
        "config.volcano.sh/v1alpha1",
        "ColocationConfiguration",
        spec={"selector": {"matchLabels": {"a": "b"}}, "memoryQos": {"highRatio": 50}},
    ),
]
BAD = {
    "spec.minMember": group(minMember=-1),
    "spec.queue": group(queue="Red Team"),
    "spec.minResources.cpu": group(minResources={"cpu": "many"}),
    "spec.networkTopology.mode": group(networkTopology={"mode": "warm"}),
    "spec.networkTopology.highestTierAllowed": group(networkTopology={"highestTierAllowed": -1}),
    "spec.subGroupPolicy[0].subGroupSize": group(subGroupPolicy=[{"subGroupSize": 0}]),
    "status.phase": {**group(), "status": {"phase": "Dreaming"}},
    "spec.weight": queue(weight=0),
    "spec.dequeueStrategy": queue(dequeueStrategy="lifo"),
    "spec.parent": queue(parent="-"),
    "spec.priority": queue(priority=-1),
    "spec.members[0].type": hyper_node({"type": "Rack"}),
    "spec.members[0].selector": hyper_node({"type": "Node", "selector": {}}),
    "only one of": hyper_node(
        {
            "type": "Node",
            "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}},
        }
    ),
    "spec.tier": body(TOPOLOGY, "HyperNode", spec={}),
    "spec.schedule": body("batch.volcano.sh/v1alpha1", "CronJob", spec={"jobTemplate": {}}),
    "spec.concurrencyPolicy": cron_job(concurrencyPolicy="Sometimes"),
    "spec.jobTemplate.spec.tasks[0].replicas": cron_job(
        jobTemplate={"spec": {"tasks": [{"replicas": -1}]}}
    ),
    "spec.flows[0].name": flow({"name": ""}),
    "spec.jobRetainPolicy": flow(jobRetainPolicy="burn"),
    "spec.tasks[0].name": body(
        "flow.volcano.sh/v1alpha1", "JobTemplate", spec={"tasks": [{"name": "A B"}]}
    ),
    "spec.memoryQos.lowRatio": body(
        "config.volcano.sh/v1alpha1",
        "ColocationConfiguration",
        spec={"memoryQos": {"lowRatio": 101}},
    ),
    "spec.nodesDesired": body("shard.volcano.sh/v1alpha1", "NodeShard", spec={}),
}


async def test_a_cron_job_gets_its_defaults_and_a_patch_gets_none(cluster: Cluster) -> None:
    made = await cluster.client.create(cron_job())
    assert {name: made["spec"][name] for name in made["spec"] if name != "jobTemplate"} == {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    assert made["spec"]["jobTemplate"]["spec"]["queue"] == "default"
    await cluster.client.delete(path_of(made))
    patched = flow({"name": "a", "patch": {"jobSpec": {"networkTopology": {}, "tasks": [{}]}}})
    made = await cluster.client.create(patched)
    assert made["spec"] == patched["spec"]
    await cluster.client.delete(path_of(made))


def test_templates_have_the_schema_of_jobs() -> None:
    def schema(name: str) -> Any:
        (definition,) = documents(DEPLOY / "crds" / f"{name}.yaml")
        return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    job = schema("jobs")
    assert schema("jobtemplates") == job
    assert schema("cronjobs")["properties"]["jobTemplate"]["properties"]["spec"] == job
    flow = schema("jobflows")["properties"]["flows"]["items"]["properties"]
    assert flow["patch"]["properties"]["jobSpec"] == _without_defaults(job)


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_defaults(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_defaults(one)
        for name, one in schema.items()
        if name != "default" or isinstance(one, dict)
    }


async def test_objects_that_exist_today_are_taken_whole(cluster: Cluster) -> None:
    for sample in GOOD:
        path = path_of(sample).rpartition("/")[0]
        query = {"fieldValidation": "Strict", "dryRun": "All"}
        made = await cluster.client.call("POST", path, sample, query=query)
        missing = set(sample["spec"]) - set(made["spec"])
        assert not missing, sample


@pytest.mark.parametrize("field", BAD)
async def test_a_wrong_field_is_refused_by_name(client: Client, field: str) -> None:
    path = path_of(BAD[field]).rpartition("/")[0]
    with pytest.raises(RefusedError) as refused:
        await client.call("POST", path, BAD[field], query={"dryRun": "All"})
    assert refused.value.status == 422
    assert field in str(refused.value)


@pytest.mark.parametrize("path", [*DEFAULTS, *SCHEDULER], ids=lambda path: path.stem)
async def test_the_core_has_no_rights(path: Path) -> None:
    for document in documents(path):
        subjects = document.get("subjects", [])
        assert [one["name"] for one in subjects] in ([], ["pumice-adapter"])
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            assert pod["automountServiceAccountToken"] is False
            mounts = {
                container["name"]: [one["name"] for one in container["volumeMounts"]]
                for container in (*pod["initContainers"], *pod["containers"])
            }
            assert mounts == {"core": ["socket"], "adapter": ["socket", "account"]}

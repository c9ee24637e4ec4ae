"""Objects that exist before a Job makes them: those of users, of an earlier Job, and of Volcano."""

from typing import Any

import pytest

from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.job.controller import JobController
from pumice.controllers.options import ControllerOptions
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble
from tests.controllers.jobs import GROUPS, JOBS, NAMESPACE, FakeCluster, job, task
from tests.controllers.running import Loops
from tests.controllers.test_job import finish, stepping, until_phase


@pytest.fixture
async def cluster(fake_api: FakeApi, loops: Loops) -> FakeCluster:
    loops.start(JobController(ControllerOptions()))
    return FakeCluster(fake_api)


def owned(name: str, uid: str, **content: Any) -> Object:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": uid,
        "controller": True,
    }  # fmt: skip
    metadata = {"namespace": NAMESPACE, "name": name, "ownerReferences": [owner]}
    return {"metadata": metadata, **content}


def owner_of(api: FakeApi, resource: str, name: str) -> str:
    body = api.objects.get((resource, NAMESPACE, name), {})
    owners = body.get("metadata", {}).get("ownerReferences", [{}])
    return str(owners[0].get("uid", ""))


def messages(api: FakeApi, reason: str) -> list[str]:
    return [b["message"] for b in api.objects.values() if b.get("reason") == reason]


async def test_objects_of_an_earlier_job_go_before_those_of_the_new_one_are_made(
    cluster: FakeCluster,
) -> None:
    """The garbage collector would delete them later, and the new Job would lack them."""
    api = cluster.api
    old = {("services", "job"), ("secrets", "job-ssh"), ("configmaps", "job-svc")}
    for resource, name in old:
        api.put(resource, owned(name, "earlier"))
    api.put(JOBS, job("job", task("work", 1), plugins={"svc": [], "ssh": []}))
    await until(lambda: messages(api, "PluginError"))
    assert any("belongs to an earlier Job job" in text for text in messages(api, "PluginError"))
    assert "plugin-svc" not in cluster.status().get("controlledResources", {})
    for resource, name in old:
        api.remove(resource, NAMESPACE, name)
    await until_phase(cluster, "Running")
    uid = api.get(JOBS, NAMESPACE, "job")["metadata"]["uid"]
    assert {owner_of(api, resource, name) for resource, name in old} == {uid}


async def test_an_object_of_a_user_is_used_and_not_deleted(cluster: FakeCluster) -> None:
    api = cluster.api
    api.put("services", {"metadata": {"namespace": NAMESPACE, "name": "job"}, "spec": {"mine": 1}})
    api.put(JOBS, job("job", task("work", 1), plugins={"svc": []}))
    await until_phase(cluster, "Running")
    finish(cluster)
    await until_phase(cluster, "Completed")
    await until(lambda: "controlledResources" not in cluster.status())
    assert api.get("services", NAMESPACE, "job")["spec"] == {"mine": 1}
    assert ("configmaps", NAMESPACE, "job-svc") not in api.objects
    assert ("networkpolicies.networking.k8s.io", NAMESPACE, "job") not in api.objects


async def test_what_cannot_be_read_is_deleted_later(cluster: FakeCluster) -> None:
    api = cluster.api
    api.put(JOBS, job("job", task("work", 1), plugins={"ssh": []}))
    await until_phase(cluster, "Running")
    api.trouble = [Trouble("GET", "/secrets/job-ssh", status=500) for _ in range(3)]
    finish(cluster)
    await until_phase(cluster, "Completed")
    await until(lambda: ("secrets", NAMESPACE, "job-ssh") not in api.objects)


async def test_the_hosts_that_volcano_made_are_kept_up_to_date(cluster: FakeCluster) -> None:
    """Its ConfigMap has no label, and the watch does not show it."""
    api = cluster.api
    body = job("job", task("work", 1), plugins={"svc": []})
    body["metadata"]["uid"] = "known"
    made = {"plugin-svc": "svc"}
    body["status"] = {"state": {"phase": "Pending"}, "controlledResources": made, "minAvailable": 1}
    api.put("configmaps", owned("job-svc", "known", data={"work.host": "old"}))
    api.put(JOBS, body)
    await until_phase(cluster, "Running")
    labels = api.get("configmaps", NAMESPACE, "job-svc")["metadata"]["labels"]
    assert labels == {"volcano.sh/job-name": "job"}
    assert len(api.made("POST", "/configmaps$")) == 1
    body = api.get(JOBS, NAMESPACE, "job")
    body["spec"]["tasks"][0]["replicas"] = 2
    body["metadata"]["generation"] = 2
    api.put(JOBS, body)

    def hosts() -> str:
        return str(api.get("configmaps", NAMESPACE, "job-svc")["data"]["work.host"])

    await stepping(cluster, lambda: hosts() == "job-work-0.job\njob-work-1.job")
    assert len(api.made("POST", "/configmaps$")) == 1


async def test_pods_name_the_group_that_an_old_volcano_made(cluster: FakeCluster) -> None:
    """Its PodGroup has the name of the Job."""
    api = cluster.api
    body = job("job", task("work", 2))
    body["metadata"]["uid"] = "known"
    body["status"] = {"state": {"phase": "Running"}, "minAvailable": 2, "version": 3}
    api.put(GROUPS, owned("job", "known", spec={"minMember": 2}, status={"phase": "Running"}))
    api.put(JOBS, body)
    await until(lambda: len(cluster.pods()) == 2)
    notes = [pod["metadata"]["annotations"] for pod in cluster.pods().values()]
    assert {one["scheduling.k8s.io/group-name"] for one in notes} == {"job"}
    assert {one["volcano.sh/job-version"] for one in notes} == {"3"}
    assert len(cluster.groups()) == 1


async def test_an_object_of_another_owner_is_used_and_named(cluster: FakeCluster) -> None:
    api = cluster.api
    other = owned("job", "other")
    other["metadata"]["ownerReferences"][0]["name"] = "somebody"
    api.put("services", other)
    api.put(JOBS, job("job", task("work", 1), plugins={"svc": []}))
    await until_phase(cluster, "Running")
    await until(lambda: messages(api, "PluginError"))
    (text,) = messages(api, "PluginError")
    assert text.endswith("Service ns/job exists already and belongs to Job somebody")


def of_volcano(api: FakeApi, phase: str, pod_phase: str, **status: Any) -> None:
    """A Job as Volcano leaves it: with its defaults, pods, PodGroup and hosts."""
    body = job(
        "job", task("work", 2, minAvailable=2, maxRetry=3), minAvailable=2, maxRetry=3,
        schedulerName="volcano", plugins={"env": [], "svc": []},
    )  # fmt: skip
    body["metadata"]["uid"] = "known"
    times = {"lastTransitionTime": "2026-01-01T00:00:10Z"}
    body["status"] = {
        "state": {"phase": phase, **times}, "minAvailable": 2, "version": 1,
        "conditions": [{"status": "Pending", **times}, {"status": phase, **times}],
        **status,
    }  # fmt: skip
    api.put(JOBS, body)
    usage = {"count/pods": "2", "pods": "2", "cpu": "2", "requests.cpu": "2"}
    spec = {"minMember": 2, "minTaskMember": {"work": 2}, "queue": "default"}
    made = owned("job-known", "known", spec={**spec, "minResources": usage})
    if phase == "Running":
        api.put(GROUPS, {**made, "status": {"phase": "Running", "running": 2}})
        hosts = ["job-work-0.job", "job-work-1.job"]
        data = {"work.host": "\n".join(hosts), "VC_WORK_HOSTS": ",".join(hosts), "VC_WORK_NUM": "2"}
        api.put("configmaps", owned("job-svc", "known", data=data))
    for index in range(2):
        pod = owned(f"job-work-{index}", "known", status={"phase": pod_phase}, spec={})
        notes = {
            "volcano.sh/task-index": str(index), "volcano.sh/task-spec": "work",
            "scheduling.k8s.io/group-name": "job-known", "volcano.sh/job-name": "job",
            "volcano.sh/queue-name": "default", "volcano.sh/job-version": "1",
            "volcano.sh/template-uid": "job-work", "volcano.sh/job-retry-count": "0",
        }  # fmt: skip
        names = ("task-index", "job-name", "task-spec", "queue-name")
        labels = {f"volcano.sh/{name}": notes[f"volcano.sh/{name}"] for name in names}
        pod["metadata"] |= {"annotations": notes, "labels": labels}
        api.put("pods", pod)


def writes(api: FakeApi) -> list[tuple[str, str]]:
    found = [(verb, path.rpartition("/namespaces/ns/")[2]) for verb, path, _ in api.calls]
    return [(verb, path) for verb, path in found if verb != "GET"]


async def test_a_job_that_volcano_runs_goes_on_without_a_change(
    fake_api: FakeApi, loops: Loops
) -> None:
    FakeCluster(fake_api)
    plugins = {"plugin-env": "env", "plugin-svc": "svc"}
    counts = {"work": {"phase": {"Running": 2}}}
    of_volcano(
        fake_api, "Running", "Running",
        running=2, taskStatusCount=counts, controlledResources=plugins,
    )  # fmt: skip
    loops.start(JobController(ControllerOptions()))
    done = {"result": "unchanged", "controller": "job-controller"}
    await until(lambda: loops.metrics.counted("reconciles", **done) >= 1)
    # Only the ConfigMap is taken over.
    assert writes(fake_api) == [("POST", "configmaps"), ("PATCH", "configmaps/job-svc")]


async def test_a_job_that_volcano_ended_keeps_its_pods_and_gets_its_counters(
    fake_api: FakeApi, loops: Loops
) -> None:
    cluster = FakeCluster(fake_api)
    of_volcano(fake_api, "Completed", "Succeeded")
    loops.start(JobController(ControllerOptions()))
    await until(lambda: cluster.status().get("succeeded") == 2)
    assert writes(fake_api) == [("PATCH", "jobs/job/status")]
    assert cluster.status()["state"]["lastTransitionTime"] == "2026-01-01T00:00:10Z"


async def test_a_job_that_volcano_restarts_is_restarted(fake_api: FakeApi, loops: Loops) -> None:
    """Its phase has no reason, and some of its pods are of the version before."""
    cluster = FakeCluster(fake_api)
    of_volcano(fake_api, "Restarting", "Running", retryCount=1)
    body = fake_api.get(JOBS, NAMESPACE, "job")
    body["status"]["version"] = 2
    fake_api.put(JOBS, body)
    loops.start(JobController(ControllerOptions()))
    await until_phase(cluster, "Running")
    versions = {
        p["metadata"]["annotations"]["volcano.sh/job-version"] for p in cluster.pods().values()
    }
    assert versions == {"2"}
    assert cluster.status()["retryCount"] == 1


@pytest.mark.parametrize("has_condition", [True, False])
async def test_a_job_that_ended_without_a_time_is_deleted_after_its_time_to_live(
    fake_api: FakeApi, loops: Loops, has_condition: bool
) -> None:
    """The condition of the phase may have the time; else it counts from now."""
    cluster = FakeCluster(fake_api)
    of_volcano(fake_api, "Completed", "Succeeded", succeeded=2)
    body = fake_api.get(JOBS, NAMESPACE, "job")
    del body["status"]["state"]["lastTransitionTime"]
    if not has_condition:
        del body["status"]["conditions"]
    body["spec"]["ttlSecondsAfterFinished"] = 1 if has_condition else 10**6
    fake_api.put(JOBS, body)
    options = ControllerOptions()
    loops.start(JobController(options), GarbageCollector(options))
    if has_condition:
        await until(lambda: (JOBS, NAMESPACE, "job") not in fake_api.objects)
    else:
        await until(lambda: cluster.status()["state"].get("lastTransitionTime"))
        assert cluster.phase() == "Completed"


def without(metadata: Object, *names: str) -> None:
    """Removes labels and annotations that older versions did not write."""
    for field in ("labels", "annotations"):
        for name in names:
            metadata[field].pop(f"volcano.sh/{name}", None)


OLD = ("task-index", "template-uid", "job-retry-count", "queue-name")


@pytest.mark.parametrize("status", ["stored", "without counters", "none"])
@pytest.mark.parametrize("group", ["job-known", "job", ""])
async def test_a_job_that_an_older_version_runs_keeps_its_pods(
    fake_api: FakeApi, loops: Loops, status: str, group: str
) -> None:
    """Whatever is missing is added beside the pods that run."""
    cluster = FakeCluster(fake_api)
    of_volcano(fake_api, "Running", "Running", running=2)
    body = fake_api.get(JOBS, NAMESPACE, "job")
    if status != "stored":
        body["status"] = {"state": {"phase": "Running"}, "version": 1}
    if status == "none":
        body["status"] = {}
    fake_api.put(JOBS, body)
    made = fake_api.get(GROUPS, NAMESPACE, "job-known")
    fake_api.remove(GROUPS, NAMESPACE, "job-known")
    if group:
        made["metadata"]["name"] = group
        fake_api.put(GROUPS, made)
    for name, pod in cluster.pods().items():
        without(pod["metadata"], *OLD)
        if status == "none":
            without(pod["metadata"], "job-version")
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = group or "job-known"
        fake_api.put("pods", {**pod, "metadata": {**pod["metadata"], "name": name}})
    uids = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    loops.start(JobController(ControllerOptions()))
    await stepping(
        cluster, lambda: cluster.phase() == "Running" and cluster.status().get("running") == 2
    )
    done = {"result": "unchanged", "controller": "job-controller"}
    await until(lambda: loops.metrics.counted("reconciles", **done) >= 1)
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()} == uids
    assert len(cluster.groups()) == 1
    assert cluster.groups()[0]["metadata"]["name"] == (group or "job-known")

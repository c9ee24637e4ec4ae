"""The life of Jobs, on the fake API server."""

from collections.abc import Callable
from typing import Any

import pytest

from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.job.controller import JobController
from pumice.controllers.options import ControllerOptions
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.controllers.jobs import (
    JOBS,
    NAMESPACE,
    FakeCluster,
    job,
    pass_through,
    policy,
    task,
)
from tests.controllers.running import Loops


@pytest.fixture
async def cluster(fake_api: FakeApi, loops: Loops) -> FakeCluster:
    options = ControllerOptions()
    loops.start(JobController(options), GarbageCollector(options))
    return FakeCluster(fake_api)


async def stepping(cluster: FakeCluster, is_so: Callable[[], object], what: str = "") -> None:
    """Lets the cluster go on until a fact holds."""

    def step() -> object:
        cluster.step()
        return is_so()

    await until(step, f"{what}: {cluster.api.objects}")


async def until_phase(cluster: FakeCluster, phase: str, name: str = "job") -> None:
    await stepping(cluster, lambda: cluster.phase(name) == phase, phase)


def finish(cluster: FakeCluster, phase: str = "Succeeded", exit_code: int = 0) -> None:
    for name in cluster.pods():
        cluster.set_phase(name, phase, exit_code)


async def test_a_job_runs_and_completes(cluster: FakeCluster) -> None:
    cluster.api.put(JOBS, job("job", task("a", 2), task("b", 1), minAvailable=3))
    await until(cluster.groups)
    group = cluster.groups()[0]
    uid = cluster.api.get(JOBS, NAMESPACE, "job")["metadata"]["uid"]
    assert group["metadata"]["name"] == f"job-{uid}"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minTaskMember"] == {"a": 2, "b": 1}
    assert group["spec"]["minResources"]["cpu"] == "3"
    assert not cluster.pods()
    await until(lambda: cluster.phase() == "Pending")
    cluster.admit()
    await until(lambda: len(cluster.pods()) == 3)
    pod = cluster.pods()["job-a-1"]
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"job-{uid}"
    assert pod["metadata"]["annotations"]["volcano.sh/job-version"] == "0"
    assert pod["metadata"]["labels"]["volcano.sh/task-spec"] == "a"
    cluster.run()
    await until(lambda: cluster.phase() == "Running")
    finish(cluster)
    await until(lambda: cluster.phase() == "Completed")
    await until(lambda: not cluster.groups())
    assert len(cluster.pods()) == 3
    await until(lambda: cluster.status().get("succeeded") == 3)
    assert cluster.status()["taskStatusCount"]["a"] == {"phase": {"Succeeded": 2}}
    assert [c["status"] for c in cluster.status()["conditions"]] == [
        "Pending",
        "Running",
        "Completed",
    ]


@pytest.mark.parametrize(
    ("action", "phase"),
    [("AbortJob", "Aborted"), ("CompleteJob", "Completed"), ("TerminateJob", "Terminated")],
)
async def test_a_failed_pod_ends_the_job_as_its_policy_says(
    cluster: FakeCluster, action: str, phase: str
) -> None:
    cluster.api.put(JOBS, job("job", task(replicas=3), policies=[policy(action, "PodFailed")]))
    await until_phase(cluster, "Running")
    cluster.set_phase("job-work-1", "Failed", 1)
    await until_phase(cluster, phase)
    await until(lambda: list(cluster.pods()) == ["job-work-1"])
    assert cluster.status()["version"] == 1
    await until(lambda: not cluster.groups())


async def test_a_job_restarts_until_its_retries_are_used_up(cluster: FakeCluster) -> None:
    cluster.api.put(JOBS, job(policies=[policy("RestartJob", "PodFailed")], maxRetry=2))
    await until_phase(cluster, "Running")
    first = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    cluster.set_phase("job-work-0", "Failed", 1)
    await stepping(cluster, lambda: cluster.status().get("retryCount") == 1)
    await until_phase(cluster, "Running")
    second = {pod["metadata"]["uid"] for pod in cluster.pods().values()}
    assert not first & second
    assert cluster.status()["version"] == 1
    cluster.set_phase("job-work-0", "Failed", 1)
    await until_phase(cluster, "Failed")
    assert cluster.status()["retryCount"] == 2
    assert "job-work-0" in cluster.pods()


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ("RestartTask", {"job-b-0", "job-b-1"}),
        ("RestartPod", {"job-a-1", "job-b-0", "job-b-1"}),
        ("RestartPartition", {"job-a-1", "job-b-0", "job-b-1"}),
    ],
)
async def test_a_targeted_restart_replaces_only_its_pods(
    cluster: FakeCluster, action: str, kept: set[str]
) -> None:
    parts = {"totalPartitions": 2, "partitionSize": 1}
    policies = [policy(action, "PodFailed")]
    tasks = [task("a", 2, partitionPolicy=parts, policies=policies), task("b", 2)]
    cluster.api.put(JOBS, job("job", *tasks))
    await until_phase(cluster, "Running")
    uids = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    cluster.set_phase("job-a-0", "Failed", 1)
    await stepping(cluster, lambda: cluster.status().get("retryCount") == 1)
    await until_phase(cluster, "Running")
    now = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    assert now.keys() == uids.keys()
    assert {name for name in now if now[name] == uids[name]} == kept
    assert cluster.status().get("version", 0) == 0
    assert len(cluster.groups()) == 1


async def test_an_exit_code_chooses_its_policy(cluster: FakeCluster) -> None:
    policies = [policy("AbortJob", exitCode=7), policy("RestartJob", "PodFailed")]
    cluster.api.put(JOBS, job(policies=policies))
    await until_phase(cluster, "Running")
    cluster.set_phase("job-work-0", "Failed", 7)
    await until_phase(cluster, "Aborted")


async def test_an_evicted_pod_is_answered_and_a_scaled_down_one_is_not(
    cluster: FakeCluster,
) -> None:
    body = job("job", task(replicas=3), policies=[policy("RestartJob", "PodEvicted")])
    cluster.api.put(JOBS, body)
    await until_phase(cluster, "Running")
    held = cluster.api.get(JOBS, NAMESPACE, "job")
    held["spec"]["tasks"][0]["replicas"] = 2
    held["metadata"]["generation"] = 2
    cluster.api.put(JOBS, held)
    await stepping(cluster, lambda: len(cluster.pods()) == 2)
    assert cluster.groups()[0]["spec"]["minMember"] == 2
    await stepping(cluster, lambda: cluster.status().get("running") == 2)
    assert cluster.status().get("retryCount", 0) == 0
    cluster.api.remove("pods", NAMESPACE, "job-work-0")
    await stepping(cluster, lambda: cluster.status().get("retryCount") == 1)
    await until_phase(cluster, "Running")


async def test_a_task_that_completes_can_complete_the_job(cluster: FakeCluster) -> None:
    done = task("master", 1, policies=[policy("CompleteJob", "TaskCompleted")])
    cluster.api.put(JOBS, job("job", done, task("worker", 2)))
    await until_phase(cluster, "Running")
    cluster.set_phase("job-master-0", "Succeeded")
    await until_phase(cluster, "Completed")
    assert list(cluster.pods()) == ["job-master-0"]


async def test_commands_suspend_and_resume(cluster: FakeCluster, fake_api: FakeApi) -> None:
    cluster.api.put(JOBS, job("job", task(replicas=2)))
    await until_phase(cluster, "Running")
    cluster.set_phase("job-work-0", "Succeeded")
    cluster.command("AbortJob")
    await until_phase(cluster, "Aborted")
    assert list(cluster.pods()) == ["job-work-0"]
    assert not [key for key in fake_api.objects if key[0].startswith("commands")]
    cluster.command("ResumeJob")
    await until_phase(cluster, "Running")
    assert cluster.status().get("retryCount", 0) == 0
    assert cluster.pods()["job-work-0"]["status"]["phase"] == "Succeeded"
    await until(lambda: any(b.get("reason") == "CommandIssued" for b in fake_api.objects.values()))
    cluster.command("AbortJob", "nobody")
    await until(lambda: not [key for key in fake_api.objects if key[0].startswith("commands")])


async def test_tasks_wait_for_others_and_volumes_are_mounted(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    first = task("first", 1)
    then = task("then", 1, minAvailable=0, dependsOn={"name": ["first"]})
    volumes: list[Any] = [
        {"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        {"mountPath": "/b", "volumeClaimName": "mine"},
    ]
    cluster.api.put(JOBS, job("job", first, then, minAvailable=1, volumes=volumes))
    await until(lambda: any(b.get("reason") == "PVCError" for b in fake_api.objects.values()))
    cluster.admit()
    claim = {"metadata": {"namespace": NAMESPACE, "name": "mine"}}
    fake_api.put("persistentvolumeclaims", claim)
    await stepping(cluster, lambda: "job-then-0" in cluster.pods())
    pod = cluster.pods()["job-first-0"]
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/a", "/b"]
    names = [
        volume["volumeClaimName"] for volume in fake_api.get(JOBS, "ns", "job")["spec"]["volumes"]
    ]
    assert names[0].startswith("job-pvc-")
    assert names[1] == "mine"
    assert ("persistentvolumeclaims", "ns", names[0]) in fake_api.objects


async def test_a_finished_job_is_deleted_after_its_time(cluster: FakeCluster) -> None:
    cluster.api.put(JOBS, job(ttlSecondsAfterFinished=0))
    await until_phase(cluster, "Running")
    finish(cluster)
    await stepping(cluster, lambda: (JOBS, NAMESPACE, "job") not in cluster.api.objects)


async def test_a_job_costs_few_writes(cluster: FakeCluster) -> None:
    cluster.api.put(JOBS, job("job", task(replicas=20)))
    await until_phase(cluster, "Running")
    await until(lambda: cluster.status().get("running") == 20)
    writes = [path for method, path, _ in cluster.api.calls if method != "GET"]
    assert sum(path.endswith("/pods") for path in writes) == 20
    assert sum(path.endswith("/podgroups") for path in writes) == 1
    others = [path for path in writes if not path.endswith(("/pods", "/podgroups", "/events"))]
    assert {path.rpartition("/")[2] for path in others} == {"status"}
    assert len(others) <= 6, others


async def test_a_steady_cluster_causes_no_writes(cluster: FakeCluster, loops: Loops) -> None:
    plugins: dict[str, list[str]] = {"svc": [], "env": [], "ssh": []}
    cluster.api.put(JOBS, job(plugins=plugins))
    await until_phase(cluster, "Running")
    await until(lambda: cluster.status().get("running") == 2)
    await loops.kill()
    writes = [call for call in cluster.api.calls if call[0] != "GET"]
    options = ControllerOptions()
    before = loops.metrics.counted("reconciles", controller="job-controller", result="unchanged")
    loops.start(JobController(options), GarbageCollector(options))
    await until(
        lambda: (
            loops.metrics.counted("reconciles", controller="job-controller", result="unchanged")
            > before
        )
    )
    changed = cluster.pods()["job-work-0"]
    changed["metadata"]["labels"]["mine"] = "yes"
    cluster.api.put("pods", changed)
    await until(
        lambda: (
            loops.metrics.counted("reconciles", controller="job-controller", result="unchanged")
            > before + 1
        )
    )
    assert [call for call in cluster.api.calls if call[0] != "GET"] == writes


async def test_a_job_that_is_too_large_waits(cluster: FakeCluster, fake_api: FakeApi) -> None:
    cluster.api.put(JOBS, job("job", task(replicas=2_000_000_000)))
    await until(
        lambda: any(
            body.get("reason") == "JobStatusError" and "allowed: 100000" in body["message"]
            for body in fake_api.objects.values()
        )
    )
    assert not cluster.groups()


async def test_a_foreign_pod_in_the_way_is_reported(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.put("pods", {"metadata": {"namespace": NAMESPACE, "name": "job-work-0"}, "spec": {}})
    cluster.api.put(JOBS, job("job"))

    def is_said() -> bool:
        for group in cluster.groups():
            if "status" not in group:
                cluster.admit()
        bodies = fake_api.objects.values()
        return any(body.get("reason") == "FailedCreate" for body in bodies)

    await until(is_said)
    fake_api.remove("pods", NAMESPACE, "job-work-0")
    await until(lambda: len(cluster.pods("job")) == 2)


async def test_odd_jobs_disturb_no_other(cluster: FakeCluster, fake_api: FakeApi) -> None:
    odd = job("odd")
    odd["status"] = {"state": {"phase": "Nonsense", "lastTransitionTime": "yesterday"}}
    fake_api.put(JOBS, odd)
    fake_api.put(JOBS, job("empty") | {"spec": {"tasks": []}})
    fake_api.put(JOBS, job("wrong") | {"spec": {"tasks": "many"}})
    fake_api.put(JOBS, job("unknown", plugins={"nothing": []}))
    fake_api.put(JOBS, job("lost", queue="nowhere"))
    fake_api.put(JOBS, job("good"))
    await until_phase(cluster, "Running", "good")
    await until_phase(cluster, "Running", "odd")
    await until(lambda: any(b.get("reason") == "PluginError" for b in fake_api.objects.values()))
    fake_api.put("queues.scheduling.volcano.sh", {"metadata": {"name": "nowhere"}, "spec": {}})
    await until_phase(cluster, "Running", "lost")


async def test_a_queue_that_forwards_marks_jobs_and_pods(cluster: FakeCluster) -> None:
    queue = {"metadata": {"name": "far"}, "spec": {"extendClusters": [{"name": "x"}]}}
    cluster.api.put("queues.scheduling.volcano.sh", queue)
    cluster.api.put(JOBS, job("job", queue="far"))
    await until_phase(cluster, "Running")
    held = cluster.api.get(JOBS, NAMESPACE, "job")["metadata"]["annotations"]
    assert held["volcano.sh/job-forwarding"] == "true"
    labels = cluster.pods()["job-work-0"]["metadata"]["labels"]
    assert labels["volcano.sh/job-forwarding"] == "true"


async def test_lost_answers_and_errors_change_nothing_in_the_end(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.trouble = [
        Trouble("POST", "/podgroups$", loses_answer=True),
        Trouble("PATCH", "/jobs/job/status", times=2, loses_answer=True),
        Trouble("POST", "/pods$", times=3, loses_answer=True),
        Trouble("POST", "/pods$", times=2, status=429),
        Trouble("PATCH", "/jobs/job/status", status=500),
        Trouble("DELETE", "/pods/", times=2, loses_answer=True),
        Trouble("DELETE", "/podgroups/", status=503),
        Trouble("PATCH", "/jobs/job/status", status=409),
    ]
    policies = [policy("RestartJob", "PodFailed")]
    cluster.api.put(JOBS, job("job", task(replicas=4), policies=policies))
    await until_phase(cluster, "Running")
    cluster.set_phase("job-work-2", "Failed", 1)
    await stepping(cluster, lambda: cluster.status().get("retryCount") == 1)
    await until_phase(cluster, "Running")
    finish(cluster)
    await until_phase(cluster, "Completed")
    await until(lambda: cluster.status().get("succeeded") == 4)
    assert cluster.status()["retryCount"] == 1
    assert not [trouble for trouble in fake_api.trouble if trouble.times]


def has_passed(cluster: FakeCluster, *phases: str) -> bool:
    changes = cluster.api.changes
    states = [body.get("status", {}) for _, _, resource, body in changes if resource == JOBS]
    return pass_through(states, *phases)


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        ("AbortJob", ["Aborting", "Aborted"]),
        ("TerminateJob", ["Terminating", "Terminated"]),
        ("CompleteJob", ["Completing", "Completed"]),
        ("RestartJob", ["Restarting", "Pending", "Running"]),
        ("RestartTask", ["Restarting", "Pending", "Running"]),
        ("RestartPod", ["Restarting", "Pending", "Running"]),
    ],
)
@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted"])
async def test_a_watcher_sees_every_phase_with_its_counters(
    cluster: FakeCluster, action: str, phases: list[str], event: str
) -> None:
    """Clients wait for a status in which the pods of a job that ends or restarts are terminating."""
    tasks = (task("w", 2), task("x", 1))
    cluster.api.put(JOBS, job("job", *tasks, minAvailable=3, policies=[policy(action, event)]))
    await until_phase(cluster, "Running")
    if event == "PodFailed":
        cluster.set_phase("job-w-0", "Failed", 1)
    else:
        cluster.api.remove("pods", NAMESPACE, "job-w-0")
    if (event, action) == ("PodEvicted", "RestartPod"):
        # The pod is gone already.
        phases = ["Pending", "Running"]
    await stepping(cluster, lambda: has_passed(cluster, "Pending", "Running", *phases), action)

"""Odd Jobs: names at the edge, nothing to do, waits that are told, and two processes at once."""

from typing import Any

import msgspec
import pytest

from pumice.controllers.bus import ORPHAN_MS, Command, OrphanedCommands, delete_orphans
from pumice.controllers.job.controller import JobController
from pumice.controllers.job.defaults import with_defaults
from pumice.controllers.job.dependencies import Dependencies, never_released
from pumice.controllers.job.lifecycle import policy_actions
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.types import Job, JobSpec, Pod, Policy
from pumice.controllers.options import ControllerOptions
from pumice.controllers.runtime.acts import Delete
from pumice.controllers.runtime.times import milliseconds
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble
from tests.controllers.jobs import GROUPS, JOBS, NAMESPACE, QUEUES, FakeCluster, job, policy, task
from tests.controllers.running import Loops
from tests.controllers.test_job import finish, stepping, until_phase


@pytest.fixture
async def cluster(fake_api: FakeApi, loops: Loops) -> FakeCluster:
    loops.start(JobController(ControllerOptions()))
    return FakeCluster(fake_api)


def events(api: FakeApi, reason: str) -> list[Object]:
    return [body for body in api.objects.values() if body.get("reason") == reason]


async def test_a_job_says_why_it_waits_once_and_goes_on(
    cluster: FakeCluster, fake_api: FakeApi, loops: Loops
) -> None:
    fake_api.put(JOBS, job("job", queue="later"))

    def message() -> str:
        return str(cluster.status().get("state", {}).get("message", ""))

    await until(lambda: message() == "queue 'later' does not exist; the job waits for it")
    assert cluster.phase() == "Pending"
    # Events are written beside other writes.
    await until(lambda: events(fake_api, "JobStatusError"))
    assert [one.get("count", 1) for one in events(fake_api, "JobStatusError")] == [1]
    # A process that starts does not say it again.
    await loops.kill()
    writes = [call for call in fake_api.calls if call[0] != "GET"]
    loops.start(JobController(ControllerOptions()))
    fake_api.put(QUEUES, {"metadata": {"name": "other"}, "spec": {}})
    fake_api.put(JOBS, job("second"))
    await until(lambda: cluster.phase("second") == "Pending")
    told = [call for call in fake_api.calls if call[0] != "GET"][len(writes) :]
    assert not [path for _, path, _ in told if path.endswith("/jobs/job/status")]
    assert [one.get("count", 1) for one in events(fake_api, "JobStatusError")] == [1]
    fake_api.put(QUEUES, {"metadata": {"name": "later"}, "spec": {}})
    await until(lambda: not message())
    await until_phase(cluster, "Running")


@pytest.mark.parametrize("state", ["Closed", "Closing"])
async def test_a_job_in_a_queue_that_is_shut_waits_until_it_is_open(
    cluster: FakeCluster, fake_api: FakeApi, state: str
) -> None:
    queue = {"metadata": {"name": "shut"}, "spec": {}}
    fake_api.put(QUEUES, {**queue, "status": {"state": state}})
    fake_api.put(JOBS, job("job", queue="shut"))

    def message() -> str:
        return str(cluster.status().get("state", {}).get("message", ""))

    wait = f"queue 'shut' is {state}; the job waits until the queue is open"
    await until(lambda: message() == wait)
    assert cluster.groups() == []
    await until(lambda: events(fake_api, "JobStatusError"))
    assert [one["message"] for one in events(fake_api, "JobStatusError")] == [wait]
    fake_api.put(QUEUES, {**queue, "status": {"state": "Open"}})
    await until(lambda: len(cluster.groups()) == 1 and not message())
    # A queue that is closed later holds the job back, until the scheduler has admitted the group.
    fake_api.put(QUEUES, {**queue, "status": {"state": state}})
    await until(lambda: message() == wait)
    cluster.admit()
    await until(lambda: len(cluster.pods()) == 2 and not message())
    await until_phase(cluster, "Running")


def spec_of(*tasks: Object) -> JobSpec:
    return msgspec.convert({"tasks": list(tasks)}, JobSpec)


def after(name: str, *names: str, iteration: str = "") -> Object:
    return {"name": name, "dependsOn": {"name": list(names), "iteration": iteration}}


@pytest.mark.parametrize(
    ("tasks", "stuck"),
    [
        ([after("a"), after("b", "a")], []),
        ([after("a", "a")], ["a"]),
        ([after("a", "b"), after("b", "a"), after("c")], ["a", "b"]),
        ([after("a", "gone")], ["a"]),
        ([after("a"), after("b", "gone", "a", iteration="any")], []),
        ([after("a"), after("b", "gone", "a", iteration="all")], ["b"]),
        ([after("a"), after("b", "a", "a"), after("c", "b", "a")], []),
        ([after("a"), after("b", "a", "c", iteration="any"), after("c", "b")], []),
        ([after("t0", "t39"), *(after(f"t{n}", f"t{n - 1}") for n in range(1, 40))],
         [f"t{n}" for n in range(40)]),
    ],
)  # fmt: skip
def test_tasks_that_can_never_start(tasks: list[Object], stuck: list[str]) -> None:
    assert never_released(spec_of(*tasks)) == stuck


def test_thousands_of_tasks_are_looked_at_once_each() -> None:
    """Work that grows with the square of their number would exceed the time limit of a test."""
    count = 20_000
    tasks = [after(f"t{n}", f"t{n + 1}") for n in range(count)]
    assert len(never_released(spec_of(*tasks))) == count
    assert never_released(spec_of(*tasks, after(f"t{count}"))) == []
    spec = with_defaults(spec_of(*tasks[:5000]), "volcano")
    spec.policies = [Policy("RestartTask", "PodFailed"), Policy("RestartJob", "TaskFailed")]
    notes = [{"volcano.sh/task-spec": task.name} for task in spec.tasks or ()]
    pods = [
        msgspec.convert({"metadata": {"name": f"p{n}", "annotations": one}}, Pod)
        for n, one in enumerate(notes)
    ]
    pods[-1].status.phase = "Failed"
    (answer,) = policy_actions(Observed(Job(), spec, tuple(pods)))
    assert answer.event.task == "t4999"
    dependencies = Dependencies(spec, pods)
    # The last one waits for a task that does not exist; tasks without replicas are ready.
    assert sum(dependencies.is_released(task) for task in spec.tasks or ()) == 4999


async def test_a_circle_of_tasks_is_told(cluster: FakeCluster, fake_api: FakeApi) -> None:
    tasks = [{**task(name), "dependsOn": {"name": [other]}} for name, other in ("ab", "ba")]
    fake_api.put(JOBS, job("job", *tasks))
    await until(lambda: "dependsOn of tasks a, b" in str(cluster.status()))
    assert not cluster.groups()


async def test_a_gang_that_waits_for_its_own_members_is_told(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    after = {**task("after", 2), "dependsOn": {"name": ["work"]}}
    fake_api.put(JOBS, job("job", task(), after, minAvailable=4))
    await until(lambda: len(cluster.groups()) == 1)
    cluster.admit()
    await until(lambda: set(cluster.pods()) == {"job-work-0", "job-work-1"})
    assert "minAvailable" not in str(cluster.status().get("state"))
    (group,) = cluster.groups()
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    fake_api.put(GROUPS, {**group, "status": {**group["status"], "conditions": [condition]}})
    await until(lambda: "minAvailable is 4, but 2 pods" in str(cluster.status().get("state")))
    fake_api.put(GROUPS, {**group, "status": {**group["status"], "conditions": []}})
    await until(lambda: "minAvailable" not in str(cluster.status().get("state")))


async def test_counters_follow_although_a_foreign_config_map_is_in_the_way(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.put("configmaps", {"metadata": {"name": "job-svc", "namespace": NAMESPACE}})
    fake_api.put(JOBS, job("job", plugins={"svc": []}))
    await stepping(cluster, lambda: cluster.status().get("running") == 2)
    cluster.set_phase("job-work-0", "Failed", 1)
    await until(lambda: cluster.status().get("failed") == 1)


async def test_tasks_without_names_and_without_replicas(cluster: FakeCluster) -> None:
    unnamed = {name: value for name, value in task(replicas=1).items() if name != "name"}
    cluster.api.put(JOBS, job("job", unnamed, task("none", 0), unnamed))
    await until_phase(cluster, "Running")
    assert set(cluster.pods()) == {"job-default0-0", "job-default2-0"}
    finish(cluster)
    await until_phase(cluster, "Completed")


async def test_a_job_without_any_replica_stays_running_and_grows(cluster: FakeCluster) -> None:
    cluster.api.put(JOBS, job("job", task("w", 0)))
    await until_phase(cluster, "Running")
    assert not cluster.pods()
    grown = cluster.api.get(JOBS, NAMESPACE, "job")
    grown["metadata"]["generation"] = 2
    grown["spec"]["tasks"][0]["replicas"] = 2
    cluster.api.put(JOBS, grown)
    await stepping(cluster, lambda: cluster.status().get("running") == 2)


async def test_more_than_there_are_pods_never_runs(cluster: FakeCluster) -> None:
    """Admission refuses such a job; without it, the job waits and does no harm."""
    cluster.api.put(JOBS, job("job", task("w", 1), minAvailable=5))
    cluster.api.put(JOBS, job("other"))
    await until_phase(cluster, "Running", "other")
    await until(cluster.phase)
    assert cluster.phase() == "Pending"


async def test_names_at_the_edge(cluster: FakeCluster) -> None:
    """Names that make pods of 63 characters, and volumes and claims from them."""
    name, long_task = "j" * 40, "t" * 20
    volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
    body = job(name, task(long_task, 2), volumes=volumes, plugins={"svc": [], "ssh": []})
    cluster.api.put(JOBS, body)
    await until_phase(cluster, "Running", name)
    pods = cluster.pods()
    assert {len(pod) for pod in pods} == {63}
    for pod in pods.values():
        names = [volume["name"] for volume in pod["spec"]["volumes"]]
        assert len(set(names)) == 3
        assert all(len(one) <= 63 for one in names)


async def test_two_processes_at_once_make_each_pod_once(
    cluster: FakeCluster, fake_api: FakeApi, loops: Loops
) -> None:
    """As when a lease is lost: the other one leads already while the first writes its last."""
    loops.start(JobController(ControllerOptions()))
    policies = [policy("RestartJob", "PodFailed")]
    for number in range(6):
        fake_api.put(JOBS, job(f"j{number}", task("w", 3), policies=policies))

    def all_run(retries: int) -> bool:
        found = [cluster.status(f"j{number}") for number in range(6)]
        return all(one.get("running") == 3 and one.get("retryCount", 0) == retries for one in found)

    await stepping(cluster, lambda: all_run(0))
    for number in range(6):
        cluster.set_phase(f"j{number}-w-1", "Failed", 1)
    await stepping(cluster, lambda: all_run(1))
    versions: list[Any] = [cluster.status(f"j{number}").get("version") for number in range(6)]
    assert versions == [1] * 6
    uids = [
        body["metadata"]["uid"]
        for _, change, resource, body in fake_api.changes
        if resource == "pods" and change == "ADDED"
    ]
    assert len(uids) == len(set(uids)) == 6 * 3 * 2


async def test_a_queue_whose_name_is_no_label_and_a_pod_that_is_no_task(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    long = "q" * 100
    fake_api.put(QUEUES, {"metadata": {"name": long}, "spec": {}})
    fake_api.put(JOBS, job("job", task("work", 1), queue=long))
    await until(cluster.groups)
    uid = fake_api.get(JOBS, NAMESPACE, "job")["metadata"]["uid"]
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": uid,
        "controller": True,
    }  # fmt: skip
    metadata = {
        "namespace": NAMESPACE, "name": "helper", "labels": {"volcano.sh/job-name": "job"},
        "annotations": {"volcano.sh/job-name": "job"}, "ownerReferences": [owner],
    }  # fmt: skip
    fake_api.put("pods", {"metadata": metadata, "status": {"phase": "Running"}})
    await stepping(cluster, lambda: cluster.phase() == "Running")
    made = cluster.pods()["job-work-0"]["metadata"]
    assert "volcano.sh/queue-name" not in made["labels"]
    assert made["annotations"]["volcano.sh/queue-name"] == long
    assert cluster.status()["running"] == 1
    assert "helper" in cluster.pods()


async def test_a_policy_without_effect_is_told_once(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.put(JOBS, job("job", task("work", 1), policies=[policy("RestartPod", "Unknown")]))
    await stepping(cluster, lambda: cluster.phase() == "Running")
    await until(lambda: events(fake_api, "PolicyError"))
    assert [(one["message"], one["count"]) for one in events(fake_api, "PolicyError")] == [
        ("spec.policies[0] has no effect: the event Unknown names no task or pod, which RestartPod"
         " needs", 1),
    ]  # fmt: skip


async def test_nulls_in_a_template(cluster: FakeCluster, fake_api: FakeApi) -> None:
    container = {"name": "main", "image": "work", "resources": None, "env": None, "ports": None}
    spec = {"containers": [container], "initContainers": None, "volumes": None}
    body = {"name": "w", "replicas": 1, "template": {"metadata": None, "spec": spec}}
    fake_api.put(JOBS, job("job", body))
    await stepping(cluster, lambda: cluster.phase() == "Running")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (job("job", task("w", 1), task("w", 2)), "spec.tasks: the name 'w' occurs twice"),
        (job("job", task("w", 1), minAvailable=5), "spec.minAvailable is 5, and the tasks have 1"),
    ],
)
async def test_jobs_that_cannot_start_say_why(
    cluster: FakeCluster, fake_api: FakeApi, made: Object, text: str
) -> None:
    fake_api.put(JOBS, made)
    await stepping(cluster, lambda: text in cluster.status().get("state", {}).get("message", ""))
    assert cluster.phase() == "Pending"
    # Events are written beside other writes.
    await until(
        lambda: any(text in event["message"] for event in events(fake_api, "JobStatusError"))
    )


async def test_a_job_whose_objects_are_refused_has_a_phase_and_no_outdated_message(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.trouble = [Trouble("POST", "/services$", 10**6, status=422, message="bad name")]
    fake_api.put(JOBS, job("job", task("w", 1), plugins={"svc": []}))
    await until(lambda: events(fake_api, "PluginError"))
    await until(lambda: cluster.phase() == "Pending")
    assert "controlledResources" not in cluster.status()
    # One that waited before says nothing of that any more.
    fake_api.put(JOBS, job("late", task("w", 1), queue="late", plugins={"svc": []}))
    await until(lambda: cluster.status("late").get("state", {}).get("message"))
    fake_api.put(QUEUES, {"metadata": {"name": "late"}, "spec": {}})
    await until(lambda: not cluster.status("late")["state"].get("message"))
    fake_api.trouble = []
    await stepping(cluster, lambda: cluster.phase() == cluster.phase("late") == "Running")


async def test_commands_that_have_no_effect_are_told(
    cluster: FakeCluster, fake_api: FakeApi
) -> None:
    fake_api.put(JOBS, job("job", task("w", 1)))
    await stepping(cluster, lambda: cluster.phase() == "Running")
    for action in ("Dance", "", "ResumeJob", "RestartTask"):
        cluster.command(action)
    commands = "commands.bus.volcano.sh"
    await until(lambda: not any(key[0] == commands for key in fake_api.objects))
    await until(lambda: len(events(fake_api, "CommandIssued")) == 4)
    told = events(fake_api, "CommandIssued")
    assert all(event["type"] == "Warning" for event in told)
    texts = [event["message"].partition(": ")[2] for event in told]
    assert sum("is unknown; allowed: AbortJob, ResumeJob" in text for text in texts) == 2
    assert "ResumeJob has no effect: the job is Running" in texts
    assert "RestartTask needs a pod or a task, which no Command has" in texts
    assert cluster.phase() == "Running"


def test_a_command_waits_for_its_job_for_a_while() -> None:
    command = msgspec.convert(
        {"metadata": {"namespace": "ns", "name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}},
        Command,
    )
    created_ms = milliseconds("2026-01-01T00:00:00Z")
    young = delete_orphans(OrphanedCommands((command,), created_ms + 4000))
    assert (young.stages, young.again_seconds) == ((), 6.0)
    old = delete_orphans(OrphanedCommands((command,), created_ms + ORPHAN_MS))
    assert [type(act) for act in old.stages[0]] == [Delete]

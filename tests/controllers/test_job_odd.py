"""Odd Jobs: names at the edge, nothing to do, waits that are told, and two processes at once."""

from typing import Any

import msgspec
import pytest

from pumice.controllers.job.controller import JobController
from pumice.controllers.job.dependencies import never_released
from pumice.controllers.job.types import JobSpec
from pumice.controllers.options import ControllerOptions
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object
from tests.controllers.jobs import JOBS, NAMESPACE, QUEUES, FakeCluster, job, policy, task
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
        ([after("t0", "t39"), *(after(f"t{n}", f"t{n - 1}") for n in range(1, 40))],
         [f"t{n}" for n in range(40)]),
    ],
)  # fmt: skip
def test_tasks_that_can_never_start(tasks: list[Object], stuck: list[str]) -> None:
    assert never_released(spec_of(*tasks)) == stuck


async def test_a_circle_of_tasks_is_told(cluster: FakeCluster, fake_api: FakeApi) -> None:
    tasks = [{**task(name), "dependsOn": {"name": [other]}} for name, other in ("ab", "ba")]
    fake_api.put(JOBS, job("job", *tasks))
    await until(lambda: "dependsOn of tasks a, b" in str(cluster.status()))
    assert not cluster.groups()


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

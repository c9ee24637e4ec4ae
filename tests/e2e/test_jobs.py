"""Jobs on a real API server: from submission to the end, with failures, Commands and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.controlplane.client import STRATEGIC, Object
from tests.controlplane.credentials import ADMIN, CONTROLLERS
from tests.controlplane.proxy import FaultyProxy
from tests.controlplane.scheduler import Child
from tests.e2e.cluster import COMMANDS, GROUPS, JOBS, PODS, Cluster
from tests.e2e.objects import NAMESPACE


def task(name: str, replicas: int, **more: Any) -> Object:
    container = {
        "name": "main",
        "image": "work",
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
    }
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(name: str, *tasks: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"tasks": list(tasks), **spec},
    }


class Jobs:
    """Jobs of a cluster, as a test sees them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, cluster.client

    async def status(self, name: str) -> Object:
        found: Object = (await self.client.get(f"{JOBS}/{name}")).get("status", {})
        return found

    async def until(self, name: str, what: str, is_so: Callable[[Object], object]) -> None:
        async def holds() -> bool:
            return bool(is_so(await self.status(name)))

        try:
            await self.cluster.until(f"job {name}: {what}", holds)
        except AssertionError as error:
            raise AssertionError(f"{await self.status(name)}\n{error}") from None

    async def until_phase(self, name: str, phase: str) -> None:
        await self.until(name, phase, lambda s: s.get("state", {}).get("phase") == phase)

    async def until_running(self, name: str, count: int) -> None:
        """Until the status counts so many running pods, and so many run: it may be an old one."""

        async def holds() -> bool:
            status, pods = await self.status(name), (await self.pods(name)).values()
            phases = [
                p["status"]["phase"] for p in pods if not p["metadata"].get("deletionTimestamp")
            ]
            is_counted = status.get("running") == count == phases.count("Running")
            return is_counted and status.get("state", {}).get("phase") == "Running"

        try:
            await self.cluster.until(f"job {name}: {count} running", holds)
        except AssertionError as error:
            raise AssertionError(f"{await self.status(name)}\n{error}") from None

    async def pods(self, name: str) -> dict[str, Object]:
        selector = f"volcano.sh/job-name={name}"
        found = await self.client.list(PODS, labelSelector=selector)
        return {pod["metadata"]["name"]: pod for pod in found}

    async def uids(self, name: str) -> dict[str, str]:
        return {n: pod["metadata"]["uid"] for n, pod in (await self.pods(name)).items()}

    async def end(self, pod: str, phase: str, exit_code: int = 0) -> None:
        ended = {"exitCode": exit_code, "finishedAt": "2026-01-01T00:00:00Z"}
        state = {
            "name": "main", "image": "work", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"terminated": ended},
        }  # fmt: skip
        patch = {"status": {"phase": phase, "containerStatuses": [state]}}
        await self.client.call("PATCH", f"{PODS}/{pod}/status", patch, content_type=STRATEGIC)

    async def command(self, name: str, action: str) -> None:
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": "x",
        }  # fmt: skip
        await self.client.create(
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": f"{name}-{action.lower()}", "namespace": NAMESPACE},
                "action": action,
                "target": target,
            }
        )

    async def gone(self, what: str, count: Callable[[], Awaitable[object]]) -> None:
        async def none() -> bool:
            return not await count()

        await self.cluster.until(what, none)


async def started(cluster: Cluster) -> Jobs:
    await cluster.add_nodes(4)
    cluster.run_scheduler()
    cluster.start_controllers()
    return Jobs(cluster)


async def test_jobs_run_complete_scale_suspend_and_expire(cluster: Cluster) -> None:
    jobs = await started(cluster)
    client = cluster.client
    plugins: dict[str, list[str]] = {"svc": [], "ssh": [], "env": []}
    await client.create(job("plain", task("a", 2), task("b", 1), plugins=plugins))
    then = task("then", 1, minAvailable=0, dependsOn={"name": ["first"]})
    await client.create(job("chain", task("first", 1), then, minAvailable=1))
    await client.create(job("short", task("w", 1), ttlSecondsAfterFinished=1))
    await client.create(job("wide", task("w", 2), minAvailable=2))

    await jobs.until_running("plain", 3)
    pods = await jobs.pods("plain")
    assert set(pods) == {"plain-a-0", "plain-a-1", "plain-b-0"}
    assert all(pod["spec"]["nodeName"] for pod in pods.values())
    base = f"/api/v1/namespaces/{NAMESPACE}"
    hosts = await client.get(f"{base}/configmaps/plain-svc")
    assert hosts["data"]["VC_A_HOSTS"] == "plain-a-0.plain,plain-a-1.plain"
    assert set((await client.get(f"{base}/secrets/plain-ssh"))["data"]) >= {"id_rsa", "config"}
    for name in pods:
        await jobs.end(name, "Succeeded")
    await jobs.until_phase("plain", "Completed")
    status = await jobs.status("plain")
    assert (status["succeeded"], status["taskStatusCount"]["a"]["phase"]) == (3, {"Succeeded": 2})

    # The second task waited for the first.
    await jobs.until_running("chain", 2)

    await jobs.until_running("short", 1)
    await jobs.end("short-w-0", "Succeeded")

    async def is_listed() -> bool:
        found = {one["metadata"]["name"]: one for one in await client.list(JOBS)}
        return "short" in found and "deletionTimestamp" not in found["short"]["metadata"]

    await jobs.gone("short is deleted", is_listed)

    await jobs.until_running("wide", 2)
    await client.merge(f"{JOBS}/wide", {"spec": {"tasks": [task("w", 3)], "minAvailable": 3}})
    await jobs.until_running("wide", 3)
    await client.merge(f"{JOBS}/wide", {"spec": {"tasks": [task("w", 1)], "minAvailable": 1}})
    await jobs.until_running("wide", 1)

    async def is_smaller() -> bool:
        return set(await jobs.pods("wide")) == {"wide-w-0"}

    await cluster.until("only the first pod is left", is_smaller)

    await jobs.command("wide", "AbortJob")
    await jobs.until_phase("wide", "Aborted")
    await jobs.gone("pods of wide", lambda: jobs.pods("wide"))
    await jobs.command("wide", "ResumeJob")
    await jobs.until_running("wide", 1)
    await jobs.gone("commands", lambda: client.list(COMMANDS))
    assert (await jobs.status("wide")).get("retryCount", 0) == 0
    for reason in ("CommandIssued", "ExecuteAction"):
        await cluster.until_event(reason, name="wide")


async def test_an_unknown_field_of_a_template_is_an_event(cluster: Cluster) -> None:
    await started(cluster)
    odd = task("odd", 3)
    odd["template"]["spec"]["priorityClass"] = "high"
    await cluster.client.create(job("typed", odd))

    async def is_told() -> bool:
        found = await cluster.events(kind="Job", name="typed")
        return [one["message"] for one in found if one["reason"] == "APIWarning"] == [
            'Pod: unknown field "spec.priorityClass"'
        ]

    await cluster.until("an event names the field", is_told)


async def test_one_command_runs_scheduler_and_controllers(cluster: Cluster) -> None:
    await cluster.add_nodes(1)
    run = cluster.scheduler.start_both(cluster.kubeconfig(ADMIN), "--controllers")
    jobs = Jobs(cluster)
    await cluster.client.create(job("one", task("w", 2)))
    await jobs.until_running("one", 2)
    assert await asyncio.to_thread(run.stop) == 0


async def test_controllers_that_are_killed_go_on_and_a_steady_cluster_causes_no_writes(
    cluster: Cluster,
) -> None:
    await cluster.add_nodes(4)
    cluster.run_scheduler()
    jobs, count = Jobs(cluster), 6
    proxy = await cluster.add_proxy()

    def start() -> Child:
        kubeconfig = cluster.kubeconfig(CONTROLLERS, proxy.url)
        selection = "--controllers=job-controller,gc-controller"
        return cluster.scheduler.start_controllers(kubeconfig, selection)

    child = start()
    names = [f"k{number}" for number in range(count)]
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    for name in names:
        await cluster.client.create(job(name, task("w", 3), policies=policies))

    # Killed while pods are created, and again while jobs restart.
    async def are_some() -> bool:
        return bool(await cluster.pods())

    await cluster.until("the first pods", are_some)
    child.kill()
    child = start()
    for name in names:
        await jobs.until_running(name, 3)
        await jobs.end(f"{name}-w-0", "Failed", 1)
    child.kill()
    child = start()
    for name in names:
        await jobs.until(name, "a retry", lambda s: s.get("retryCount") == 1)
        await jobs.until_running(name, 3)
        assert set(await jobs.pods(name)) == {f"{name}-w-{index}" for index in range(3)}

    # A restarted controller reads everything, and finds nothing to do.
    await cluster.until_quiet(proxy)
    child.stop()
    before = len(_writes(proxy))
    child = start()
    await cluster.until("it reads", lambda: _says(child, "reconciling begins"))
    status = await cluster.client.get(f"{PODS}/k0-w-1")
    touched = {"metadata": {"annotations": {"touched": "yes"}}}
    await cluster.client.merge(f"{PODS}/{status['metadata']['name']}", touched)
    await asyncio.sleep(1.5)
    assert _writes(proxy)[before:] == []
    creates = [call for call in proxy.writes() if (call.verb, call.resource) == ("create", "pods")]
    made = [call for call in creates if call.status < 300]
    assert len(made) == 2 * 3 * count


def _writes(proxy: FaultyProxy) -> list[tuple[str, str]]:
    calls = [(call.verb, call.resource) for call in proxy.writes()]
    return [call for call in calls if not call[1].startswith("leases")]


async def _says(child: Child, text: str) -> bool:
    return text in child.said


async def test_policies_answer_failures_and_evictions(cluster: Cluster) -> None:
    jobs = await started(cluster)
    client = cluster.client
    parts = {"totalPartitions": 2, "partitionSize": 1}
    failed = {"event": "PodFailed"}
    for action in ("RestartJob", "AbortJob", "CompleteJob", "TerminateJob"):
        policies = [{**failed, "action": action}]
        await client.create(job(action.lower(), task("w", 2), policies=policies))
    for action in ("RestartTask", "RestartPod", "RestartPartition"):
        policies = [{**failed, "action": action}]
        more = {"partitionPolicy": parts} if action == "RestartPartition" else {}
        tasks = (task("w", 2, policies=policies, **more), task("x", 1))
        await client.create(job(action.lower(), *tasks))
    codes = [{"exitCode": 3, "action": "AbortJob"}, {**failed, "action": "RestartJob"}]
    await client.create(job("codes", task("w", 1), policies=codes))
    evicted = [{"event": "PodEvicted", "action": "RestartJob"}]
    await client.create(job("evicted", task("w", 2), policies=evicted))

    for action, phase in (
        ("abort", "Aborted"),
        ("complete", "Completed"),
        ("terminate", "Terminated"),
    ):
        await jobs.until_running(f"{action}job", 2)
        await jobs.end(f"{action}job-w-1", "Failed", 1)
        await jobs.until_phase(f"{action}job", phase)
        assert set(await jobs.pods(f"{action}job")) == {f"{action}job-w-1"}

    await jobs.until_running("restartjob", 2)
    before = await jobs.uids("restartjob")
    await jobs.end("restartjob-w-0", "Failed", 1)
    await jobs.until("restartjob", "a retry", lambda s: s.get("retryCount") == 1)
    await jobs.until_running("restartjob", 2)
    after = await jobs.uids("restartjob")
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    assert (await jobs.status("restartjob"))["version"] == 1

    for action, replaced in (("task", {"w-0", "w-1"}), ("pod", {"w-0"}), ("partition", {"w-0"})):
        name = f"restart{action}"
        await jobs.until_running(name, 3)
        before = await jobs.uids(name)
        await jobs.end(f"{name}-w-0", "Failed", 1)
        await jobs.until(name, "a retry", lambda s: s.get("retryCount") == 1)
        await jobs.until_running(name, 3)
        after = await jobs.uids(name)
        changed = {one for one in before if before[one] != after.get(one)}
        assert changed == {f"{name}-{one}" for one in replaced}
        assert (await jobs.status(name)).get("version", 0) == 0

    await jobs.until_running("codes", 1)
    await jobs.end("codes-w-0", "Failed", 3)
    await jobs.until_phase("codes", "Aborted")

    await jobs.until_running("evicted", 2)
    await client.delete(f"{PODS}/evicted-w-0")
    await jobs.until("evicted", "a retry", lambda s: s.get("retryCount") == 1)
    await jobs.until_running("evicted", 2)
    groups = await client.list(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups")
    assert sum(one["metadata"]["name"].startswith("evicted-") for one in groups) == 1

"""Jobs on an API server that refuses, fails, throttles, loses answers and ends watches at random."""

import random

import pytest

from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.job.controller import JobController
from pumice.controllers.options import ControllerOptions
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.controllers.jobs import JOBS, NAMESPACE, FakeCluster, job, policy, task
from tests.controllers.running import Loops

NAMES = [f"job-{number}" for number in range(6)]
WATCHED = (JOBS, "pods", "podgroups.scheduling.volcano.sh", "configmaps")
METHODS = ("POST", "POST", "PATCH", "PATCH", "DELETE", "GET")


class Faults:
    """A limited number of faults, a few at a time, and watches that end or expire."""

    def __init__(self, api: FakeApi, seed: int) -> None:
        self._api, self._rng = api, random.Random(seed)
        self._left = 60

    def add(self) -> None:
        rng = self._rng
        self._api.trouble = [one for one in self._api.trouble if one.times]
        if not self._left or len(self._api.trouble) > 3:
            return
        self._left -= 1
        path = rng.choice(["/pods", "/podgroups", "/jobs/", "/services", "/configmaps", "/secrets"])
        status = rng.choice([409, 429, 500, 503, 0])
        trouble = Trouble(rng.choice(METHODS), path, status=status, loses_answer=not status)
        self._api.trouble.append(trouble)

    def end_watch(self) -> None:
        end = self._rng.choice([self._api.end_watches, self._api.expire])
        end(self._rng.choice(WATCHED))


def start(loops: Loops) -> None:
    options = ControllerOptions()
    loops.start(JobController(options), GarbageCollector(options))


@pytest.mark.parametrize("seed", range(2))
async def test_every_job_runs_restarts_and_ends_in_spite_of_all(
    fake_api: FakeApi, loops: Loops, seed: int
) -> None:
    cluster, faults, rng = FakeCluster(fake_api), Faults(fake_api, seed), random.Random(seed)
    start(loops)
    for name in NAMES:
        body = job(
            name, task("a", 2), task("b", 1), minAvailable=3, maxRetry=9,
            policies=[policy("RestartJob", "PodFailed"), policy("RestartPod", exitCode=7)],
            plugins={"svc": [], "ssh": []},
        )  # fmt: skip
        fake_api.put(JOBS, body)

    def step() -> None:
        cluster.step()
        if rng.random() < 0.3:
            faults.add()
        if rng.random() < 0.02:
            faults.end_watch()

    async def until_all(phase: str) -> None:
        def are_so() -> bool:
            step()
            return all(cluster.phase(name) == phase for name in NAMES)

        await until(are_so, f"{phase}: {[cluster.status(name) for name in NAMES]}")

    await until_all("Running")
    for number in range(3):
        await loops.kill()
        start(loops)
        for name in NAMES:
            pod = f"{name}-{'ab'[number % 2]}-0"
            if ("pods", NAMESPACE, pod) in fake_api.objects:
                cluster.set_phase(pod, "Failed", rng.choice([1, 7]))

        def has_restarted(least: int = number + 1) -> bool:
            step()
            counts = [cluster.status(name).get("retryCount", 0) for name in NAMES]
            return bool(min(counts) >= least)

        await until(has_restarted, f"restart {number}")
        await until_all("Running")
    assert {cluster.status(name)["retryCount"] for name in NAMES} <= {3}
    check_whole(cluster)
    fake_api.trouble.clear()
    for name in cluster.pods():
        cluster.set_phase(name, "Succeeded")
    await until_all("Completed")
    await until(lambda: not any("controlledResources" in cluster.status(n) for n in NAMES))
    left = {key[0] for key in fake_api.objects} & {"services", "secrets", "configmaps"}
    assert not left


def check_whole(cluster: FakeCluster) -> None:
    """Each job has its pods and the objects of its plugins, all of them its own."""
    for name in NAMES:
        uid = cluster.api.get(JOBS, NAMESPACE, name)["metadata"]["uid"]
        assert sorted(cluster.pods(name)) == [f"{name}-a-0", f"{name}-a-1", f"{name}-b-0"]
        for resource, own in (
            ("services", name), ("secrets", f"{name}-ssh"), ("configmaps", f"{name}-svc"),
        ):  # fmt: skip
            body = cluster.api.get(resource, NAMESPACE, own)
            assert body["metadata"]["ownerReferences"][0]["uid"] == uid

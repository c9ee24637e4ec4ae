"""Flows, queues and PodGroups on an API server that fails at random, with processes that are killed."""

import random
from typing import Any

import pytest

from pumice.controllers.jobflow.controller import JobFlowController, JobTemplateController
from pumice.controllers.options import ControllerOptions
from pumice.controllers.podgroup.controller import PodGroupController
from pumice.controllers.queue.controller import QueueController
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble
from tests.controllers.running import Loops

JOBS, FLOWS, TEMPLATES = (
    "jobs.batch.volcano.sh", "jobflows.flow.volcano.sh", "jobtemplates.flow.volcano.sh",
)  # fmt: skip
QUEUES, GROUPS = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"
COMMANDS = "commands.bus.volcano.sh"
OWNERS = {
    "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", JOBS, FLOWS, TEMPLATES,
}  # fmt: skip
PATHS = ("/jobs", "/jobflows", "/jobtemplates", "/queues", "/commands", "/podgroups", "/pods")


def start(loops: Loops) -> None:
    options = ControllerOptions()
    kinds: Any = (JobFlowController, JobTemplateController, QueueController, PodGroupController)
    loops.start(*(kind(options) for kind in kinds))


def make(api: FakeApi) -> None:
    for name in "abc":
        api.put(TEMPLATES, {"metadata": {"namespace": "ns", "name": name}, "spec": {}})
    flows = [
        {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}},
        {"name": "c", "dependsOn": {"targets": ["a", "b"]}},
    ]  # fmt: skip
    for number in range(3):
        metadata = {"namespace": "ns", "name": f"flow-{number}"}
        api.put(FLOWS, {"metadata": metadata, "spec": {"flows": flows}})
    for name, parent in (("root", ""), ("top", "root"), ("mid", "top"), ("low", "mid")):
        api.put(QUEUES, {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}})
    for number in range(4):
        metadata = {"namespace": "ns", "name": f"bare-{number}"}
        spec = {"schedulerName": "volcano", "containers": [{"name": "c"}]}
        api.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})


def command(api: FakeApi, action: str, number: int) -> None:
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "top"}
    metadata = {
        "namespace": "default", "name": f"order-{number}",
        "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
    }  # fmt: skip
    api.put(COMMANDS, {"metadata": metadata, "action": action, "target": target})


def of(api: FakeApi, resource: str) -> list[Object]:
    return [body for key, body in sorted(api.objects.items()) if key[0] == resource]


@pytest.mark.parametrize("seed", range(2))
async def test_everything_comes_to_its_end(fake_api: FakeApi, loops: Loops, seed: int) -> None:
    fake_api.resources |= OWNERS
    fake_api.with_status |= {JOBS, FLOWS, TEMPLATES}
    rng, left = random.Random(seed), 60
    make(fake_api)
    start(loops)

    def step() -> None:
        nonlocal left
        fake_api.trouble = [one for one in fake_api.trouble if one.times]
        if left and len(fake_api.trouble) < 8:
            left -= 1
            status = rng.choice([409, 429, 500, 0])
            method = rng.choice(["POST", "PATCH", "PATCH", "DELETE", "GET"])
            path = rng.choice(PATHS)
            fake_api.trouble.append(Trouble(method, path, status=status, loses_answer=not status))
        for job in of(fake_api, JOBS):
            if job.get("status", {}).get("state", {}).get("phase") != "Completed":
                state = {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                fake_api.put(JOBS, {**job, "status": {"state": state}})

    def states() -> list[str]:
        names = ("top", "mid", "low")
        return [fake_api.get(QUEUES, "", n).get("status", {}).get("state", "") for n in names]

    def is_done(wanted: str) -> bool:
        step()
        groups = {group["metadata"]["name"] for group in of(fake_api, GROUPS)}
        note = "scheduling.k8s.io/group-name"
        named = {p["metadata"].get("annotations", {}).get(note) for p in of(fake_api, "pods")}
        phases = [f.get("status", {}).get("state", {}).get("phase") for f in of(fake_api, FLOWS)]
        is_obeyed = states() == [wanted] * 3 and not of(fake_api, COMMANDS)
        return is_obeyed and set(phases) == {"Succeed"} and named == groups and len(groups) == 4

    for number in range(6):
        command(fake_api, ["CloseQueue", "OpenQueue"][number % 2], number)
        if number % 3 == 2:
            await loops.kill()
            start(loops)
    await until(lambda: is_done("Open"), f"{states()} {of(fake_api, FLOWS)}")
    command(fake_api, "CloseQueue", 50)
    await loops.kill()
    start(loops)
    await until(lambda: is_done("Closed"), f"{states()}")
    lists = [t["status"]["jobDependsOnList"] for t in of(fake_api, TEMPLATES)]
    assert lists == [[f"flow-{n}-{name}" for n in range(3)] for name in "abc"]
    made = [body["metadata"]["name"] for body in of(fake_api, JOBS)]
    assert made == [f"flow-{n}-{name}" for n in range(3) for name in "abc"]

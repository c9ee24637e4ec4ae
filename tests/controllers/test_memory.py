"""The memory of the controllers follows what exists: nothing is kept of deleted objects."""

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.controllers.options import ControllerOptions
from pumice.controllers.registry import CONTROLLERS
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.runtime.loop import ControllerLoop
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.jobs import JOBS, NAMESPACE, FakeCluster, job, policy, task
from tests.controllers.running import Loops

CRON_JOBS = "cronjobs.batch.volcano.sh"
FLOWS = "jobflows.flow.volcano.sh"
TEMPLATES = "jobtemplates.flow.volcano.sh"
HYPER_NODES = "hypernodes.topology.volcano.sh"
COLOCATION = "colocationconfigurations.config.volcano.sh"
GROUPS = "podgroups.scheduling.volcano.sh"
QUEUES = "queues.scheduling.volcano.sh"
MORE = {
    CRON_JOBS, FLOWS, TEMPLATES, HYPER_NODES, COLOCATION, "replicasets.apps", "statefulsets.apps",
    "daemonsets.apps", "jobs.batch",
}  # fmt: skip
CLUSTER_WIDE = {QUEUES, HYPER_NODES, "nodes"}


def sizes(loop: ControllerLoop) -> dict[str, int]:
    """The number of entries of every container that a loop and its controllers hold."""
    found: dict[str, int] = {}
    for running in loop._running:
        name = running.controller.name
        for where, size in _containers(running.controller):
            # The last observed HyperNodes and nodes are kept until the next count.
            if not where.startswith("_counter."):
                found[f"{name} {where}"] = size
        for where, size in _containers(running.queue):
            if where not in ("_heap", "_processing"):
                found[f"{name} queue {where}"] = size
    for watch, cache in loop._by_watch.items():
        for where, size in _containers(cache):
            found[f"{watch.source.shown} {watch.type.__module__} {where}"] = size
    found["in flight"] = len(loop._in_flight)
    return found


def _containers(owner: Any, path: str = "") -> Iterator[tuple[str, int]]:
    for name, value in vars(owner).items():
        where = f"{path}{name}"
        if isinstance(value, dict):
            yield where, sum(len(v) if isinstance(v, dict) else 1 for v in value.values())
        elif isinstance(value, set | list | deque):
            yield where, len(value)
        elif type(value).__module__.startswith("pumice.controllers") and hasattr(value, "__dict__"):
            yield from _containers(value, f"{where}.")


class Walk:
    """Creates, changes and deletes objects of all kinds at random."""

    def __init__(self, api: FakeApi, seed: int) -> None:
        self.api, self.cluster, self.rng = api, FakeCluster(api), random.Random(seed)
        self._numbers = iter(range(10**6))

    def put(self, resource: str, **content: Any) -> None:
        name = f"{self.rng.choice('abc')}-{next(self._numbers)}"
        metadata = {"name": name, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        if resource not in CLUSTER_WIDE:
            metadata["namespace"] = NAMESPACE
        self.api.put(resource, {"metadata": metadata, **content})

    def _create(self) -> None:
        rng = self.rng
        timed = [policy("RestartJob", "PodEvicted", timeout="1h"), policy("AbortJob", "PodFailed")]
        ttl = rng.choice([{}, {"ttlSecondsAfterFinished": 10**6}])
        body = job(f"job-{next(self._numbers)}", task(policies=timed), plugins={"svc": []}, **ttl)
        self.api.put(JOBS, body)
        template = {"spec": body["spec"]}
        flow = {"flows": [{"name": "one"}, {"name": "two", "dependsOn": {"targets": ["one"]}}]}
        match rng.randrange(7):
            case 0:
                self.put(CRON_JOBS, spec={"schedule": "0 0 1 1 *", "jobTemplate": template})
            case 1:
                self.put(FLOWS, spec=flow)
                self.put(TEMPLATES, spec=body["spec"])
            case 2:
                members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "a-.*"}}}]
                self.put(HYPER_NODES, spec={"tier": 1, "members": members})
                self.put("nodes", status={"capacity": {"cpu": "4"}})
            case 3:
                self.put(QUEUES, spec={"parent": rng.choice(["root", "a", "missing"])})
                self.put(GROUPS, spec={"queue": rng.choice(["default", "a-1", "missing"])})
            case 4:
                self.put(COLOCATION, spec={"selector": {"matchLabels": {"a": "b"}}})
            case 5:
                spec = {"schedulerName": "volcano", "containers": [], "nodeName": "a-1"}
                self.put("pods", spec=spec)
                self.put("replicasets.apps", spec={"replicas": 1})
            case 6:
                self.cluster.command(rng.choice(["AbortJob", "RestartJob", "Unknown"]), "job-1")

    def _pods_of_jobs(self) -> list[str]:
        found = self.api.objects.items()
        return [k[2] for k, b in found if k[0] == "pods" and b["metadata"].get("annotations")]

    def step(self) -> None:
        rng = self.rng
        self._create()
        self.cluster.admit()
        for name in self._pods_of_jobs():
            self.cluster.set_phase(name, rng.choice(["Running", "Running", "Succeeded", "Failed"]))
        if rng.random() < 0.5 and (names := self._pods_of_jobs()):
            self.api.remove("pods", NAMESPACE, rng.choice(names))

    def clear(self) -> bool:
        """Deletes everything except for the queue; returns whether there was nothing."""
        kept = ("leases", "events", "customresourcedefinitions", "nodeshards")
        found = [
            key
            for key in self.api.objects
            if not key[0].startswith(kept) and key[2] not in ("default", "root")
        ]
        for key in found:
            if key in self.api.objects:
                self.api.remove(*key)
        return not found


def all_controllers() -> list[Controller[Any]]:
    return [make(ControllerOptions()) for make in CONTROLLERS.values()]


async def settled(loop: ControllerLoop, walk: Walk, works: bool) -> dict[str, int]:
    """The sizes when nothing exists, and no key waits except for those of a period, or on a standby."""
    last: dict[str, int] = {}
    still = 0
    while still < 5:
        is_clear = walk.clear()
        await asyncio.sleep(0.05)
        now = sizes(loop)
        waiting = [name for name, size in now.items() if name.endswith("queue _due") and size]
        is_idle = not works or set(waiting) <= {"sharding-controller queue _due"}
        still = still + 1 if is_clear and is_idle and now == last else 0
        last = now
    return last


@pytest.mark.parametrize("is_standby", [False, True])
async def test_nothing_is_kept_of_deleted_objects(
    fake_api: FakeApi, loops: Loops, is_standby: bool
) -> None:
    fake_api.resources |= MORE
    fake_api.with_status |= {CRON_JOBS, FLOWS, TEMPLATES, HYPER_NODES}
    walk = Walk(fake_api, seed=7)
    loop = loops.start(*all_controllers())
    await until(lambda: all(one.listed.is_set() for one in loop._reflectors))
    if is_standby:
        await end_tasks(loops.tasks.pop())
    before: dict[str, int] | None = None
    for _ in range(3):
        for _ in range(40):
            walk.step()
            await asyncio.sleep(0.005)
        after = await asyncio.wait_for(settled(loop, walk, not is_standby), 60)
        if before is not None:
            assert after == before
        before = after
    assert before is not None
    assert max(before.values()) < 20, before

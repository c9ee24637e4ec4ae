"""The memory of an adapter follows what exists: nothing is kept of deleted objects."""

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pumice.adapters.kubernetes.options import KubernetesOptions
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.world import KubernetesWorld
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.v1.group_pb2 import POD_GROUP_PHASE_INQUEUE, PodGroupStatus
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from pumice.v1.status_pb2 import Event, PodConditionChange, PodGroupStatusChange, StatusChange
from tests.adapters.fake_core import running_core
from tests.adapters.greedy_core import GreedyCore
from tests.adapters.kubernetes.conftest import FastClock
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble
from tests.adapters.kubernetes.objects import PODGROUPS, QUEUES, claim, group, node, pod, queue

# Bounded by numbers of their own, which other tests check.
BOUNDED = (
    "_events._written", "_events._texts", "_ledger._closed", "_confirmations._nodes", "_metrics",
    ".metrics", "_listing", "_subresources",
)  # fmt: skip


def sizes(root: Any) -> dict[str, int]:
    """The number of entries of every container of the adapter."""
    found: dict[str, int] = {}
    for where, size in _containers(root, "", set()):
        found[where] = found.get(where, 0) + size
    return found


def _containers(owner: Any, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if id(owner) in seen:
        return
    seen.add(id(owner))
    names = [*getattr(owner, "__dict__", ()), *getattr(type(owner), "__slots__", ())]
    for name in names:
        value, where = getattr(owner, name, None), f"{path}.{name}"
        if any(part in where for part in BOUNDED):
            continue
        if isinstance(value, dict | set | list | deque):
            yield where, len(value)
            inner = list(value.values()) if isinstance(value, dict) else list(value)
            for one in inner:
                yield from _of_value(one, f"{where}[]", seen)
        else:
            yield from _of_value(value, where, seen)


def _of_value(value: Any, where: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict | set | list | deque):
        yield where, len(value)
    elif type(value).__module__.startswith("pumice.adapters"):
        yield from _containers(value, where, seen)


class Walk:
    """Creates, changes and deletes objects, and reports statuses and events about them."""

    def __init__(self, api: FakeApi, runtime: AdapterRuntime, seed: int) -> None:
        self.api, self.runtime, self.rng = api, runtime, random.Random(seed)
        self._numbers = iter(range(10**6))

    def step(self) -> None:
        rng, number = self.rng, next(self._numbers)
        name = f"g{number}"
        self.api.put(PODGROUPS, group(name))
        for index in range(rng.randrange(4)):
            self.api.put("pods", pod(f"{name}-{index}", group=name))
        if rng.random() < 0.3:
            self.api.put("nodes", node(f"n{number}"))
            self.api.put(QUEUES, queue(f"q{number}"))
            self.api.put("persistentvolumeclaims", claim(f"c{number}"))
            self.api.put("namespaces", {"metadata": {"name": f"ns{number}"}})
        self._report()
        for key in rng.sample(sorted(self.api.objects), k=rng.randrange(4)):
            if key[0] in ("pods", PODGROUPS, "nodes") and key[2] != "n0":
                self.api.remove(*key)

    def _report(self) -> None:
        """Statuses and events about some objects, of which some are deleted before they are written."""
        for key, body in self.rng.sample(sorted(self.api.objects.items(), key=str), k=2):
            self._report_one(key, body["metadata"]["uid"])

    def _report_one(self, key: tuple[str, str, str], uid: str) -> None:
        where: dict[str, Any] = {"namespace": key[1], "name": key[2], "uid": uid}
        if key[0] == "pods":
            change = PodConditionChange(**where, reason="Unschedulable")
            self.runtime._statuses.add(StatusChange(pod=change))
            self.runtime._events.add(Event(kind=KIND_POD, reason="FailedScheduling", **where))
        elif key[0] == PODGROUPS:
            status = PodGroupStatus(phase=POD_GROUP_PHASE_INQUEUE)
            group_change = PodGroupStatusChange(**where, status=status)
            self.runtime._statuses.add(StatusChange(pod_group=group_change))
            self.runtime._events.add(Event(kind=KIND_POD_GROUP, reason="Unschedulable", **where))

    def clear(self) -> bool:
        """Deletes everything; returns whether there was nothing."""
        kept = ("events", "leases", "customresourcedefinitions")
        found = [key for key in self.api.objects if not key[0].startswith(kept)]
        for key in found:
            self.api.remove(*key)
        return not found


async def settled(root: Any, runtime: AdapterRuntime, walk: Walk) -> dict[str, int]:
    last: dict[str, int] = {}
    still = 0
    while still < 5:
        is_clear = walk.clear()
        await asyncio.sleep(0.1)
        now = sizes(root)
        still = still + 1 if is_clear and runtime.is_idle and now == last else 0
        last = now
    return last


async def test_nothing_is_kept_of_deleted_objects(
    fake_api: FakeApi, session: ApiSession, metrics: Metrics
) -> None:
    world = KubernetesWorld(session, KubernetesOptions(make_queues=False), FastClock(), metrics)
    refused: Object = {"status": 422, "message": "not allowed"}
    fake_api.trouble = [
        Trouble("PATCH", "/status$", times=20, **refused),
        Trouble("POST", "/binding$", times=20, status=500),
        Trouble("POST", "/events$", times=20, status=503),
    ]
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            options = RuntimeOptions("cluster", "a", flush_seconds=0.0, waiting_report_seconds=0.05)
            runtime = AdapterRuntime(
                world, channel_factory(address), options, clock=FastClock(), metrics=metrics
            )
            walk = Walk(fake_api, runtime, seed=3)
            greedy = asyncio.create_task(GreedyCore(core).run())
            running = asyncio.create_task(runtime.run())
            try:
                before: dict[str, int] | None = None
                for _ in range(3):
                    fake_api.put("nodes", node("n0"))
                    for _ in range(60):
                        walk.step()
                        await asyncio.sleep(0.005)
                    after = await asyncio.wait_for(settled(runtime, runtime, walk), 60)
                    assert before is None or after == before
                    before = after
            finally:
                await end_tasks(running, greedy)
    assert metrics.counted("apply_calls", verb="bind", result="done") > 10

"""Lists and watches under random faults: what the runtime sees becomes what the server has."""

import asyncio
import random
from collections.abc import Callable

import pytest

from pumice.adapters.runtime.metrics import Metrics
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import PODGROUPS, group, node, pod

Watched = Callable[..., Cluster]
RESOURCES = ("nodes", "pods", PODGROUPS)
NAMES = [f"x{number}" for number in range(6)]


class Walk:
    """Random changes of objects, and random faults of lists and watches."""

    def __init__(self, api: FakeApi, seed: int) -> None:
        self.api, self.rng = api, random.Random(seed)
        # Without it, a list that is refused means that there is no such resource.
        definitions = "customresourcedefinitions.apiextensions.k8s.io"
        api.put(definitions, {"metadata": {"name": PODGROUPS}})

    async def step(self) -> None:
        acts = [self._change] * 6 + [self._remove] * 2 + [self._break] * 3
        self.rng.choice(acts)()
        await asyncio.sleep(self.rng.choice([0, 0, 0.002, 0.01]))

    def _change(self) -> None:
        name, resource = self.rng.choice(NAMES), self.rng.choice(RESOURCES)
        labels = {"number": str(self.rng.randrange(1000))}
        if resource == "nodes":
            body = node(name, **labels)
        elif resource == PODGROUPS:
            body = group(name, labels=labels)
        else:
            # The scheduler of a pod never changes.
            scheduler = "volcano" if NAMES.index(name) % 2 else "other"
            body = pod(name, scheduler=scheduler, labels=labels)
            held = self.api.objects.get(("pods", "ns", name), {}).get("spec", {}).get("nodeName")
            body["spec"]["nodeName"] = held or self.rng.choice(["", "n1"])
            body["status"]["phase"] = self.rng.choice(["Pending", "Running", "Succeeded", "Failed"])
        self.api.put(resource, body)

    def _remove(self) -> None:
        resource = self.rng.choice(RESOURCES)
        names = [key for key in self.api.objects if key[0] == resource]
        if names:
            self.api.remove(*self.rng.choice(names))

    def _break(self) -> None:
        resource = self.rng.choice(RESOURCES)
        plural = resource.partition(".")[0]
        match self.rng.randrange(6):
            case 0:
                self.api.end_watches(resource)
            case 1:
                self.api.error(resource, self.rng.choice([410, 429, 500, 503]))
            case 2:
                self.api.expire(resource)
            case 3:
                self.api.bookmark(resource)
            case 4:
                status = self.rng.choice([400, 403, 410, 429, 500, 503])
                times = self.rng.randint(1, 3)
                self.api.trouble.append(Trouble("GET", f"/{plural}", times=times, status=status))
                self.api.end_watches(resource)
            case 5:
                self.api.trouble.append(Trouble("GET", f"/{plural}", loses_answer=True, times=1))
                self.api.forget_history()

    def expected(self) -> dict[str, str]:
        """The label of every object that the runtime should know of, by uid."""
        found = {}
        for (resource, _, _), body in self.api.objects.items():
            if resource in RESOURCES and (resource != "pods" or self._is_selected(body)):
                found[body["metadata"]["uid"]] = body["metadata"]["labels"]["number"]
        return found

    @staticmethod
    def _is_selected(body: dict[str, dict[str, str]]) -> bool:
        spec, phase = body["spec"], body["status"]["phase"]
        is_ours = spec["schedulerName"] == "volcano"
        return is_ours or bool(spec.get("nodeName") and phase not in ("Succeeded", "Failed"))


def seen(cluster: Cluster) -> dict[str, str]:
    found = {}
    for uid, body in cluster.objects.items():
        field = body.WhichOneof("object")
        assert field is not None
        if field in ("node", "pod", "pod_group"):
            found[uid] = getattr(body, field).labels["number"]
    return found


@pytest.mark.parametrize("seed", range(12))
async def test_the_runtime_sees_what_the_server_has(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, seed: int
) -> None:
    walk = Walk(fake_api, seed)
    cluster = watched(page_size=2)
    for _ in range(120):
        await walk.step()
    fake_api.trouble.clear()
    await until(lambda: cluster.synced)
    try:
        await until(lambda: seen(cluster) == walk.expected())
    except AssertionError:
        # The difference says more than that it took too long.
        assert not cluster.task.done(), cluster.task.exception()
        assert seen(cluster) == walk.expected()
    assert not cluster.task.done()

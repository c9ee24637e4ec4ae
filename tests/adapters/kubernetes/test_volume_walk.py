"""Volume reservations under random cuts: each ends in taken or undone."""

import asyncio
import random
from collections.abc import Callable

import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.v1.decision_pb2 import Bind, VolumeChoice
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import Cluster
from tests.adapters.kubernetes.fake_api import FakeApi, Object, Trouble
from tests.adapters.kubernetes.objects import claim, node, pod, volume

Watched = Callable[..., Cluster]
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLAIMS, VOLUMES = ("c0", "c1", "c2"), ("v0", "v1", "v2", "v3")


class Walk:
    """Three pods with a claim each, four volumes, two nodes, and an unreliable world."""

    def __init__(self, api: FakeApi, seed: int) -> None:
        self.api, self.rng = api, random.Random(seed)
        self.leads = True
        for name in CLAIMS:
            api.put("persistentvolumeclaims", claim(name))
            self._put_pod(name)
        for name in VOLUMES:
            api.put("persistentvolumes", volume(name))
        for name in ("n1", "n2"):
            api.put("nodes", node(name))

    def _put_pod(self, name: str) -> None:
        self.api.put("pods", pod(name))

    async def step(self, cluster: Cluster) -> None:
        acts = [self._bind] * 8 + [
            self._complete, self._lose_lease, self._wait, self._replace_pod, self._provisioner_fails,
        ]  # fmt: skip
        await self.rng.choice(acts)(cluster)

    async def _bind(self, cluster: Cluster) -> None:
        """One decision with a few tries, of which any may be cut in the middle."""
        name = self.rng.choice(CLAIMS)
        held = self.api.get("pods", "ns", name)
        if held["spec"].get("nodeName"):
            return
        choice = VolumeChoice(claim=name, volume_name=self.rng.choice(["", *VOLUMES]))
        order = Bind(
            namespace="ns",
            name=name,
            uid=held["metadata"]["uid"],
            node=self.rng.choice(["n1", "n2"]),
            volumes=[choice],
        )
        for _ in range(self.rng.randint(1, 4)):
            self._make_trouble()
            call = asyncio.create_task(cluster.world.binder.bind(order))
            if self.rng.random() < 0.4:
                await asyncio.sleep(self.rng.random() * 0.01)
                await end_tasks(call)
            else:
                await call
            if self.rng.random() < 0.3:
                await self._complete(cluster)

    def _make_trouble(self) -> None:
        for method, path in (
            ("PATCH", "/persistentvolume"), ("GET", "/persistentvolume.*/."), ("POST", "/binding"),
        ):  # fmt: skip
            match self.rng.randrange(8):
                case 0:
                    self.api.trouble.append(Trouble(method, path, loses_answer=True))
                case 1:
                    status = self.rng.choice([403, 409, 429, 500, 503])
                    self.api.trouble.append(Trouble(method, path, status=status))

    async def _complete(self, cluster: Cluster) -> None:
        """The volume controllers bind what was reserved, sometimes."""
        for body in list(self.api.objects.values()):
            ref = body.get("spec", {}).get("claimRef")
            if ref and ref.get("uid") and self.rng.random() < 0.3:
                self._take(ref["name"], body["metadata"]["name"])

    def _take(self, name: str, volume_name: str) -> None:
        held = self.api.get("persistentvolumeclaims", "ns", name)
        if not held["spec"].get("volumeName"):
            held["spec"]["volumeName"] = volume_name
            held["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            self.api.put("persistentvolumeclaims", held)

    async def _provisioner_fails(self, cluster: Cluster) -> None:
        held = self.api.get("persistentvolumeclaims", "ns", self.rng.choice(CLAIMS))
        if held["metadata"]["annotations"].pop(SELECTED_NODE, None):
            self.api.put("persistentvolumeclaims", held)

    async def _lose_lease(self, cluster: Cluster) -> None:
        self.leads = not self.leads

    async def _wait(self, cluster: Cluster) -> None:
        seconds = self.rng.choice([1, 20, 70])
        await self._until_answered()
        cluster.clock.skew += seconds
        await asyncio.sleep(0.02)

    async def _until_answered(self) -> None:
        """No write takes as long as the clock jumps, though its caller may be gone."""
        await until(lambda: not self.api.in_flight)

    async def _replace_pod(self, cluster: Cluster) -> None:
        name = self.rng.choice(CLAIMS)
        self.api.remove("pods", "ns", name)
        self._put_pod(name)

    # What must hold at the end.

    def leaks(self) -> list[str]:
        """Reservations that are neither taken nor undone."""
        found = [self._leak(key[0], body) for key, body in self.api.objects.items()]
        return sorted(filter(None, found))

    def _leak(self, resource: str, body: Object) -> str:
        name = body["metadata"]["name"]
        if resource == "persistentvolumes" and body["spec"].get("claimRef"):
            held = self.api.get("persistentvolumeclaims", "ns", body["spec"]["claimRef"]["name"])
            return "" if held["spec"].get("volumeName") else f"volume {name}"
        if resource == "persistentvolumeclaims" and not body["spec"].get("volumeName"):
            return f"claim {name}" if body["metadata"]["annotations"].get(SELECTED_NODE) else ""
        return ""


@pytest.mark.parametrize("seed", range(25))
async def test_every_reservation_ends_in_taken_or_undone(
    fake_api: FakeApi, watched: Watched, metrics: Metrics, seed: int
) -> None:
    walk = Walk(fake_api, seed)
    cluster = watched(may_act=lambda: walk.leads)
    await until(lambda: cluster.synced)
    for _ in range(30):
        await walk.step(cluster)
    fake_api.trouble.clear()
    walk.leads = True

    def is_over() -> bool:
        # Writes take effect within seconds.
        if not fake_api.in_flight:
            cluster.clock.skew += 1
        return "volume_reservations 0.0" in metrics.render().decode()

    await until(is_over, "some reservations are never ended")
    # The last of them may be on its way.
    await until(lambda: not walk.leaks(), "some reservations are left")

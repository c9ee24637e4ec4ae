"""A cluster as a test sees it: objects to make, facts to wait for, a scheduler to run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.client import Client, Object, RefusedError, path_of
from tests.controlplane.credentials import ADAPTER, CONTROLLERS
from tests.controlplane.kubelet import Kubelets, VolumeController
from tests.controlplane.processes import ControlPlane
from tests.controlplane.proxy import FaultyProxy
from tests.controlplane.scheduler import Child, Scheduler
from tests.e2e.objects import NAMESPACE, node_body, pod_body, pod_group_body, queue_body

GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
KEPT_CONFIGURATION = "/api/v1/namespaces/volcano-system/configmaps/volcano-last-good-configuration"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
COMMANDS = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/commands"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
_KEPT = {"root", "default", "system-cluster-critical", "system-node-critical"}
_SECONDS = 40.0


DEVICES = "/apis/resource.k8s.io/v1"


class Cluster:
    """One test's cluster; nothing of it is left at the end."""

    def __init__(self, plane: ControlPlane, client: Client, folder: Path) -> None:
        self.plane, self.client, self.folder = plane, client, folder
        self.kubelets = Kubelets(client)
        self.volumes = VolumeController(client)
        # Sockets have short names.
        self.scheduler = Scheduler(folder)
        self._proxies: list[FaultyProxy] = []

    async def __aenter__(self) -> Self:
        self.kubelets.start()
        self.volumes.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await asyncio.to_thread(self.scheduler.stop)
        finally:
            for proxy in self._proxies:
                await proxy.__aexit__(None, None, None)
            await self.kubelets.stop()
            await self.volumes.stop()
            await self._clear()

    async def _clear(self) -> None:
        now = {"gracePeriodSeconds": 0}
        base = f"/api/v1/namespaces/{NAMESPACE}"
        for path in (
            f"{JOBS}",
            f"{COMMANDS}",
            f"{base}/pods",
            f"{base}/configmaps",
            f"{base}/secrets",
            f"{base}/events",
            f"{base}/persistentvolumeclaims",
            f"{GROUPS}/namespaces/{NAMESPACE}/podgroups",
            "/api/v1/persistentvolumes",
            "/api/v1/nodes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
            f"{DEVICES}/deviceclasses",
            f"{DEVICES}/resourceslices",
        ):
            await self.client.call("DELETE", path, now)
        for job in await self.client.list(JOBS):
            # In a cluster, the garbage collector ends a deletion in the foreground.
            path = f"{JOBS}/{job['metadata']['name']}"
            await self.client.merge(path, {"metadata": {"finalizers": None}})
        for claim in await self.client.list(f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"):
            # In a cluster, a controller releases a claim whose pods are gone.
            path = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims/{claim['metadata']['name']}"
            await self.client.merge(path, {"metadata": {"finalizers": None}})
            await self.client.delete(path)
        for service in await self.client.list(f"{base}/services"):
            await self.client.delete(f"{base}/services/{service['metadata']['name']}")
        for path in (f"{GROUPS}/queues", "/apis/scheduling.k8s.io/v1/priorityclasses"):
            for found in await self.client.list(path):
                if found["metadata"]["name"] not in _KEPT:
                    await self.client.delete(f"{path}/{found['metadata']['name']}")
        await self.client.delete(LEASE)
        await self.client.delete(LEASE.replace("leases/volcano", "leases/vc-controller-manager"))
        await self.client.delete(KEPT_CONFIGURATION)

    # Making things.

    async def add_nodes(self, count: int, cpu: str = "4", prefix: str = "node") -> list[str]:
        names = [f"{prefix}-{number:04}" for number in range(count)]
        await self.client.create_all(node_body(name, cpu) for name in names)
        return names

    async def add_queue(self, name: str, **spec: Any) -> None:
        body = queue_body(name, **spec)
        await self.client.create(body)
        await self.client.merge(f"{path_of(body)}/status", {"status": {"state": "Open"}})

    async def add_priority_class(self, name: str, value: int) -> None:
        await self.client.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )

    async def add_gang(
        self,
        name: str,
        size: int,
        cpu: str = "1",
        *,
        queue: str = "default",
        minimum: int | None = None,
        priority: str = "",
        **spec: Any,
    ) -> None:
        least = size if minimum is None else minimum
        await self.client.create(pod_group_body(name, least, queue, priority))
        await self.client.create_all(
            pod_body(name, number, cpu, priority, **spec) for number in range(size)
        )

    # Running the scheduler.

    def run_scheduler(self, *flags: str, user: str = ADAPTER) -> Child:
        """A core and an adapter, with the rights that are shipped; returns the adapter."""
        self.scheduler.start_core()
        return self.start_adapter(*flags, user=user)

    def start_adapter(self, *flags: str, user: str = ADAPTER, server: str = "") -> Child:
        kubeconfig = self.kubeconfig(user, server)
        return self.scheduler.start_adapter(kubeconfig, *flags)

    def start_controllers(self, *flags: str, user: str = CONTROLLERS) -> Child:
        return self.scheduler.start_controllers(self.kubeconfig(user), *flags)

    def kubeconfig(self, user: str = ADAPTER, server: str = "") -> Path:
        return self.plane.credentials.kubeconfig(server or self.plane.server, user)

    async def add_proxy(self) -> FaultyProxy:
        proxy = FaultyProxy(self.plane.server, self.plane.credentials)
        await proxy.__aenter__()
        self._proxies.append(proxy)
        return proxy

    def configuration(self, text: str) -> str:
        """The flag for a scheduler configuration."""
        path = self.folder / f"conf-{secrets.token_hex(4)}.yaml"
        path.write_text(text)
        return f"--scheduler-conf={path}"

    # Looking.

    async def pods(self) -> list[Object]:
        return await self.client.list(PODS)

    async def placed(self, *jobs: str) -> dict[str, str]:
        """Pods that have a node and are not about to go, of these jobs or of all."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await self.pods()
            if pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
            and (not jobs or pod["metadata"]["labels"]["job"] in jobs)
        }

    async def group(self, name: str) -> Object:
        found: Object = await self.client.get(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups/{name}")
        return found

    async def phase(self, name: str) -> str:
        return str((await self.group(name)).get("status", {}).get("phase", ""))

    async def events(self, **involved: str) -> list[Object]:
        selector = ",".join(f"involvedObject.{key}={text}" for key, text in involved.items())
        return await self.client.list(EVENTS, fieldSelector=selector)

    async def until(
        self,
        what: str,
        is_so: Callable[[], Awaitable[object]],
        seconds: float = _SECONDS,
    ) -> None:
        """Waits for a fact; fails with all that is known when it does not come."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                if await is_so():
                    return
            except RefusedError as error:
                if error.status < 500:
                    raise
            if surprises := self.scheduler.surprises():
                raise AssertionError(f"{what}: {surprises}\n{await self.shown()}")
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"not within {seconds:g} s: {what}\n{await self.shown()}")
            await asyncio.sleep(0.15)

    async def until_placed(self, jobs: dict[str, int], seconds: float = _SECONDS) -> dict[str, str]:
        """Until each job has so many pods on nodes; returns where they are."""

        async def are_placed() -> bool:
            names = list(await self.placed(*jobs))
            return all(
                sum(name.rpartition("-")[0] == job for name in names) == count
                for job, count in jobs.items()
            )

        await self.until(f"pods placed: {jobs}", are_placed, seconds)
        return await self.placed(*jobs)

    async def until_phase(self, name: str, phase: str, seconds: float = _SECONDS) -> None:
        async def is_so() -> bool:
            return await self.phase(name) == phase

        await self.until(f"PodGroup {name} is {phase}", is_so, seconds)

    async def until_waiting(self, name: str) -> None:
        async def is_told() -> bool:
            conditions = (await self.group(name)).get("status", {}).get("conditions", [])
            return any(
                one["type"] == "Unschedulable" and one["status"] == "True" for one in conditions
            )

        await self.until(f"PodGroup {name} says that it cannot be placed", is_told)

    async def until_quiet(self, proxy: FaultyProxy, seconds: float = 2.0) -> None:
        """Until nothing was written for so long; counters are written once per second."""

        async def is_quiet() -> bool:
            before = len(proxy.writes())
            await asyncio.sleep(seconds)
            return len(proxy.writes()) == before

        await self.until("all that had to be written is written", is_quiet)

    async def until_event(self, reason: str, **involved: str) -> None:
        """Events are written later than what they tell."""

        async def is_there() -> bool:
            return reason in {event["reason"] for event in await self.events(**involved)}

        await self.until(f"an event {reason} of {involved}", is_there)

    async def shown(self) -> str:
        """What a person would look at first."""
        lines = [_shown_pod(pod) for pod in await self.pods()][:40]
        groups = await self.client.list(f"{GROUPS}/namespaces/{NAMESPACE}/podgroups")
        lines += [f"{one['metadata']['name']}: {one.get('status')}" for one in groups[:20]]
        lines += [_shown_event(event) for event in (await self.client.list(EVENTS))[-20:]]
        return "\n".join([*lines, self.scheduler.said()])


def _shown_pod(pod: Object) -> str:
    status = pod["status"]
    conditions = [
        (one["type"], one["status"], one.get("message", "")) for one in status.get("conditions", [])
    ]
    node = pod["spec"].get("nodeName", "-")
    return f"{pod['metadata']['name']} on {node}: {status.get('phase')} {conditions}"


def _shown_event(event: Object) -> str:
    who = event["involvedObject"]
    return f"{who['kind']} {who.get('name')}: {event['reason']}: {event.get('message')}"


def assert_fits(placed: dict[str, str], most: int, nodes: Iterable[str]) -> None:
    """Pods of equal size: no node has more than fit, and all are on nodes that there are."""
    counts: dict[str, int] = {}
    for node in placed.values():
        counts[node] = counts.get(node, 0) + 1
    assert set(counts) <= set(nodes)
    assert max(counts.values()) <= most

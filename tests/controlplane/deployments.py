"""Deployments of one namespace, as far as a person with kubectl can tell.

Containers of the image pumice run for real, as processes with the manifest's own arguments; a pod
is there when the probes of the manifest are answered. Other containers only seem to run.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.controlplane.client import Client, Object, RefusedError
from tests.controlplane.credentials import HOST
from tests.controlplane.processes import free_ports
from tests.controlplane.scheduler import Child

_AGAIN_SECONDS = 0.2
_SOCKETS = "/run/pumice"
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(slots=True)
class RunningPod:
    """A pod, and the processes of its containers in the order in which they were started."""

    name: str
    folder: Path
    spec: Object
    processes: list[Child] = field(default_factory=list)
    # Of this machine, by the port of the container.
    ports: dict[int, int] = field(default_factory=dict)

    @property
    def core_address(self) -> str:
        return f"unix:{self.folder}/core.sock"

    def start(self, kubeconfig: Path) -> None:
        self.folder.mkdir()
        for container in self._containers():
            if "pumice" in container["image"]:
                log = self.folder / f"{container['name']}.log"
                self.processes.append(Child.start(log, *self._arguments(container, kubeconfig)))

    def _containers(self) -> list[Object]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    def _arguments(self, container: Object, kubeconfig: Path) -> list[str]:
        for one, port in zip(container["ports"], free_ports(len(container["ports"])), strict=True):
            self.ports[one["containerPort"]] = port
        words = [
            word.replace(_SOCKETS, str(self.folder)).replace("$(POD_NAME)", self.name)
            for word in container["args"]
        ]
        words = [self._at_free_port(word) for word in words]
        if "kubernetes" in words or "controllers" in words:
            # What the service account's files and the defaults of the flags say in a real pod.
            metrics = next(number for number in (8080, 8081) if number in self.ports)
            words += [
                f"--kubeconfig={kubeconfig}",
                f"--listen-address={HOST}:{self.ports[metrics]}",
                f"--healthz-address={HOST}:{self.ports[11251]}",
            ]
        return words

    def _at_free_port(self, word: str) -> str:
        host, colon, port = word.rpartition(":")
        if host == "0.0.0.0" and colon:
            return f"{HOST}:{self.ports[int(port)]}"
        return word

    def is_ready(self) -> bool:
        """Whether every probe of every container is answered with success."""
        return all(
            self._answers(container, container[probe]["httpGet"])
            for container in self._containers()
            for probe in _PROBES
            if probe in container and self.processes
        )

    def _answers(self, container: Object, probe: Mapping[str, str]) -> bool:
        named = {one["name"]: one["containerPort"] for one in container["ports"]}
        url = f"http://{HOST}:{self.ports[named[probe['port']]]}{probe['path']}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        # As a kubelet ends sidecars: after the containers, in reverse order.
        for process in reversed(self.processes):
            process.stop()


class Deployments:
    """Keeps as many pods as each Deployment of a namespace asks for."""

    def __init__(
        self, client: Client, namespace: str, folder: Path, kubeconfigs: Mapping[str, Path]
    ) -> None:
        """Kubeconfigs are by the name of the service account that a pod has."""
        self._client, self._namespace = client, namespace
        self._folder, self._kubeconfigs = folder, kubeconfigs
        self._path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self.pods: dict[str, list[RunningPod]] = {}

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for pod in [pod for pods in self.pods.values() for pod in pods]:
            await asyncio.to_thread(pod.stop)

    def logs(self) -> str:
        return "\n".join(
            f"-- {pod.name} {one.log.name}\n" + "\n".join(one.said.splitlines()[-20:])
            for pods in self.pods.values()
            for pod in pods
            for one in pod.processes
        )

    async def _run(self) -> None:
        while True:
            with suppress(RefusedError, aiohttp.ClientError, TimeoutError):
                found = await self._client.list(self._path)
                gone = set(self.pods) - {one["metadata"]["name"] for one in found}
                for name in gone:
                    await self._scale(name, 0, {})
                    del self.pods[name]
                for one in found:
                    await self._reconcile(one)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _reconcile(self, deployment: Object) -> None:
        name, count = deployment["metadata"]["name"], deployment["spec"]["replicas"]
        if len(self.pods.setdefault(name, [])) != count:
            await self._scale(name, count, deployment["spec"]["template"])
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            **dict.fromkeys(
                ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count
            ),
        }
        if deployment.get("status", {}) != {key: one for key, one in status.items() if one}:
            path = f"{self._path}/{name}/status"
            await self._client.merge(path, {"status": status})

    async def _scale(self, name: str, count: int, template: Object) -> None:
        pods = self.pods[name]
        while len(pods) > count:
            pod = pods.pop()
            await asyncio.to_thread(pod.stop)
            await self._client.delete(f"/api/v1/namespaces/{self._namespace}/pods/{pod.name}", 0)
        while len(pods) < count:
            self._count += 1
            pod = RunningPod(
                f"{name}-{self._count}", self._folder / str(self._count), template["spec"]
            )
            pods.append(pod)
            await self._start(pod, template)

    async def _start(self, pod: RunningPod, template: Object) -> None:
        pod.start(self._kubeconfigs.get(pod.spec.get("serviceAccountName", ""), Path()))
        while not await asyncio.to_thread(pod.is_ready):
            await asyncio.sleep(_AGAIN_SECONDS)
        metadata = {"name": pod.name, "namespace": self._namespace, **template["metadata"]}
        spec = {**template["spec"], "nodeName": "node-0000"}
        await self._client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )

"""What runs in a cluster beside the scheduler, as far as a scheduler can tell: kubelets, volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp

from tests.controlplane.client import STRATEGIC, Client, Object, RefusedError, path_of

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_AGAIN_SECONDS = 0.2
_CALLS_AT_ONCE = 16


class Follower:
    """Watches some collections and does something about each change, for as long as it runs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, path: str, heed: Callable[[str, Object], None]) -> None:
        async def follow() -> None:
            while True:
                with suppress(aiohttp.ClientError, RefusedError, TimeoutError, OSError):
                    async for change, seen in self._client.watch(path):
                        if change in ("ADDED", "MODIFIED", "DELETED"):
                            heed(change, seen)
                await asyncio.sleep(_AGAIN_SECONDS)

        self._begin(follow())

    def _act(self, call: Callable[[], Awaitable[object]]) -> None:
        """Until it succeeds, or the object is not what it was."""

        async def act() -> None:
            while True:
                try:
                    async with self._slots:
                        await call()
                    return
                except RefusedError as error:
                    if error.status in (404, 409, 422):
                        return
                except (aiohttp.ClientError, TimeoutError, OSError):
                    pass
                await asyncio.sleep(_AGAIN_SECONDS)

        self._begin(act())

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Kubelets(Follower):
    """Bound pods become Running, deleted ones go away, and so do those of a deleted node."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        # How long a pod takes to end.
        self.ending_seconds = 0.0
        self._nodes: set[str] = set()
        self._pods: dict[str, Object] = {}

    def start(self) -> None:
        self._follow(PODS, self._heed_pod)
        self._follow(NODES, self._heed_node)

    def _heed_node(self, change: str, node: Object) -> None:
        if change != "DELETED":
            return
        name = node["metadata"]["name"]
        # What the collector of orphaned pods does, only sooner.
        for pod in [pod for pod in self._pods.values() if pod["spec"].get("nodeName") == name]:
            self._act(lambda pod=pod: self._client.delete(path_of_pod(pod), 0))  # type: ignore[misc]

    def _heed_pod(self, change: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if change == "DELETED":
            self._pods.pop(uid, None)
            return
        before = self._pods.get(uid)
        self._pods[uid] = pod
        if not pod["spec"].get("nodeName"):
            return
        if "deletionTimestamp" in pod["metadata"]:
            if before is None or "deletionTimestamp" not in before["metadata"]:
                self._act(lambda: self._end(pod))
        elif pod["status"].get("phase") == "Pending":
            self._act(lambda: self._run(pod))

    async def _run(self, pod: Object) -> None:
        conditions = [
            {"type": kind, "status": "True"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        patch = {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "status": {"phase": "Running", "conditions": conditions},
        }
        path = f"{path_of_pod(pod)}/status"
        await self._client.call("PATCH", path, patch, content_type=STRATEGIC)

    async def _end(self, pod: Object) -> None:
        await asyncio.sleep(self.ending_seconds)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._client.call("DELETE", path_of_pod(pod), options)


class VolumeController(Follower):
    """Makes volumes for claims that have a node, and completes claims that have a volume."""

    def start(self) -> None:
        self._follow(CLAIMS, self._heed_claim)
        self._follow(VOLUMES, self._heed_volume)

    def _heed_claim(self, change: str, claim: Object) -> None:
        node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if change != "DELETED" and node and not claim["spec"].get("volumeName"):
            self._act(lambda: self._provision(claim, node))

    def _heed_volume(self, change: str, volume: Object) -> None:
        ref, phase = volume["spec"].get("claimRef", {}), volume["status"]["phase"]
        if change == "DELETED":
            return
        if ref.get("uid") and phase != "Bound":
            self._act(lambda: self._complete(volume))
        elif not ref and phase == "Pending":
            path = f"{VOLUMES}/{volume['metadata']['name']}/status"
            self._act(lambda: self._client.merge(path, {"status": {"phase": "Available"}}))

    async def _provision(self, claim: Object, node: str) -> None:
        metadata = claim["metadata"]
        hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        await self._client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"made-{metadata['uid']}"},
                "spec": {
                    "capacity": claim["spec"]["resources"]["requests"],
                    "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": claim["spec"]["storageClassName"],
                    "persistentVolumeReclaimPolicy": "Delete",
                    "local": {"path": "/data"},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}
                    },
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            }
        )

    async def _complete(self, volume: Object) -> None:
        ref, name = volume["spec"]["claimRef"], volume["metadata"]["name"]
        claim = f"/api/v1/namespaces/{ref['namespace']}/persistentvolumeclaims/{ref['name']}"
        completed = {"pv.kubernetes.io/bind-completed": "yes"}
        await self._client.merge(
            claim,
            {
                "metadata": {"uid": ref["uid"], "annotations": completed},
                "spec": {"volumeName": name},
            },
        )
        await self._client.merge(f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}})
        await self._client.merge(f"{claim}/status", {"status": {"phase": "Bound"}})


def path_of_pod(pod: Object) -> str:
    return path_of({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]})

"""Fake kubelets of a benchmark: they set bound pods to Running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.adapters.kubernetes.errors import CONFLICT, ApiError
from pumice.adapters.kubernetes.session import MERGE, ApiSession
from pumice.bench.api_server import PODS

_SECONDS: Final = 300.0
_KUBELETS: Final = 16
_CONDITIONS: Final = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_RUNNING: Final = msgspec.json.encode(
    {
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True"} for kind in _CONDITIONS],
        }
    }
)


class _State(msgspec.Struct):
    phase: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    state: _State = msgspec.field(default_factory=_State)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""


class WatchedObject(msgspec.Struct):
    """The fields of a pod or a Job that the benchmark reads."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


_CHANGE: Final = msgspec.json.Decoder(_Change)
_SEEN: Final = msgspec.json.Decoder(WatchedObject)


@dataclass(slots=True)
class Kubelets:
    """Watches pods and Jobs, and writes pod statuses as kubelets do."""

    api: ApiSession
    bound: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    seen: set[str] = field(default_factory=set)
    running_pods: set[str] = field(default_factory=set)
    running_jobs: set[str] = field(default_factory=set)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def follow(self, path: str, on_object: Callable[[WatchedObject], None]) -> None:
        """Watches a path; resumes when the API server ends the watch of a slow reader."""
        version = ""
        while True:
            query = {"watch": "1", **({"resourceVersion": version} if version else {})}
            async with self.api.stream(path, query, 3600, 3600) as content:
                rest = b""
                async for chunk in content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    changes = [_CHANGE.decode(line) for line in lines]
                    for change in changes:
                        if change.type in ("ADDED", "MODIFIED"):
                            seen = _SEEN.decode(change.object)
                            version = seen.metadata.resource_version
                            on_object(seen)
                    if any(change.type == "ERROR" for change in changes):
                        # The version is too old; a watch without a version begins with all objects.
                        version = ""
                        break

    def on_pod(self, pod: WatchedObject) -> None:
        name = pod.metadata.name
        if pod.spec.node_name and name not in self.seen:
            self.seen.add(name)
            self.bound.put_nowait(name)
        if pod.status.phase == "Running":
            self.running_pods.add(name)

    def on_job(self, job: WatchedObject) -> None:
        if job.status.state.phase == "Running":
            self.running_jobs.add(job.metadata.name)

    async def run_pods(self) -> None:
        while True:
            name = await self.bound.get()
            path = f"{PODS}/{name}/status"
            try:
                await self.api.call("PATCH", path, _RUNNING, content_type=MERGE, seconds=60)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                self.bound.put_nowait(name)

    async def until(self, jobs: int, pods: int) -> None:
        end = time.perf_counter() + _SECONDS
        while len(self.running_jobs) < jobs or len(self.running_pods) < pods:
            for task in self.tasks:
                if task.done():
                    task.result()
            if time.perf_counter() > end:
                raise TimeoutError(
                    f"{len(self.running_jobs)} of {jobs} Jobs and {len(self.running_pods)} of {pods}"
                    f" pods run after {_SECONDS:g} s"
                )
            await asyncio.sleep(0.02)


@asynccontextmanager
async def kubelets(api: ApiSession, jobs: str) -> AsyncIterator[Kubelets]:
    """Runs the kubelets in this context; they also watch the Jobs at the path ``jobs``."""
    found = Kubelets(api)
    work = [found.follow(PODS, found.on_pod), found.follow(jobs, found.on_job)]
    work += [found.run_pods() for _ in range(_KUBELETS)]
    tasks = found.tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.sleep(1.0)
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

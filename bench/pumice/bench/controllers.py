"""Jobs on a real API server, from submission to Running, compared with the bare writes."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pumice.adapters.kubernetes.errors import CONFLICT, ApiError
from pumice.adapters.kubernetes.session import MERGE, ApiSession
from pumice.bench import api_server
from pumice.bench.api_server import EVENTS, GROUPS, NAMESPACE, NODES, PODS
from pumice.bench.clusters import Size
from pumice.bench.processes import PROGRAM, cpu_seconds
from pumice.bench.results import Result
from pumice.bench.scheduler import scheduling

PAIRS = 3
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
_SECONDS = 300.0
_RANGES = ("times_bare",)


class _State(msgspec.Struct):
    phase: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    state: _State = msgspec.field(default_factory=_State)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Metadata(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Change(msgspec.Struct):
    type: str
    object: _Object


_CHANGE = msgspec.json.Decoder(_Change)


def controllers(size: Size, kubeconfig: str, pairs: int = PAIRS) -> list[Result]:
    """Pairs of runs with bare writes, and with scheduler and controllers."""
    return asyncio.run(_measure(size, kubeconfig, pairs))


async def _measure(size: Size, kubeconfig: str, pairs: int) -> list[Result]:
    async with api_server.opened(kubeconfig) as api:
        await api_server.create_missing(api, "/api/v1/namespaces", [api_server.namespace()])
        await api_server.create(api, NODES, api_server.nodes(size))
        try:
            results = [await _pair(api, size, kubeconfig, number) for number in range(pairs)]
        finally:
            await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS, NODES)
        return [*results, _summary(results)]


async def _pair(api: ApiSession, size: Size, kubeconfig: str, number: int) -> Result:
    bare = await _bare(api, size, f"bare-{number}")
    figures = await _controlled(api, size, kubeconfig, f"job-{number}")
    shown: dict[str, object] = {
        "nodes": size.nodes,
        "pods": size.jobs * size.size,
        "times_bare": round(figures["seconds"] / bare["bare_seconds"], 3),
        **bare,
        **figures,
    }
    return Result("controllers pair", "first Job created to all Jobs Running", shown)


# The bare writes: what must be written whoever writes it.


async def _bare(api: ApiSession, size: Size, prefix: str) -> dict[str, float]:
    """A Job, its PodGroup and two phases of it, pods, bindings, running pods, and a phase."""
    before, server = await api_server.writes(api), await api_server.cpu_seconds(api)
    jobs = list(_jobs(size, prefix, "nobody"))
    began = time.perf_counter()
    await api_server.create(api, JOBS, jobs)
    await api_server.create(api, GROUPS, api_server.groups(size, prefix))
    await api_server.all_of(_phases(api, GROUPS, "", size, prefix, {"phase": "Inqueue"}))
    await api_server.create(api, PODS, api_server.pods(size, prefix, "nobody"))
    await api_server.all_of(api_server.bindings(api, size, prefix))
    names = [pod["metadata"]["name"] for pod in api_server.pods(size, prefix, "")]
    await api_server.all_of(_run(api, name) for name in names)
    await api_server.all_of(_phases(api, GROUPS, "", size, prefix, {"phase": "Running"}))
    running = {"state": {"phase": "Running"}, "running": size.size}
    await api_server.all_of(_phases(api, JOBS, "/status", size, prefix, running))
    spent = time.perf_counter() - began
    written = await api_server.writes(api) - before
    server = await api_server.cpu_seconds(api) - server
    await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS)
    return {
        "bare_seconds": round(spent, 2),
        "bare_writes_per_pod": round(written / (size.jobs * size.size), 2),
        "bare_api_server_cpu_ms_per_pod": round(1000 * server / (size.jobs * size.size), 3),
    }


def _jobs(size: Size, prefix: str, scheduler: str) -> Iterator[dict[str, Any]]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "work", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    for job in range(size.jobs):
        yield {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": f"{prefix}-{job:04}"},
            "spec": {
                "schedulerName": scheduler,
                "minAvailable": size.size,
                "tasks": [{"name": "w", "replicas": size.size, "template": template}],
            },
        }


def _phases(
    api: ApiSession, path: str, sub: str, size: Size, prefix: str, status: dict[str, Any]
) -> Iterator[Awaitable[object]]:
    body = json.dumps({"status": status}).encode()
    for job in range(size.jobs):
        name = f"{prefix}-{job:04}"
        yield api.call("PATCH", f"{path}/{name}{sub}", body, content_type=MERGE, seconds=60)


def _run(api: ApiSession, name: str) -> Awaitable[object]:
    """What a kubelet writes."""
    conditions = [
        {"type": kind, "status": "True"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    body = json.dumps({"status": {"phase": "Running", "conditions": conditions}}).encode()
    return api.call("PATCH", f"{PODS}/{name}/status", body, content_type=MERGE, seconds=60)


# The same with scheduler and controllers.


@dataclass(slots=True)
class _Watcher:
    """Follows pods and Jobs; pods that are bound are set to Running, as kubelets do."""

    api: ApiSession
    bound: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    seen: set[str] = field(default_factory=set)
    running_pods: set[str] = field(default_factory=set)
    running_jobs: set[str] = field(default_factory=set)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def follow(self, path: str, take: Callable[[_Object], None]) -> None:
        """Begins anew when the API server ends the watch, as it does with a slow reader."""
        while True:
            async with self.api.stream(path, {"watch": "1"}, 3600, 3600) as content:
                rest = b""
                async for chunk in content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        take(_CHANGE.decode(line).object)

    def take_pod(self, pod: _Object) -> None:
        name = pod.metadata.name
        if pod.spec.node_name and name not in self.seen:
            self.seen.add(name)
            self.bound.put_nowait(name)
        if pod.status.phase == "Running":
            self.running_pods.add(name)

    def take_job(self, job: _Object) -> None:
        if job.status.state.phase == "Running":
            self.running_jobs.add(job.metadata.name)

    async def run_pods(self) -> None:
        while True:
            name = await self.bound.get()
            try:
                await _run(self.api, name)
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
async def _watching(api: ApiSession) -> AsyncIterator[_Watcher]:
    watcher = _Watcher(api)
    work = [watcher.follow(PODS, watcher.take_pod), watcher.follow(JOBS, watcher.take_job)]
    work += [watcher.run_pods() for _ in range(16)]
    tasks = watcher.tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.sleep(1.0)
        yield watcher
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _controlling(kubeconfig: str) -> AsyncIterator[int]:
    """The process id of the controllers."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *("controllers", "--kubeconfig", kubeconfig, "--leader-elect=false"),
        *("--log-level", "error"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


async def _controlled(
    api: ApiSession, size: Size, kubeconfig: str, prefix: str
) -> dict[str, float]:
    count = size.jobs * size.size
    async with (
        scheduling(kubeconfig) as scheduler,
        _controlling(kubeconfig) as pid,
        _watching(api) as watcher,
    ):
        await api_server.create(api, JOBS, _jobs(Size(1, 1, 1), f"first-{prefix}", "volcano"))
        await watcher.until(1, 1)
        await api_server.until_quiet(api)
        written, server = await api_server.writes(api), await api_server.cpu_seconds(api)
        spent, own = scheduler.cpu_times(), cpu_seconds(pid)
        began = time.perf_counter()
        await api_server.create(api, JOBS, _jobs(size, prefix, "volcano"))
        await watcher.until(size.jobs + 1, count + 1)
        seconds = time.perf_counter() - began
        written = await api_server.until_quiet(api) - written
        server = await api_server.cpu_seconds(api) - server
        spent, own = scheduler.cpu_times() - spent, cpu_seconds(pid) - own
    await api_server.clear(api, JOBS, PODS, GROUPS, EVENTS)
    return {
        "seconds": round(seconds, 2),
        "pods_per_second": round(count / seconds, 1),
        "writes_per_pod": round(written / count, 2),
        "controllers_cpu_ms_per_pod": round(1000 * own / count, 3),
        "adapter_cpu_ms_per_pod": round(1000 * spent.adapter / count, 3),
        "core_cpu_ms_per_pod": round(1000 * spent.core / count, 3),
        "api_server_cpu_ms_per_pod": round(1000 * server / count, 3),
    }


def _summary(pairs: list[Result]) -> Result:
    shown: dict[str, object] = {}
    for name, value in pairs[0].figures.items():
        if name in ("nodes", "pods"):
            shown[name] = value
            continue
        values = [float(str(pair.figures[name])) for pair in pairs]
        shown[name] = statistics.median(values)
        if name in _RANGES:
            shown[f"{name}_least"], shown[f"{name}_most"] = min(values), max(values)
    return Result("controllers", f"median of {len(pairs)} interleaved pairs", shown)

"""Requests of benchmarks to a real API server: object creation, bare bindings, request counts."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pumice.adapters.kubernetes.api import AccessSource
from pumice.adapters.kubernetes.errors import CONFLICT, ApiError
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import SystemClock
from pumice.adapters.runtime.metrics import Metrics
from pumice.bench.clusters import Size

NAMESPACE = "bench"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
NODES = "/api/v1/nodes"
_AT_ONCE = 32
_COUNTER = re.compile(
    r'^apiserver_request_total\{(?:.*,)?resource="([^"]*)".*verb="([A-Z]+)".*\} ([0-9.e+]+)$',
    re.MULTILINE,
)
_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_CPU = re.compile(r"^process_cpu_seconds_total ([0-9.e+]+)$", re.MULTILINE)


class _Metadata(msgspec.Struct):
    name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Change(msgspec.Struct):
    type: str
    object: _Pod


_CHANGE = msgspec.json.Decoder(_Change)


@asynccontextmanager
async def opened(kubeconfig: str) -> AsyncIterator[ApiSession]:
    clock = SystemClock()
    pace = TokenBucket(0, 1, clock)
    session = ApiSession(AccessSource(kubeconfig), pace, clock, Metrics(), connections=_AT_ONCE)
    await session.open()
    try:
        yield session
    finally:
        await session.close()


@dataclass(slots=True)
class Binds:
    """The times at which pods were bound."""

    at: dict[str, float] = field(default_factory=dict)

    async def follow(self, api: ApiSession) -> None:
        query = {"watch": "1", "fieldSelector": "spec.nodeName!="}
        async with api.stream(PODS, query, 3600, 3600) as content:
            rest = b""
            async for chunk in content.iter_any():
                now = time.perf_counter()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    change = _CHANGE.decode(line)
                    self.at.setdefault(change.object.metadata.name, now)

    async def until(self, count: int, seconds: float = 300.0) -> None:
        end = time.perf_counter() + seconds
        while len(self.at) < count:
            if time.perf_counter() > end:
                raise TimeoutError(f"{len(self.at)} of {count} pods bound within {seconds:g} s")
            await asyncio.sleep(0.02)

    @property
    def seconds(self) -> float:
        """Seconds from the first to the last bind."""
        return max(self.at.values()) - min(self.at.values())


async def all_of(calls: Iterable[Awaitable[object]]) -> None:
    """Runs coroutines with bounded concurrency, started in order."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


async def create(api: ApiSession, path: str, bodies: Iterable[dict[str, Any]]) -> None:
    await all_of(_create(api, path, bodies))


def _create(
    api: ApiSession, path: str, bodies: Iterable[dict[str, Any]]
) -> Iterator[Awaitable[object]]:
    for body in bodies:
        yield api.call("POST", path, json.dumps(body).encode(), seconds=60)


async def clear(api: ApiSession, *paths: str) -> None:
    for path in paths:
        await api.call("DELETE", path, b'{"gracePeriodSeconds": 0}', seconds=300)


async def create_missing(api: ApiSession, path: str, bodies: Iterable[dict[str, Any]]) -> None:
    """Creates objects; skips those that exist."""
    for body in bodies:
        try:
            await create(api, path, [body])
        except ApiError as error:
            if error.status != CONFLICT:
                raise


async def cpu_seconds(api: ApiSession) -> float:
    """CPU seconds of the API server since it started, without etcd."""
    found = _CPU.search(await _metrics(api))
    return 0.0 if found is None else float(found[1])


async def _metrics(api: ApiSession) -> str:
    return (await api.call("GET", "/metrics", accept="text/plain", seconds=60)).decode()


async def writes(api: ApiSession) -> int:
    """The server's count of write requests, without node heartbeats."""
    return sum(
        int(float(count))
        for resource, verb, count in _COUNTER.findall(await _metrics(api))
        if verb in _WRITES and resource not in ("leases", "nodes")
    )


async def until_quiet(api: ApiSession, seconds: float = 120.0) -> int:
    """Waits for a second without writes, and returns the count of writes."""
    end = time.perf_counter() + seconds
    before = -1
    while (now := await writes(api)) != before and time.perf_counter() < end:
        before = now
        await asyncio.sleep(1.0)
    return now


def namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def nodes(size: Size) -> Iterator[dict[str, Any]]:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    for number in range(size.nodes):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:05}"},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
        }


def groups(size: Size, prefix: str) -> Iterator[dict[str, Any]]:
    for job in range(size.jobs):
        yield {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": f"{prefix}-{job:04}"},
            "spec": {"minMember": size.size},
        }


def pods(size: Size, prefix: str, scheduler: str) -> Iterator[dict[str, Any]]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "work", "resources": {"requests": requests}}
    for job in range(size.jobs):
        group = f"{prefix}-{job:04}"
        for task in range(size.size):
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{group}-{task}",
                    "labels": {"job": group},
                    "annotations": {"scheduling.k8s.io/group-name": group},
                },
                "spec": {"schedulerName": scheduler, "containers": [container]},
            }


def bindings(api: ApiSession, size: Size, prefix: str) -> Iterator[Awaitable[object]]:
    """The binding requests of a scheduler that computes nothing."""
    for number, pod in enumerate(pods(size, prefix, "")):
        name = pod["metadata"]["name"]
        node = f"node-{number % size.nodes:05}"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        yield api.call("POST", f"{PODS}/{name}/binding", json.dumps(body).encode(), seconds=60)

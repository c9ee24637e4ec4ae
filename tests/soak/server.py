"""An API server made of one loop: lists and watches of pods that change as fast as anybody reads."""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

# So much of the past can be watched again.
_REMEMBERED = 20_000
_LINES_AT_ONCE = 50
_BREAK_EVERY = 25_000
# Changes that happen while nobody can watch, because the past is gone.
_UNSEEN = 200
_OWN_PODS = "spec.schedulerName=volcano"


@dataclass(slots=True)
class Pod:
    """A pod that runs somewhere."""

    name: str
    uid: str
    node: str
    version: int
    changes: int = 0

    def body(self) -> dict[str, Any]:
        requests = {"cpu": "100m", "memory": "64Mi"}
        container = {"name": "main", "image": "work", "resources": {"requests": requests}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "soak",
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"job": self.name[:8], "change": str(self.changes)},
            },
            "spec": {
                "schedulerName": "volcano",
                "nodeName": self.node,
                "containers": [container],
            },
            "status": {"phase": "Running"},
        }


@dataclass(slots=True)
class FakeApiServer:
    """Pods that come, change and go until so many changes were told."""

    nodes: int
    population: int
    events: int
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    told: int = 0
    breaks: int = 0
    url: str = ""
    pods: dict[str, Pod] = field(default_factory=dict)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    _version: int = 1
    _made: int = 0
    _past: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _order: list[str] = field(default_factory=list)
    _runner: web.AppRunner | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        for _ in range(self.population):
            self._add()
        self._past.clear()
        app = web.Application()
        app.router.add_get("/version", self._say_version)
        app.router.add_get("/api/v1/pods", self._serve_pods)
        app.router.add_get("/api/v1/nodes", self._serve_nodes)
        app.router.add_get("/{path:.*}", self._serve_nothing)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def counts(self) -> dict[str, int]:
        """How many pods each node has."""
        found = {f"node-{number:04}": 0 for number in range(self.nodes)}
        for pod in self.pods.values():
            found[pod.node] += 1
        return found

    # What happens to pods.

    def _add(self) -> None:
        self._version += 1
        self._made += 1
        node = f"node-{self.rng.randrange(self.nodes):04}"
        pod = Pod(f"pod-{self._made:08}", f"uid-{self._made:08}", node, self._version)
        self.pods[pod.uid] = pod
        self._order.append(pod.uid)
        self._remember("ADDED", pod)

    def _change(self) -> None:
        chance = self.rng.random()
        if chance < 0.15 or len(self._order) < self.population // 2:
            self._add()
            return
        place = self.rng.randrange(len(self._order))
        uid = self._order[place]
        pod = self.pods[uid]
        self._version += 1
        pod.version = self._version
        if chance < 0.3:
            self._order[place] = self._order[-1]
            self._order.pop()
            del self.pods[uid]
            self._remember("DELETED", pod)
        else:
            pod.changes += 1
            self._remember("MODIFIED", pod)

    def _remember(self, kind: str, pod: Pod) -> None:
        line = json.dumps({"type": kind, "object": pod.body()}).encode() + b"\n"
        self._past.append((pod.version, line))

    # What is served.

    async def _say_version(self, _: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.36.1"})

    async def _serve_pods(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("fieldSelector") != _OWN_PODS:
            return await self._serve_list(request, [])
        if "watch" in request.query:
            return await self._watch_pods(request)
        return await self._serve_list(request, [pod.body() for pod in self.pods.values()])

    async def _serve_nodes(self, request: web.Request) -> web.StreamResponse:
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        bodies = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
            for name in self.counts()
        ]
        return await self._serve_list(request, bodies)

    async def _serve_nothing(self, request: web.Request) -> web.StreamResponse:
        if "volcano.sh" in request.path or "scheduling.s" in request.path:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if "incubator" in request.path:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        return await self._serve_list(request, [])

    async def _serve_list(
        self, request: web.Request, items: list[dict[str, Any]]
    ) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._wait(await _begun(request))
        metadata = {"resourceVersion": str(self._version)}
        return web.json_response({"kind": "List", "metadata": metadata, "items": items})

    async def _wait(self, reply: web.StreamResponse) -> web.StreamResponse:
        """A watch in which nothing more happens."""
        await self._ended.wait()
        return reply

    async def _watch_pods(self, request: web.Request) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        reply = await _begun(request)
        oldest = self._past[0][0] if self._past else self._version + 1
        if version + 1 < oldest and version < self._version:
            return await self._expire(reply)
        await reply.write(b"".join(line for seen, line in self._past if seen > version))
        while self.told < self.events:
            for _ in range(_LINES_AT_ONCE):
                self._change()
            lines = [self._past[-number] for number in range(_LINES_AT_ONCE, 0, -1)]
            self.told += _LINES_AT_ONCE
            if self.told % _BREAK_EVERY == 0:
                return await self._break(request, reply)
            await reply.write(b"".join(line for _, line in lines))
        self.finished.set()
        return await self._wait(reply)

    async def _break(self, request: web.Request, reply: web.StreamResponse) -> web.StreamResponse:
        """Cut off in the middle of things; or its past forgotten while more happens."""
        self.breaks += 1
        if self.breaks % 2:
            if request.transport is not None:
                request.transport.abort()
            return reply
        for _ in range(_UNSEEN):
            self._change()
        self._past.clear()
        return await self._expire(reply)

    async def _expire(self, reply: web.StreamResponse) -> web.StreamResponse:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        await reply.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        await reply.write_eof()
        return reply


async def _begun(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": "application/json"})
    await reply.prepare(request)
    return reply

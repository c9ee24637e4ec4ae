"""A probe that creates a gang every half second and measures time without scheduling."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from tests.controlplane.scheduler import Child
from tests.e2e.cluster import PODS, Cluster
from tests.e2e.objects import pod_body, pod_group_body

_EVERY_SECONDS = 0.5


class GapProbe:
    """Gangs, and the moments at which each was complete."""

    def __init__(self, cluster: Cluster, size: int = 2) -> None:
        self._cluster, self._client = cluster, cluster.client
        self.size = size
        self._placed: dict[str, set[str]] = {}
        self._made = 0
        self._is_creating = True
        # When gangs were complete, in order.
        self.times: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._create())]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_scheduled(self, count: int, seconds: float = 60.0) -> None:
        """Until so many more gangs are complete."""
        wanted = len(self.times) + count

        async def are_complete() -> bool:
            return len(self.times) >= wanted

        await self._cluster.until(f"{count} more gangs are complete", are_complete, seconds)

    def longest_gap(self, since: float) -> float:
        """The longest time without a complete gang, from the last one before the moment on."""
        before = [time for time in self.times if time < since][-1:]
        after = [time for time in self.times if time >= since]
        times = [*before, *after, asyncio.get_running_loop().time()]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    async def until_whole(self, seconds: float = 30.0) -> None:
        """Until every gang that has begun is complete; one may be in the middle of its binds."""
        begun = list(self._placed)

        async def are_whole() -> bool:
            return all(len(self._placed[name]) == self.size for name in begun)

        await self._cluster.until("every gang that has begun is complete", are_whole, seconds)

    async def stop_creating(self) -> int:
        """Returns how many gangs there are."""
        self._is_creating = False
        await self._tasks.pop()
        return self._made

    async def _create(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self._is_creating:
            name = f"gap-{self._made}"
            self._made += 1
            await self._client.create(pod_group_body(name, self.size))
            await self._client.create_all(pod_body(name, n, "10m") for n in range(self.size))
            due += _EVERY_SECONDS
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _watch(self) -> None:
        while True:
            with suppress(aiohttp.ClientError):
                async for _, pod in self._client.watch(PODS):
                    if pod.get("kind") == "Pod" and pod["spec"].get("nodeName"):
                        self._note(pod["metadata"]["labels"]["job"], pod["metadata"]["name"])

    def _note(self, job: str, pod: str) -> None:
        pods = self._placed.setdefault(job, set())
        if pod not in pods:
            pods.add(pod)
            if len(pods) == self.size:
                self.times.append(asyncio.get_running_loop().time())


def core_pid(run: Child) -> int:
    """The core that `pumice run` started."""
    pid = run.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"core" in words:
            return child
    raise AssertionError(f"process {pid} has no core among {children}")

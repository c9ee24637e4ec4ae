"""A hundred restarts under load: no gang is left in part, and nothing is bound twice."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.controlplane.proxy import Call, FaultyProxy
from tests.controlplane.scheduler import Child, Scheduler
from tests.e2e.cluster import Cluster
from tests.e2e.gaps import GapProbe

SEED = 7
RESTARTS = 100
KILLS = 12
GANG = 4
# So long may a bind take on its way, so that restarts come in the middle of gangs.
SLOW_SECONDS = 0.3


class Replica:
    """A core and an adapter with a way to the API server of its own."""

    def __init__(self, cluster: Cluster, name: str, proxy: FaultyProxy) -> None:
        self._cluster, self._name, self.proxy = cluster, name, proxy
        folder = cluster.folder / name
        folder.mkdir()
        self.scheduler = Scheduler(folder)
        self.core = self.scheduler.start_core()
        self.adapter = self._start_adapter()
        # Where the calls of the present adapter begin.
        self._since = 0

    def _start_adapter(self) -> Child:
        kubeconfig = self._cluster.kubeconfig(server=self.proxy.url)
        return self.scheduler.start_adapter(kubeconfig, f"--adapter-id={self._name}")

    async def restart_core(self, *, kill: bool) -> None:
        await _end(self.core, kill=kill)
        self.core = self.scheduler.start_core()

    async def restart_adapter(self, *, kill: bool) -> None:
        await _end(self.adapter, kill=kill)
        if not kill:
            self.assert_gangs_whole()
        self._since = len(self.proxy.calls)
        self.adapter = self._start_adapter()

    def shown(self) -> str:
        """What its present processes said last."""
        parts = [child.said[-3000:] for child in (self.core, self.adapter)]
        return "\n".join([f"-- replica {self._name}", *parts])

    def assert_gangs_whole(self) -> None:
        """Of each gang that this adapter began to bind, it bound every member."""
        calls = self.proxy.calls[self._since :]
        bound = [
            call.name.rpartition("-")[0]
            for call in calls
            if call.resource == "pods/binding" and call.status < 300
        ]
        torn = {gang: count for gang, count in Counter(bound).items() if count != GANG}
        assert not torn, f"{self._name} left gangs in part: {torn}\n{self.scheduler.said()}"


async def _end(child: Child, *, kill: bool) -> None:
    if kill:
        await asyncio.to_thread(child.kill)
        return
    had_begun = bool(child.said)
    code = await asyncio.to_thread(child.stop)
    # Python ends by the signal while it still loads modules.
    assert code == 0 or (code == -signal.SIGTERM and not had_begun), child.said[-3000:]


class Restarts:
    """Two replicas under load, of which parts are restarted at random."""

    def __init__(self, cluster: Cluster, probe: GapProbe, replicas: list[Replica]) -> None:
        self._cluster, self._probe, self.replicas = cluster, probe, replicas
        self._rng = random.Random(SEED)

    async def restart(self, count: int, *, kill: bool) -> None:
        for _ in range(count):
            try:
                await self._restart_one(kill=kill)
            except AssertionError as error:
                for replica in self.replicas:
                    error.add_note(replica.shown())
                raise

    async def _restart_one(self, *, kill: bool) -> None:
        replica = self._rng.choice(self.replicas)
        restart = self._rng.choice((replica.restart_core, replica.restart_adapter))
        await restart(kill=kill)
        # Some restarts come before the last one is over, others later.
        if self._rng.random() < 0.5:
            await self._probe.until_scheduled(1)
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        surprises = [s for one in self.replicas for s in one.scheduler.surprises()]
        assert not surprises, surprises

    async def assert_all_bound_once(self) -> None:
        gangs = await self._probe.stop_creating()

        async def are_complete() -> bool:
            return len(self._probe.times) >= gangs

        await self._cluster.until(f"all {gangs} gangs are complete", are_complete, 90)
        placed = await self._cluster.placed()
        assert len(placed) == gangs * GANG
        bound = sum((one.proxy.bound() for one in self.replicas), start=Counter[str]())
        assert [name for name, times in bound.items() if times > 1] == []


@pytest.fixture
async def restarts(cluster: Cluster) -> AsyncIterator[Restarts]:
    await cluster.add_nodes(60, cpu="64")
    rng = random.Random(SEED)

    def delay(call: Call) -> float:
        return rng.uniform(0, SLOW_SECONDS) if call.resource == "pods/binding" else 0.0

    replicas = []
    async with GapProbe(cluster, GANG) as probe:
        try:
            for name in ("a", "b"):
                proxy = await cluster.add_proxy()
                proxy.delay = delay
                replicas.append(Replica(cluster, name, proxy))
            await probe.until_scheduled(2)
            yield Restarts(cluster, probe, replicas)
        finally:
            for replica in replicas:
                await asyncio.to_thread(replica.scheduler.stop)


@pytest.mark.timeout(900)
async def test_a_hundred_drained_restarts_tear_no_gang(restarts: Restarts) -> None:
    await restarts.restart(RESTARTS, kill=False)
    await restarts.assert_all_bound_once()
    for replica in restarts.replicas:
        replica.assert_gangs_whole()


@pytest.mark.timeout(300)
async def test_whoever_is_killed_every_gang_is_complete_in_the_end(restarts: Restarts) -> None:
    await restarts.restart(KILLS, kill=True)
    await restarts.assert_all_bound_once()

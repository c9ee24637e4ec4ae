"""Seconds without scheduling when a part of the scheduler ends, hangs or gets a bad configuration.

A stretch between two gangs is counted whole, although a gang comes only every half second.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.controlplane.scheduler import Child, Scheduler
from tests.e2e.cluster import Cluster
from tests.e2e.gaps import GapProbe, core_pid

# As shipped; tests use a shorter lease otherwise.
LEASE_SECONDS = 15.0
SHIPPED = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
)
CONFIG_MAP = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
FROM_CONFIG_MAP = "--scheduler-configmap=volcano-system/volcano-scheduler-configmap"


@pytest.fixture
async def probe(cluster: Cluster) -> AsyncIterator[GapProbe]:
    await cluster.add_nodes(10, cpu="64")
    async with GapProbe(cluster) as probe:
        yield probe


async def start_two(cluster: Cluster, *flags: str) -> tuple[Child, Child]:
    """Two replicas, the first of which leads."""
    leader = cluster.scheduler.start_both(cluster.kubeconfig(), *SHIPPED, *flags)

    async def leads() -> bool:
        return "this process is the leader" in leader.said

    await cluster.until("the first replica leads", leads)
    standby = cluster.scheduler.start_both(cluster.kubeconfig(), *SHIPPED, *flags)

    async def waits() -> bool:
        return "waiting for the leader" in standby.said and "the cluster was read" in standby.said

    await cluster.until("the second replica waits", waits)
    return leader, standby


def report(what: str, seconds: float) -> None:
    print(f"seconds without scheduling, {what}: {seconds:.2f}")


async def test_a_leader_that_is_asked_to_end(cluster: Cluster, probe: GapProbe) -> None:
    leader, _ = await start_two(cluster)
    await probe.until_scheduled(6)
    began = asyncio.get_running_loop().time()
    assert await asyncio.to_thread(leader.stop) == 0
    await probe.until_scheduled(6)
    gap = probe.longest_gap(began)
    report("leader asked to end", gap)
    assert gap < 2
    await probe.until_whole()


@pytest.mark.timeout(240)
async def test_a_core_that_is_restarted(cluster: Cluster, probe: GapProbe) -> None:
    leader, _ = await start_two(cluster)
    gaps: list[float] = []
    # Most of it is the time in which Python loads modules, which others on the machine slow down.
    while len(gaps) < 3 and (not gaps or min(gaps) >= 3):
        # A core that has run for ten seconds is restarted at once.
        await probe.until_scheduled(24)
        began = asyncio.get_running_loop().time()
        os.kill(core_pid(leader), signal.SIGKILL)
        await probe.until_scheduled(6)
        gaps.append(probe.longest_gap(began))
        report("core restarted", gaps[-1])
    assert min(gaps) < 3


async def test_a_core_that_hangs(cluster: Cluster, probe: GapProbe) -> None:
    leader, standby = await start_two(cluster)
    await probe.until_scheduled(6)
    core = core_pid(leader)
    began = asyncio.get_running_loop().time()
    os.kill(core, signal.SIGSTOP)
    try:
        await probe.until_scheduled(6)
    finally:
        os.kill(core, signal.SIGCONT)
    gap = probe.longest_gap(began)
    report("core hangs", gap)
    assert "this process is the leader" in standby.said
    assert gap < LEASE_SECONDS + 5


async def test_a_core_that_is_gone(cluster: Cluster, probe: GapProbe) -> None:
    other = Scheduler(cluster.folder / "other")
    other.folder.mkdir()
    core = cluster.scheduler.start_core()
    adapter = cluster.start_adapter(*SHIPPED)

    async def leads() -> bool:
        return "this process is the leader" in adapter.said

    await cluster.until("the first adapter leads", leads)
    other.start_core()
    try:
        other.start_adapter(cluster.kubeconfig(), *SHIPPED, "--adapter-id=other")
        await probe.until_scheduled(6)
        began = asyncio.get_running_loop().time()
        core.kill()
        await probe.until_scheduled(6)
        gap = probe.longest_gap(began)
        report("core gone", gap)
        assert gap < LEASE_SECONDS + 5
    finally:
        await asyncio.to_thread(other.stop)


async def test_a_bad_configuration_followed_by_a_failover(
    cluster: Cluster, probe: GapProbe
) -> None:
    shipped = await cluster.client.get(CONFIG_MAP)
    leader, standby = await start_two(cluster, FROM_CONFIG_MAP)
    await probe.until_scheduled(6)
    bad = shipped["data"]["volcano-scheduler.conf"].replace("binpack", "binpak")
    await cluster.client.merge(CONFIG_MAP, {"data": {"volcano-scheduler.conf": bad}})
    try:

        async def is_refused() -> bool:
            return "configuration refused" in leader.said

        await cluster.until("the leader's core refuses it", is_refused)
        await probe.until_scheduled(2)
        began = asyncio.get_running_loop().time()
        assert await asyncio.to_thread(leader.stop) == 0
        await probe.until_scheduled(6)
    finally:
        await cluster.client.merge(CONFIG_MAP, {"data": shipped["data"]})
    gap = probe.longest_gap(began)
    report("bad configuration, then a failover", gap)
    assert "the last good configuration, kept in ConfigMap" in standby.said
    assert gap < 2

"""Whoever is killed, paused or away: every gang is whole in the end, and nothing is bound twice."""

from __future__ import annotations

import asyncio

from tests.controlplane.proxy import FaultyProxy, Hold
from tests.e2e.cluster import LEASE, Cluster, assert_fits

GANGS = {f"train-{number}": 6 for number in range(4)}
NODES = 8
BINDING = ("create", "pods/binding")


async def begin(cluster: Cluster) -> tuple[FaultyProxy, Hold]:
    """Gangs, and a way to the API server on which binds get stuck after the first eight."""
    await cluster.add_nodes(NODES)
    proxy = await cluster.add_proxy()
    hold = proxy.hold_calls(*BINDING, passes=8)
    for name, size in GANGS.items():
        await cluster.add_gang(name, size)
    return proxy, hold


async def until_mid_gang(cluster: Cluster, hold: Hold) -> None:
    async def is_stuck() -> bool:
        return hold.held > 0 and len(await cluster.placed()) == 8

    await cluster.until("one gang is bound, the next in part", is_stuck)


async def assert_all_whole(cluster: Cluster, *proxies: FaultyProxy) -> None:
    placed = await cluster.until_placed(GANGS, 60)
    assert_fits(placed, 4, [f"node-{number:04}" for number in range(NODES)])
    for name, size in GANGS.items():
        await cluster.until_phase(name, "Running")
        assert (await cluster.group(name))["spec"]["minMember"] == size
    bound = sum((proxy.bound() for proxy in proxies), start=type(proxies[0].bound())())
    assert dict(bound) == dict.fromkeys(placed, 1)


async def test_a_core_that_is_killed_mid_gang_is_not_missed(cluster: Cluster) -> None:
    proxy, hold = await begin(cluster)
    core = cluster.scheduler.start_core()
    cluster.start_adapter(server=proxy.url)
    await until_mid_gang(cluster, hold)
    core.kill()
    hold.opened.set()
    cluster.scheduler.start_core()
    await assert_all_whole(cluster, proxy)


async def test_an_adapter_that_is_killed_mid_gang_is_replaced(cluster: Cluster) -> None:
    proxy, hold = await begin(cluster)
    cluster.scheduler.start_core()
    adapter = cluster.start_adapter(server=proxy.url)
    await until_mid_gang(cluster, hold)
    adapter.kill()
    hold.opened.set()
    other = await cluster.add_proxy()
    cluster.start_adapter(server=other.url)
    await assert_all_whole(cluster, proxy, other)


async def test_an_api_server_that_is_away_for_a_while_is_waited_for(cluster: Cluster) -> None:
    proxy, hold = await begin(cluster)
    cluster.scheduler.start_core()
    cluster.start_adapter(server=proxy.url)
    await until_mid_gang(cluster, hold)
    await asyncio.to_thread(cluster.plane.stop_apiserver)
    hold.opened.set()
    # Longer than the adapter may lead without a renewal.
    await asyncio.sleep(5)
    await asyncio.to_thread(cluster.plane.start_apiserver)
    await assert_all_whole(cluster, proxy)


async def holder(cluster: Cluster) -> str:
    found = await cluster.client.find(LEASE)
    return str(found["spec"].get("holderIdentity", "")) if found is not None else ""


async def test_a_paused_leader_is_followed_and_does_no_harm_afterwards(cluster: Cluster) -> None:
    first, hold = await begin(cluster)
    cluster.scheduler.start_core()
    leader = cluster.start_adapter(server=first.url)
    await until_mid_gang(cluster, hold)
    before = await holder(cluster)
    assert before
    second = await cluster.add_proxy()
    follower = cluster.start_adapter(server=second.url)
    leader.pause()

    async def is_followed() -> bool:
        return await holder(cluster) not in ("", before)

    await cluster.until("another adapter has the lease", is_followed)
    calls = len(first.calls)
    # What the old leader had sent is lost with its connections; it knows nothing of that.
    first.drop_held = True
    hold.opened.set()
    leader.resume()
    await assert_all_whole(cluster, first, second)
    assert not first.writes(since=calls)
    # The one that was paused is a follower now, and takes over again when it is needed.
    assert await asyncio.to_thread(follower.stop) == 0
    await cluster.add_gang("late", 2)
    await cluster.until_placed({"late": 2})
    assert first.bound()["late-0"] == 1

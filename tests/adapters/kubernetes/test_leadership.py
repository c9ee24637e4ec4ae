"""Who leads follows the cores: a release is seen at once, and no leader keeps a dead core."""

import asyncio
import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from pumice.adapters.runtime.shutdown import Shutdown
from pumice.v1.decision_pb2 import Bind, Decision
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import running_core, serve
from tests.adapters.kubernetes.adapters import LEASES, Adapters
from tests.adapters.kubernetes.fake_api import FakeApi, Trouble
from tests.adapters.kubernetes.objects import node, pod

# Longer than any test: whoever takes the lease does not do so because time passed.
LONG_LEASE = (60.0, 40.0, 30.0)
# Time enough for a health check, and not for a lease to run out.
SHORT = 1.5


def holder(api: FakeApi) -> str:
    found = api.objects.get((LEASES, "volcano-system", "volcano"))
    return "" if found is None else str(found["spec"].get("holderIdentity", ""))


async def test_a_standby_leads_as_soon_as_the_lease_is_released(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shutdown = Shutdown()
    first = adapters.start("a", lease_seconds=LONG_LEASE, shutdown=shutdown)
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    adapters.start("b", lease_seconds=LONG_LEASE)
    await until(lambda: "waiting for the leader a, elected at 2" in caplog.text)
    await stream.close()
    shutdown.request(first.cancel)
    await asyncio.wait_for(first, 30)
    second = serve(await adapters.core.accept())
    await second.snapshot_done()
    assert holder(adapters.api) == "b"
    assert second.stream.hello.adapter_id == "b"
    # Said once, however often the lease is looked at.
    assert caplog.text.count("waiting for the leader a") == 1
    await second.close()


async def test_binds_in_flight_end_before_the_lease_is_released(adapters: Adapters) -> None:
    api = adapters.api
    api.put("nodes", node("n1"))
    uid = api.put("pods", pod("p"))["metadata"]["uid"]
    shutdown = Shutdown()
    task = adapters.start("a", lease_seconds=LONG_LEASE, shutdown=shutdown)
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    slow = Trouble("POST", "/binding", passes=True, seconds=0.5)
    api.trouble.append(slow)
    order = Bind(namespace="ns", name="p", uid=uid, node="n1")
    stream.stream.decide([Decision(id="d1", bind=order)], [])
    await until(lambda: not slow.times)
    shutdown.request(task.cancel)
    await asyncio.wait_for(task, 30)
    assert api.get("pods", "ns", "p")["spec"]["nodeName"] == "n1"
    assert [outcome.decision_id for outcome in stream.model.outcomes] == ["d1"]
    assert holder(api) == ""
    calls = [(method, path) for method, path, *_ in api.calls]
    binding = next(i for i, (method, path) in enumerate(calls) if path.endswith("/binding"))
    release = max(i for i, (method, path) in enumerate(calls) if method == "PUT")
    assert binding < release
    await stream.close()


async def test_a_leader_whose_core_is_gone_lets_a_standby_lead(adapters: Adapters) -> None:
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            adapters.start("a", lease_seconds=LONG_LEASE, core_seconds=SHORT, core=address)
            stream = serve(await core.accept())
            await stream.snapshot_done()
            adapters.start("b", lease_seconds=LONG_LEASE, core_seconds=SHORT)
            await stream.close()
        # The core of a is gone with its server.
        other = serve(await adapters.core.accept())
        await other.snapshot_done()
        assert other.stream.hello.adapter_id == "b"
        # It does not come back while its core is away.
        await asyncio.sleep(0.5)
        assert holder(adapters.api) == "b"
        await other.close()


async def test_an_adapter_without_a_core_does_not_stand(
    adapters: Adapters, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    adapters.start("a", core="unix:/nowhere/core.sock")
    await until(lambda: "not a candidate: the core has not responded" in caplog.text)
    assert holder(adapters.api) == ""


async def test_a_leader_leads_again_when_its_core_is_back(adapters: Adapters) -> None:
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            adapters.start("a", lease_seconds=LONG_LEASE, core_seconds=SHORT, core=address)
            stream = serve(await core.accept())
            await stream.snapshot_done()
            await stream.close()
        await until(lambda: holder(adapters.api) == "", "the lease was not released")
        async with running_core(Path(folder)) as (core, _):
            stream = serve(await core.accept())
            await stream.snapshot_done()
            assert holder(adapters.api) == "a"
            await stream.close()
            await adapters.close()


async def test_a_core_that_hangs_is_as_good_as_none(adapters: Adapters) -> None:
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            adapters.start("a", lease_seconds=LONG_LEASE, core_seconds=SHORT, core=address)
            # It takes the stream and answers health checks, and acknowledges nothing.
            stuck = serve(await core.accept(), acks=False)
            await stuck.snapshot_done()
            adapters.start("b", lease_seconds=LONG_LEASE, core_seconds=SHORT)
            other = serve(await adapters.core.accept())
            await other.snapshot_done()
            assert other.stream.hello.adapter_id == "b"
            await stuck.close()
            await other.close()
            await adapters.close()


async def test_a_renewal_under_way_does_not_prevent_the_release(
    adapters: Adapters,
) -> None:
    shutdown = Shutdown()
    task = adapters.start("a", lease_seconds=(60.0, 40.0, 0.05), shutdown=shutdown)
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    # The renewal is written, and its answer comes when nobody waits for it any more.
    late = Trouble("PUT", "/leases/", passes=True, answer_seconds=1.0)
    adapters.api.trouble.append(late)
    await until(lambda: not late.times)
    await asyncio.sleep(0.1)
    shutdown.request(task.cancel)
    await asyncio.wait_for(task, 30)
    assert holder(adapters.api) == ""
    await stream.close()


async def test_a_replica_whose_core_is_gone_is_not_ready(
    adapters: Adapters, unused_tcp_port: int
) -> None:
    page = f"http://127.0.0.1:{unused_tcp_port}/readyz"
    async with aiohttp.ClientSession() as client:

        async def shown() -> str:
            async with client.get(page) as answer:
                return await answer.text()

        with TemporaryDirectory(prefix="pumice") as folder:
            async with running_core(Path(folder)) as (core, address):
                health = f"127.0.0.1:{unused_tcp_port}"
                adapters.start("a", health, core_seconds=SHORT, core=address)
                stream = serve(await core.accept())
                await stream.snapshot_done()
                assert "[-]core" not in await shown()
                await stream.close()
            async with asyncio.timeout(30):
                while "[-]core failed: the core has not responded for" not in await shown():
                    await asyncio.sleep(0.05)

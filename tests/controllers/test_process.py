"""Whole processes of controllers: leadership, drain, and pages."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from pumice.adapters.kubernetes.options import LeaseOptions
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.shutdown import Shutdown
from pumice.controllers.gc.controller import GarbageCollector
from pumice.controllers.job.controller import JobController
from pumice.controllers.jobflow.controller import JobFlowController
from pumice.controllers.options import ControllerOptions
from pumice.controllers.process import run_controllers
from pumice.controllers.queue.controller import QueueController
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.runtime.loop import LoopOptions
from pumice.controllers.settings import ControllersSettings
from pumice.controllers.volcano_metrics import VolcanoMetrics
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.jobs import JOBS, FakeCluster, job
from tests.controllers.running import Loops

LEASE = ("leases.coordination.k8s.io", "volcano-system", "vc-controller-manager")
Start = Callable[..., "asyncio.Task[None]"]


@pytest.fixture
async def start(fake_api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    tasks: list[asyncio.Task[None]] = []

    def begin(
        identity: str, shutdown: Shutdown | None = None, address: str = ""
    ) -> "asyncio.Task[None]":
        settings = ControllersSettings(
            kubeconfig="",
            context="",
            master=fake_api.server,
            qps=0,
            burst=1,
            controllers=("job-controller",),
            options=ControllerOptions(),
            loop=LoopOptions(),
            lease=LeaseOptions(identity, LEASE[1], LEASE[2], 2.0, 1.0, 0.1),
            health_address=address,
            metrics_address=address,
        )
        tasks.append(asyncio.create_task(run_controllers(settings, shutdown)))
        return tasks[-1]

    yield begin
    await end_tasks(*tasks)


def holder(api: FakeApi) -> str:
    found: str = api.objects.get(LEASE, {}).get("spec", {}).get("holderIdentity", "")
    return found


async def test_a_standby_takes_over_when_the_leader_ends(fake_api: FakeApi, start: Start) -> None:
    cluster, shutdown = FakeCluster(fake_api), Shutdown()
    first = start("a", shutdown)
    await until(lambda: holder(fake_api) == "a")
    start("b")
    fake_api.put(JOBS, job("one"))
    await until(lambda: cluster.phase("one") == "Pending")
    shutdown.request(first.cancel)
    await asyncio.wait_for(first, 30)
    await until(lambda: holder(fake_api) == "b")
    fake_api.put(JOBS, job("two"))
    await until(lambda: cluster.phase("two") == "Pending")
    assert len(fake_api.made("POST", "/podgroups$")) == 2


async def test_a_lost_lease_stops_the_work_until_it_is_won_again(
    fake_api: FakeApi, start: Start
) -> None:
    cluster = FakeCluster(fake_api)
    start("a")
    await until(lambda: holder(fake_api) == "a")
    fake_api.put(JOBS, job("one"))
    await until(lambda: cluster.phase("one") == "Pending")
    taken = fake_api.get(*LEASE)
    spec = {**taken["spec"], "holderIdentity": "somebody", "leaseDurationSeconds": 1}
    fake_api.put(LEASE[0], {**taken, "spec": spec})
    await until(lambda: holder(fake_api) == "a", "the lease is won again")
    fake_api.put(JOBS, job("two"))
    await until(lambda: cluster.phase("two") == "Pending")


async def test_pages_are_served(fake_api: FakeApi, start: Start, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    start("a", address=address)
    await until(lambda: holder(fake_api) == "a")
    async with aiohttp.ClientSession() as client:
        for _ in range(500):
            async with client.get(f"http://{address}/readyz") as page:
                if page.status == 200:
                    break
            await asyncio.sleep(0.01)
        async with client.get(f"http://{address}/healthz?verbose") as page:
            text = await page.text()
            assert "[+]watches ok" in text
            assert "[+]lease ok" in text
        async with client.get(f"http://{address}/metrics") as page:
            assert "pumice_controllers_leads 1.0" in await page.text()


async def test_figures_have_volcanos_names(fake_api: FakeApi, loops: Loops) -> None:
    cluster, options = FakeCluster(fake_api), ControllerOptions()
    fake_api.resources |= {"commands.bus.volcano.sh", "jobflows.flow.volcano.sh"}
    group = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": "default"}}
    fake_api.put("podgroups.scheduling.volcano.sh", {**group, "status": {"phase": "Running"}})
    for name, phase in (("one", "Completed"), ("two", "Failed"), ("three", "Failed")):
        fake_api.put(JOBS, {**job(name), "status": {"state": {"phase": phase}}})
    flow = {"metadata": {"name": "f", "namespace": "ns"}, "spec": {}}
    fake_api.put("jobflows.flow.volcano.sh", {**flow, "status": {"state": {"phase": "Succeed"}}})
    controllers = (QueueController(options), JobController(options), JobFlowController(options))
    loop = loops.start(*controllers)
    await until(lambda: cluster.phase("two") == "Failed" and not loop.why_stale())
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in VolcanoMetrics(loop).collect()
        for sample in family.samples
    }
    assert found[("volcano_queue_pod_group_running_count", "default")] == 1
    assert found[("volcano_queue_pod_group_pending_count", "default")] == 0
    assert found[("volcano_job_completed_phase_count", "ns/one", "default")] == 1
    assert found[("volcano_job_failed_phase_count", "ns/three", "default")] == 1
    assert found[("volcano_jobflow_succeed_phase_count", "ns")] == 1
    # A standby has none: sums over replicas count once.
    standby = VolcanoMetrics(loop, lambda: False)
    assert not [one for family in standby.collect() for one in family.samples]
    # Without the controllers there are no such figures.
    assert await queue_metrics(loops, GarbageCollector(options)) == []
    assert await queue_metrics(loops, JobController(options)) == []


async def queue_metrics(loops: Loops, controller: Controller[Any]) -> list[str]:
    loop = loops.start(controller)
    await until(lambda: not loop.why_stale())
    families = VolcanoMetrics(loop).collect()
    return [one.name for family in families for one in family.samples if "queue" in one.name]

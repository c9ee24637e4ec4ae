"""A whole adapter between a fake API server and a fake core."""

import aiohttp

from pumice.adapters.kubernetes.lease import EPOCH
from pumice.adapters.runtime.clock import end_tasks
from pumice.v1.decision_pb2 import OUTCOME_CODE_APPLIED, Bind, Decision
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import serve
from tests.adapters.kubernetes.adapters import LEASES, Adapters
from tests.adapters.kubernetes.fake_api import Trouble
from tests.adapters.kubernetes.objects import node, pod


async def test_a_decision_becomes_a_binding_and_an_event(adapters: Adapters) -> None:
    api = adapters.api
    api.put("nodes", node("n1"))
    uid = api.put("pods", pod("p"))["metadata"]["uid"]
    adapters.start("a")
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    assert (
        str(stream.stream.hello.epoch)
        == (api.get(LEASES, "volcano-system", "volcano")["metadata"]["annotations"][EPOCH])
    )
    order = Bind(namespace="ns", name="p", uid=uid, node="n1")
    stream.stream.decide([Decision(id="d1", bind=order)], [])
    await stream.until(lambda: stream.model.outcomes)
    assert stream.model.outcomes[0].code == OUTCOME_CODE_APPLIED
    assert api.get("pods", "ns", "p")["spec"]["nodeName"] == "n1"
    await until(lambda: api.made("POST", "/events"))
    await stream.close()


async def test_another_one_takes_over_when_the_leader_ends(adapters: Adapters) -> None:
    first = adapters.start("a")
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    epoch = stream.stream.hello.epoch
    adapters.start("b")
    await end_tasks(first)
    await stream.close()
    second = serve(await adapters.core.accept())
    await second.snapshot_done()
    assert second.stream.hello.adapter_id == "b"
    assert second.stream.hello.epoch > epoch
    await second.close()


async def test_health_and_metrics_are_served(adapters: Adapters, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    adapters.start("a", address)
    stream = serve(await adapters.core.accept())
    await stream.snapshot_done()
    async with aiohttp.ClientSession() as client:
        for probe in ("healthz", "readyz", "livez", "healthz/ping"):
            async with client.get(f"http://{address}/{probe}") as page:
                assert await page.text() == "ok"
        async with client.get(f"http://{address}/readyz?verbose") as page:
            assert "[+]watches ok" in await page.text()
        async with client.get(f"http://{address}/metrics") as page:
            shown = await page.text()
            assert "pumice_adapter_leads 1" in shown
            assert 'pumice_adapter_check_ok{check="watches"} 1.0' in shown
            assert 'api_request_duration_seconds_count{code="201",method="POST",re' in shown
    await stream.close()


async def test_an_adapter_that_cannot_list_is_alive_but_not_ready(
    adapters: Adapters, unused_tcp_port: int
) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    trouble = Trouble("GET", "/nodes", times=10**9, status=503, message="the store is away " * 50)
    adapters.api.trouble.append(trouble)
    adapters.start("a", address)
    # With the second list the first has failed.
    await until(lambda: len(adapters.api.made("GET", "/nodes")) > 1)
    async with aiohttp.ClientSession() as client:
        for probe, status in (("livez", 200), ("readyz", 503), ("healthz", 503)):
            async with client.get(f"http://{address}/{probe}") as page:
                assert page.status == status
        async with client.get(f"http://{address}/readyz") as page:
            text = await page.text()
    assert "[-]watches failed: " in text
    assert "nodes: not listed yet (the store is away the store" in text
    assert max(map(len, text.split(";"))) < 400

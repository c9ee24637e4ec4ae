"""The background of a cluster on a real API server: objects besides the workload, and heartbeats."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from pumice.adapters.kubernetes.errors import KubernetesError
from pumice.adapters.kubernetes.session import ApiSession
from pumice.bench import api_server
from pumice.bench.api_server import NAMESPACE, NODES
from pumice.bench.background import HOSTNAME, REPORTS_ANNOTATION, SYSTEM
from pumice.bench.clusters import Size

ZONE = "topology.kubernetes.io/zone"
_WEB = "web"
_PERIOD_SECONDS = 10.0
# One node in 50 is cordoned; one node in 10 has a pod of the web application; one job in 10 has a
# Service and a disruption budget.
_CORDONED_IN, _WEB_IN, _SERVICE_IN = 50, 10, 10
_IMAGES, _IMAGES_PER_NODE = 200, 30
_PATCH = "application/merge-patch+json"

Body = dict[str, Any]


def nodes(size: Size) -> Iterator[Body]:
    """Nodes as kubelets report them, with capacity for system pods."""
    chance = random.Random(size.seed)
    images = [
        {
            "names": [f"registry.local/team/app-{i}:v1"],
            "sizeBytes": chance.randrange(20, 2000) << 20,
        }
        for i in range(_IMAGES)
    ]
    lists = [chance.sample(images, _IMAGES_PER_NODE) for _ in range(_IMAGES)]
    amounts = {"cpu": "33", "memory": "257Gi", "pods": "120"}
    for number, node in enumerate(api_server.nodes(size)):
        name = node["metadata"]["name"]
        node["metadata"]["labels"] = {
            HOSTNAME: name,
            ZONE: f"zone-{number % 3}",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": f"type-{number % 7}",
        }
        node["metadata"]["annotations"] = {REPORTS_ANNOTATION: "0"}
        node["spec"] = {"unschedulable": number % _CORDONED_IN == _CORDONED_IN - 1}
        node["status"] |= {"allocatable": amounts, "capacity": amounts}
        node["status"]["images"] = lists[number % _IMAGES]
        yield node


async def create(api: ApiSession, size: Size) -> None:
    """Creates the objects that exist before the first job: DNS, a DaemonSet, an application."""
    spaces = ({"metadata": {"name": name}} for name in (SYSTEM, _WEB))
    await api_server.create_missing(api, "/api/v1/namespaces", spaces)
    names = [node["metadata"]["name"] for node in api_server.nodes(size)]
    dns, web = {"k8s-app": "kube-dns"}, {"app": "web"}
    away = {"labelSelector": {"matchLabels": dns}, "topologyKey": HOSTNAME}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [away]}
    apart = {"labelSelector": {"matchLabels": web}, "topologyKey": HOSTNAME}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": apart}
        ]
    }
    await api_server.create(
        api,
        _pods(SYSTEM),
        [
            *(
                _running(f"coredns-{i}", node, dns, {"podAntiAffinity": required})
                for i, node in enumerate(names[:2])
            ),
            *(_running(f"agent-{node}", node, {"k8s-app": "node-agent"}) for node in names),
        ],
    )
    await api_server.create(
        api,
        _pods(_WEB),
        (
            _running(f"web-{i}", node, web, {"podAntiAffinity": preferred})
            for i, node in enumerate(names[::_WEB_IN])
        ),
    )
    await api_server.create(api, _services(SYSTEM), [_service("kube-dns", dns)])
    await api_server.create(api, _services(_WEB), [_service("web", web)])
    await api_server.create(api, _budgets(_WEB), [_budget("web", web)])


async def add_services(api: ApiSession, size: Size, prefix: str) -> None:
    """Creates Services and disruption budgets for some jobs, before the pods of the jobs."""
    some = [group["metadata"]["name"] for group in api_server.groups(size, prefix)][::_SERVICE_IN]
    labels = {name: {"job": name} for name in some}
    await api_server.create(api, _services(NAMESPACE), (_service(*each) for each in labels.items()))
    await api_server.create(api, _budgets(NAMESPACE), (_budget(*each) for each in labels.items()))


async def clear_services(api: ApiSession) -> None:
    await api_server.clear(api, _budgets(NAMESPACE), _services(NAMESPACE))


async def clear(api: ApiSession) -> None:
    await clear_services(api)
    for namespace in (SYSTEM, _WEB):
        paths = (_pods(namespace), _budgets(namespace), _services(namespace))
        await api_server.clear(api, *paths)


@asynccontextmanager
async def with_nodes(api: ApiSession, size: Size, kubeconfig: str) -> AsyncIterator[None]:
    """Creates the nodes, and the background if the size has one; removes the background at the end."""
    if not size.has_background:
        await api_server.create(api, NODES, api_server.nodes(size))
        yield
        return
    await api_server.create(api, NODES, nodes(size))
    try:
        await create(api, size)
        async with heartbeats(kubeconfig, size):
            yield
    finally:
        await clear(api)


@asynccontextmanager
async def heartbeats(kubeconfig: str, size: Size) -> AsyncIterator[None]:
    """Every node reports its status every ten seconds in this context, over separate connections."""
    async with api_server.opened(kubeconfig) as api:
        task = asyncio.create_task(_report(api, size))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _report(api: ApiSession, size: Size) -> None:
    """Sends each report when it is due, as kubelets do; no report waits for another."""
    names = [node["metadata"]["name"] for node in api_server.nodes(size)]
    interval = _PERIOD_SECONDS / len(names)
    began, number = time.monotonic(), 0
    busy: set[str] = set()
    async with asyncio.TaskGroup() as reports:
        while True:
            due = began + number * interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            name = names[number % len(names)]
            if name not in busy:
                busy.add(name)
                reports.create_task(_report_one(api, name, number, busy))
            # A report that is more than a second late is skipped, not sent later.
            number = max(number + 1, int((time.monotonic() - began - 1.0) / interval))


async def _report_one(api: ApiSession, name: str, number: int, busy: set[str]) -> None:
    body = {"metadata": {"annotations": {REPORTS_ANNOTATION: str(number)}}}
    # A failed report is like a missed heartbeat of a kubelet.
    with suppress(KubernetesError):
        await api.call(
            "PATCH",
            f"{NODES}/{name}/status",
            json.dumps(body).encode(),
            content_type=_PATCH,
            seconds=_PERIOD_SECONDS,
        )
    busy.discard(name)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def _budgets(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def _running(name: str, node: str, labels: dict[str, str], affinity: Body | None = None) -> Body:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "system", "resources": {"requests": requests}}
    spec = {"nodeName": node, "containers": [container], "affinity": affinity or {}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def _service(name: str, selector: dict[str, str]) -> Body:
    ports = [{"name": "main", "port": 80}]
    spec = {"clusterIP": "None", "selector": selector, "ports": ports}
    return {"metadata": {"name": name}, "spec": spec}


def _budget(name: str, labels: dict[str, str]) -> Body:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    return {"metadata": {"name": name}, "spec": spec}

"""Policies for the resource groups of Volcano's admission configuration, on a real API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml

from pumice.controllers.admission.groups import resource_groups
from pumice.controllers.admission.policies import policies
from tests.controlplane.client import Client, Object
from tests.controlplane.processes import ControlPlane, running

MANAGED, FREE = "groups-managed", "groups-free"
ODD = "a\"b\\c'é"
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
PREFERRED = {"weight": 5, "preference": TERM}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED],
    }
}
TOLERATION = {"effect": "NoExecute", "key": "taint", "operator": "Exists", "tolerationSeconds": 5}
GROUPS: list[Object] = [
    {
        "resourceGroup": "management",
        "object": {"key": "namespace", "value": [MANAGED]},
        "schedulerName": "managed-scheduler",
        "tolerations": [TOLERATION, {"key": "other", "operator": "Exists"}],
        "labels": {"example.com/type": "management", "disk": "ssd"},
    },
    {
        "resourceGroup": "cpu",
        "object": {"key": "annotation", "value": ["example.com/role: master", f"odd: {json.dumps(ODD)}"]},
        "affinity": json.dumps(AFFINITY),
        "schedulerName": "cpu-scheduler",
    },
    {"resourceGroup": "gpu", "schedulerName": "gpu-scheduler"},
]  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running(tmp_path_factory.mktemp("groups")) as plane:
        yield plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(plane.server, plane.credentials) as client:
        for name in (MANAGED, FREE):
            metadata = {"name": name}
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for body in policies(resource_groups(yaml.safe_dump({"resourceGroups": GROUPS}))):
            await client.apply(body)
        async with asyncio.timeout(60):
            for note, scheduler in (("", "managed-scheduler"), ("gpu", "gpu-scheduler")):
                notes = {"volcano.sh/resource-group": note} if note else {}
                while (await made(client, FREE if note else MANAGED, notes))[
                    "schedulerName"
                ] != scheduler:
                    await asyncio.sleep(0.05)
        yield client


async def made(client: Client, namespace: str, notes: dict[str, str], **spec: Any) -> Object:
    """The spec of a pod as the API server would store it."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "annotations": notes},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "automountServiceAccountToken": False,
            **spec,
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    found = await client.call("POST", path, body, query={"dryRun": "All"})
    answer: Object = found["spec"]
    return answer


def own(tolerations: list[Object]) -> list[Object]:
    """Without those that Kubernetes adds."""
    return [one for one in tolerations if "node.kubernetes.io" not in one.get("key", "")]


async def test_a_pod_gets_what_its_group_names(client: Client) -> None:
    spec = await made(client, MANAGED, {})
    assert spec["nodeSelector"] == {"example.com/type": "management", "disk": "ssd"}
    assert own(spec["tolerations"]) == [TOLERATION, {"key": "other", "operator": "Exists"}]
    assert "affinity" not in spec


async def test_what_a_pod_has_is_kept(client: Client) -> None:
    held = {"key": "mine", "operator": "Exists"}
    selector = {"disk": "hdd", "zone": "a"}
    spec = await made(client, MANAGED, {}, tolerations=[held], nodeSelector=selector)
    assert spec["nodeSelector"] == {"example.com/type": "management", "disk": "ssd", "zone": "a"}
    assert own(spec["tolerations"])[:2] == [held, TOLERATION]
    affinity: Object = {"podAntiAffinity": {}}
    spec = await made(client, FREE, {"example.com/role": "master"}, affinity=affinity)
    assert spec["affinity"] == affinity


@pytest.mark.parametrize(
    ("namespace", "notes", "scheduler"),
    [
        (FREE, {}, "default-scheduler"),
        (FREE, {"example.com/role": "worker"}, "default-scheduler"),
        (FREE, {"example.com/role": "master"}, "cpu-scheduler"),
        (FREE, {"odd": ODD}, "cpu-scheduler"),
        (FREE, {"volcano.sh/resource-group": "gpu"}, "gpu-scheduler"),
        (FREE, {"volcano.sh/resource-group": "cpu"}, "default-scheduler"),
        (FREE, {"example.com/role": "master", "volcano.sh/resource-group": "gpu"}, "cpu-scheduler"),
        (MANAGED, {"example.com/role": "master"}, "managed-scheduler"),
        ("kube-system", {"example.com/role": "master"}, "default-scheduler"),
    ],
)
async def test_the_first_group_counts(
    client: Client, namespace: str, notes: dict[str, str], scheduler: str
) -> None:
    spec = await made(client, namespace, notes)
    assert spec["schedulerName"] == scheduler
    assert spec.get("affinity") == (AFFINITY if scheduler == "cpu-scheduler" else None)

"""One control plane for all end-to-end tests; each test finds it empty and leaves it so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.client import Client
from tests.controlplane.manifests import apply_all
from tests.controlplane.processes import ControlPlane, running
from tests.e2e.cluster import Cluster
from tests.e2e.objects import NAMESPACE

_HERE = Path(__file__).parent
_FIRST_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of them may have to build kube-apiserver."""
    limit = 120 if binaries.are_built() else _FIRST_SECONDS
    for item in items:
        if item.path.is_relative_to(_HERE):
            own = item.get_closest_marker("timeout")
            if own is None or limit == _FIRST_SECONDS:
                item.add_marker(pytest.mark.timeout(limit), append=False)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    reason = binaries.why_not()
    if reason is not None:
        pytest.skip(reason)

    async def prepare(plane: ControlPlane) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        async with Client(plane.server, plane.credentials) as client:
            await apply_all(client)
            await client.apply(namespace)

    with running(tmp_path_factory.mktemp("controlplane")) as plane:
        asyncio.run(prepare(plane))
        yield plane


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(control_plane.server, control_plane.credentials) as client:
        yield client


@pytest.fixture
async def cluster(
    control_plane: ControlPlane, client: Client, tmp_path: Path
) -> AsyncIterator[Cluster]:
    """An empty cluster with a kubelet for every node."""
    async with Cluster(control_plane, client, tmp_path) as cluster:
        yield cluster

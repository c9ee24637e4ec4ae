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

_HERE = Path(__file__).parent
# The first of them may have to build kube-apiserver.
_FIRST_SECONDS = 1800


# Before xdist looks at the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one process, where they share the control plane."""
    limit = 120 if binaries.are_built() else _FIRST_SECONDS
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.xdist_group("controlplane"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(limit))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    reason = binaries.why_not()
    if reason is not None:
        pytest.skip(reason)

    async def prepare(plane: ControlPlane) -> None:
        async with Client(plane.server, plane.credentials) as client:
            await apply_all(client)

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

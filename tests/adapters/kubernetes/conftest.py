"""A fake API server, a session with it, and a world on top."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pumice.adapters.kubernetes.api import Access
from pumice.adapters.kubernetes.options import KubernetesOptions
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.kubernetes.world import KubernetesWorld
from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import (
    ConfigurationSeen,
    DataSeen,
    ObjectGone,
    ObjectSeen,
    Synced,
)
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import ClusterObject
from tests.adapters.fake_core import running_core
from tests.adapters.kubernetes.adapters import Adapters
from tests.adapters.kubernetes.fake_api import FakeApi, running_api


class Tokens:
    """Credentials that a test can change."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.token = ""
        self.fingerprint = "one"
        self.loads = 0

    def load(self) -> Access:
        self.loads += 1
        return self.refresh()

    def refresh(self) -> Access:
        header = f"Bearer {self.token}" if self.token else ""
        return Access(self.server, header, fingerprint=self.fingerprint)


class FastClock(SystemClock):
    """The machine's clock, but nobody sleeps for longer than a moment, and a test can jump."""

    def __init__(self) -> None:
        self.skew = 0.0

    def now(self) -> float:
        return super().now() + self.skew

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


class Cluster:
    """What a test sees of a watched cluster."""

    def __init__(self, world: KubernetesWorld, clock: FastClock, metrics: Metrics) -> None:
        self.world, self.clock, self.metrics = world, clock, metrics
        self.objects: dict[str, ClusterObject] = {}
        self.gone: list[str] = []
        self.configurations: list[Configuration] = []
        # What was published for plugins: plugin, name and texts.
        self.data: list[tuple[str, str, dict[str, str]]] = []
        self.synced = False
        self.task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async for event in self.world.watch():
            match event:
                case ObjectSeen():
                    field = event.object.WhichOneof("object")
                    assert field is not None
                    self.objects[getattr(event.object, field).uid] = event.object
                case ObjectGone():
                    assert event.uid in self.objects
                    del self.objects[event.uid]
                    self.gone.append(event.uid)
                case ConfigurationSeen():
                    self.configurations.append(event.configuration)
                case DataSeen():
                    self.data.append((event.data.plugin, event.data.name, dict(event.data.texts)))
                case Synced():
                    self.synced = True

    def names(self, field: str) -> list[str]:
        held = (getattr(o, field) for o in self.objects.values() if o.HasField(field))  # type: ignore[arg-type]
        return sorted(message.name for message in held)


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeApi]:
    async with running_api() as api:
        yield api


@pytest.fixture
def tokens(fake_api: FakeApi) -> Tokens:
    return Tokens(fake_api.server)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def session(tokens: Tokens, metrics: Metrics) -> AsyncIterator[ApiSession]:
    clock = FastClock()
    session = ApiSession(tokens, TokenBucket(0, 1, clock), clock, metrics, connections=4)
    await session.open()
    yield session
    await session.close()


@pytest.fixture
async def watched(session: ApiSession, metrics: Metrics) -> AsyncIterator[Callable[..., Cluster]]:
    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        options.setdefault("make_queues", False)
        may_act = options.pop("may_act", lambda: True)
        clock = FastClock()
        world = KubernetesWorld(
            session,
            KubernetesOptions(**options),
            clock,
            metrics,
            may_act=may_act,
            rng=random.Random(1),
        )
        started.append(Cluster(world, clock, metrics))
        return started[-1]

    yield start
    await end_tasks(*(cluster.task for cluster in started))


@pytest.fixture
async def adapters(
    fake_api: FakeApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Adapters]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with TemporaryDirectory(prefix="pumice") as folder:
        async with running_core(Path(folder)) as (core, address):
            made = Adapters(fake_api, core, address)
            try:
                yield made
            finally:
                await made.close()

"""A fake API server, and loops of controllers on top of it."""

import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from pumice.adapters.kubernetes.api import Access
from pumice.adapters.kubernetes.rate_limit import TokenBucket
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.runtime.loop import ControllerLoop, LoopOptions
from tests.adapters.kubernetes.conftest import FastClock
from tests.adapters.kubernetes.fake_api import FakeApi, running_api
from tests.controllers.running import Loops


class _Access:
    def __init__(self, server: str) -> None:
        self._server = server

    def load(self) -> Access:
        return Access(self._server, fingerprint="one")

    def refresh(self) -> Access:
        return self.load()


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeApi]:
    async with running_api() as api:
        api.resources |= {
            "jobs.batch.volcano.sh", "commands.bus.volcano.sh", "services", "secrets",
            "networkpolicies.networking.k8s.io", "priorityclasses.scheduling.k8s.io",
        }  # fmt: skip
        api.with_status |= {"jobs.batch.volcano.sh"}
        yield api


@pytest.fixture
async def loops(fake_api: FakeApi) -> AsyncIterator[Loops]:
    clock, metrics = FastClock(), Metrics(CONTROLLER_SERIES)
    session = ApiSession(
        _Access(fake_api.server), TokenBucket(0, 1, clock), clock, metrics, connections=8
    )
    await session.open()

    def make(controllers: Sequence[Controller[Any]]) -> ControllerLoop:
        return ControllerLoop(
            controllers,
            session,
            LoopOptions(),
            clock,
            metrics,
            may_act=lambda: made.leads,
            rng=random.Random(1),
        )

    made = Loops(make, metrics)
    try:
        yield made
    finally:
        await end_tasks(*made.tasks)
        await session.close()

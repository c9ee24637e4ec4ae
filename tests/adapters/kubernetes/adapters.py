"""Whole adapters between a fake API server and fake cores."""

import asyncio

from pumice.adapters.kubernetes.options import ConfigMapKey, KubernetesOptions, LeaseOptions
from pumice.adapters.kubernetes.process import run_adapter
from pumice.adapters.kubernetes.settings import AdapterSettings
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.connect import channel_factory
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.shutdown import Shutdown
from tests.adapters.fake_core import FakeCore
from tests.adapters.kubernetes.fake_api import FakeApi

LEASES = "leases.coordination.k8s.io"


class Adapters:
    def __init__(self, api: FakeApi, core: FakeCore, address: str) -> None:
        self.api, self.core = api, core
        self._address = address
        self._tasks: list[asyncio.Task[None]] = []

    def start(
        self,
        name: str,
        health: str = "",
        *,
        core: str = "",
        lease_seconds: tuple[float, float, float] = (30.0, 20.0, 0.1),
        core_seconds: float = 60.0,
        shutdown: Shutdown | None = None,
        config_map: ConfigMapKey | None = None,
        default_configuration: bool = True,
    ) -> "asyncio.Task[None]":
        # Lease and core outlast every pause of a busy machine; the last figure of a lease is its
        # retry period.
        lease = LeaseOptions(name, "volcano-system", "volcano", *lease_seconds)
        settings = AdapterSettings(
            kubeconfig="",
            context="",
            master=self.api.server,
            qps=0,
            burst=1,
            world=KubernetesOptions(make_queues=False, config_map=config_map),
            runtime=RuntimeOptions(
                "cluster", name, flush_seconds=0.0, default_configuration=default_configuration
            ),
            kept_configuration=("volcano-system", "volcano"),
            lease=lease,
            health_address=health,
            metrics_address=health,
            core_timeout_seconds=core_seconds,
        )
        channels = channel_factory(core or self._address)
        task = asyncio.create_task(run_adapter(settings, channels, shutdown))
        self._tasks.append(task)
        return task

    async def close(self) -> None:
        await end_tasks(*self._tasks)

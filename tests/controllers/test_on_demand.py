"""A watch that is open only while it is needed loses nothing when it ends."""

import asyncio
from typing import Any, cast

import msgspec

from pumice.adapters.kubernetes.object_head import HEAD
from pumice.adapters.kubernetes.reflector import Reflector
from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.colocation.controller import (
    CONFIGURATION,
    WATCHED_CONFIGURATIONS,
    WATCHED_PODS,
)
from pumice.controllers.metric_definitions import CONTROLLER_SERIES
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.on_demand import OnDemandReflector
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.conftest import FastClock


def pod_of(version: int, **annotations: str) -> bytes:
    metadata = {
        "name": "a",
        "namespace": "ns",
        "uid": "uid-a",
        "resourceVersion": str(version),
        "annotations": annotations,
    }
    return msgspec.json.encode({"metadata": metadata})


class LateReflector:
    """Lists one pod; the first one reads one more event while it is being ended."""

    def __init__(self, store: ObjectCache[Any], late: bytes) -> None:
        self.listed = asyncio.Event()
        self._store, self._late = store, late

    async def run(self) -> None:
        self._store.begin_list()
        self._take(pod_of(1))
        self._store.end_list("1")
        self.listed.set()
        try:
            await asyncio.Event().wait()
        finally:
            if self._late:
                self._take(self._late)

    def _take(self, raw: bytes) -> None:
        self._store.upsert(HEAD.decode(raw), msgspec.Raw(raw))


async def test_an_event_that_is_read_while_the_watch_ends_keeps_it_open() -> None:
    metrics = Metrics(CONTROLLER_SERIES)
    pods = ObjectCache(WATCHED_PODS, metrics)
    configurations = ObjectCache(WATCHED_CONFIGURATIONS, metrics)
    listed = asyncio.Event()
    listed.set()
    late = [pod_of(2, **{CONFIGURATION: '{"memoryQos":{}}'}), b"", b""]
    made: list[LateReflector] = []

    def make() -> Reflector:
        made.append(LateReflector(pods, late.pop(0)))
        return cast(Reflector, made[-1])

    watch = OnDemandReflector(make, pods, configurations, listed, FastClock())
    work = asyncio.create_task(watch.run())
    try:
        await until(lambda: len(made) == 2)
        held = pods.get("ns", "a")
        assert held is not None
        assert held.metadata.resource_version == "2"
    finally:
        await end_tasks(work)


async def test_results_of_writes_are_not_kept_without_a_watch() -> None:
    """The Job controller creates pods, and no watch would remove them from this cache."""
    metrics = Metrics(CONTROLLER_SERIES)
    pods = ObjectCache(WATCHED_PODS, metrics)
    configurations = ObjectCache(WATCHED_CONFIGURATIONS, metrics)
    listed = asyncio.Event()
    listed.set()
    made: list[LateReflector] = []

    def make() -> Reflector:
        made.append(LateReflector(pods, b""))
        return cast(Reflector, made[-1])

    watch = OnDemandReflector(make, pods, configurations, listed, FastClock())
    work = asyncio.create_task(watch.run())
    created = pod_of(3).replace(b'"a"', b'"b"')
    try:
        await until(lambda: watch.listed.is_set() and watch._reflector is None)
        pods.assume(created)
        assert not len(pods)
        configuration = msgspec.json.encode(
            {"metadata": {"name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "4"}}
        )
        configurations.upsert(HEAD.decode(configuration), msgspec.Raw(configuration))
        await until(lambda: len(made) == 2 and len(pods) == 1)
        pods.assume(created)
        assert len(pods) == 2
    finally:
        await end_tasks(work)

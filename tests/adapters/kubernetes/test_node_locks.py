"""The node of a pod that shares a device is locked before the bind."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from pumice.adapters.kubernetes.errors import CONFLICT, FORBIDDEN, ApiError
from pumice.adapters.kubernetes.node_locks import NodeLockBinder, lock_of
from pumice.adapters.kubernetes.reserved_objects import ReservedObjects
from pumice.adapters.kubernetes.session import ApiSession
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.v1.decision_pb2 import Bind, SharedDevice
from tests.adapters.fake_clock import FakeClock
from tests.adapters.kubernetes.objects import order
from tests.adapters.kubernetes.test_device_claims import Claims, Pods

PATH = "/api/v1/nodes/n1"
LOCK = "hamivgpu"


class Nodes(Claims):
    """An API server with a node."""

    def __init__(self, **annotations: str) -> None:
        super().__init__()
        metadata = {"name": "n1", "uid": "uid-n1", "resourceVersion": "1"}
        self.held[PATH] = {"metadata": {**metadata, "annotations": annotations}}

    @property
    def lock(self) -> str:
        return str(self.held[PATH]["metadata"]["annotations"].get(LOCK, ""))


def locking(name: str = "a", node: str = "n1") -> Bind:
    bind = order(name, node=node)
    bind.devices.append(SharedDevice(type=LOCK, node_lock=LOCK))
    return bind


def binder_of(nodes: Nodes, clock: FakeClock | None = None) -> NodeLockBinder:
    objects = ReservedObjects(cast(ApiSession, nodes), lambda: True, 1.0)
    return NodeLockBinder(objects, Pods().read, clock or FakeClock(), Metrics())


async def test_a_lock_is_taken_once_and_left_to_the_device_plugin() -> None:
    nodes = Nodes()
    binder = binder_of(nodes)
    assert await binder.prepare(locking()) == DONE
    taken = nodes.lock
    assert taken.endswith("Z")
    # The same order again, such as after a lost answer.
    assert await binder.prepare(locking()) == DONE
    assert nodes.lock == taken
    await binder.settle(locking(), DONE)
    assert nodes.lock == taken


async def test_another_pod_waits_for_the_lock() -> None:
    nodes = Nodes()
    binder = binder_of(nodes)
    await binder.prepare(locking("a"))
    result = await binder.prepare(locking("b"))
    assert result.code is ApplyCode.WAITING
    assert result.retry_after_seconds > 0
    assert "locked within 5 minutes" in result.reason


async def test_a_pod_that_is_not_bound_gives_its_lock_back() -> None:
    nodes = Nodes()
    binder = binder_of(nodes)
    await binder.prepare(locking())
    await binder.settle(locking(), ApplyResult(ApplyCode.NOT_FOUND))
    assert nodes.lock == ""
    assert await binder.prepare(locking("b")) == DONE


async def test_the_lock_of_another_is_not_given_back() -> None:
    nodes = Nodes()
    binder = binder_of(nodes)
    await binder.prepare(locking())
    nodes.held[PATH]["metadata"]["annotations"][LOCK] = "2030-01-01T00:00:00Z"
    await binder.settle(locking(), ApplyResult(ApplyCode.NOT_FOUND))
    assert nodes.lock == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(("age_seconds", "is_taken"), [(299, False), (301, True), (-600, False)])
async def test_an_old_lock_is_void(age_seconds: int, is_taken: bool) -> None:
    clock = FakeClock()
    since = datetime.fromtimestamp(clock.unix_ms() / 1000 - age_seconds, UTC)
    nodes = Nodes(**{LOCK: since.strftime("%Y-%m-%dT%H:%M:%SZ")})
    result = await binder_of(nodes, clock).prepare(locking())
    assert (result == DONE) is is_taken


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00"])
async def test_a_lock_that_cannot_be_read_holds(text: str) -> None:
    result = await binder_of(Nodes(**{LOCK: text})).prepare(locking())
    assert result.code is ApplyCode.WAITING


async def test_a_node_that_changes_meanwhile_is_read_again() -> None:
    nodes = Nodes()
    nodes.troubles = [ApiError(CONFLICT, "Conflict", "another version")]
    assert await binder_of(nodes).prepare(locking()) == DONE
    assert nodes.lock


async def test_a_missing_right_is_told() -> None:
    nodes = Nodes()
    nodes.troubles = [ApiError(FORBIDDEN, "Forbidden", "cannot patch nodes")]
    result = await binder_of(nodes).prepare(locking())
    assert result.code is ApplyCode.FORBIDDEN
    assert "cannot patch nodes" in result.reason


async def test_a_node_that_is_gone_is_told() -> None:
    result = await binder_of(Nodes()).prepare(locking(node="n2"))
    assert result.code is ApplyCode.INVALID
    assert json.dumps(result.reason) == '"node n2 does not exist"'


def test_locks_are_named_by_devices() -> None:
    other: Any = order("a")
    assert lock_of(other) == ""
    assert lock_of(locking()) == LOCK

"""deviceshare with locks of nodes: a node takes one pod at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pumice.core.decisions import Bind, SharedDevice
from pumice.core.deltas import OutcomeCode, OutcomeReported, Upserted
from pumice.core.model.node import Node
from pumice.core.model.pod import PodPhase
from tests.core.builders import NOW_NS, fill
from tests.core.plugins.card_clusters import (
    SECOND_NS,
    SHARING,
    VGPU,
    asking,
    engine_with,
    gang,
    gpu_node,
    run,
    share,
    vgpu_node,
    waits_of,
)

LOCK = {"deviceshare.NodeLockEnable": True}
MINUTES_NS = 60 * SECOND_NS
LOCKED = "node has been locked within 5 minutes"


def time_of(ns: int) -> str:
    return datetime.fromtimestamp(ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def locked(node: Node, since: str, name: str = "hamivgpu") -> Node:
    return replace(node, annotations={**node.annotations, name: since})


def pods(count: int, **limits: Any) -> list[Any]:
    return gang("j", *(asking(f"j-{i}", "j", share(**limits)) for i in range(count)), minimum=1)


def test_a_bind_names_the_lock_of_its_node() -> None:
    binds = run(engine_with({**VGPU, **LOCK}, vgpu_node("n1", "8000"), pods(1, memory=100)))
    assert binds["j-0"].device == SharedDevice("hamivgpu", "hamivgpu")
    node = gpu_node("n1", 2, 8000)
    wanted = asking("j-0", "j", {"volcano.sh/gpu-memory": 100})
    binds = run(engine_with({**SHARING, **LOCK}, node, gang("j", wanted)))
    assert binds["j-0"].device == SharedDevice("GpuShare", "gpu")


def test_without_locks_nothing_is_named() -> None:
    binds = run(engine_with(VGPU, vgpu_node("n1", "8000"), pods(2, memory=100)))
    assert [bind.device for bind in binds.values()] == [None, None]


def test_a_node_takes_one_pod_and_the_next_one_when_the_lock_is_gone() -> None:
    nodes = [vgpu_node(name, "8000") for name in ("n1", "n2")]
    engine = engine_with({**VGPU, **LOCK}, nodes, pods(4, memory=100))
    first = run(engine)
    assert sorted(bind.node for bind in first.values()) == ["n1", "n2"]
    # The binds are not confirmed.
    assert run(engine, 1) == {}
    # The pods are bound, and the nodes show the locks.
    for bind in first.values():
        known = engine.cache.tasks[bind.uid].pod
        shown = replace(
            known, node_name=bind.node, annotations=dict(bind.annotations), phase=PodPhase.RUNNING
        )
        engine.apply([OutcomeReported(bind.id, OutcomeCode.APPLIED), Upserted(shown)], NOW_NS)
    fill(engine, [locked(node, time_of(NOW_NS)) for node in nodes])
    assert run(engine, 2) == {}
    assert waits_of(engine, "j") == {LOCKED: 2}
    # A device plugin removes its lock.
    fill(engine, nodes[0])
    assert [bind.node for bind in run(engine, 3).values()] == ["n1"]


@pytest.mark.parametrize(
    ("since", "is_locked"),
    [
        (time_of(NOW_NS - 4 * MINUTES_NS), True),
        (time_of(NOW_NS - 6 * MINUTES_NS), False),
        (time_of(NOW_NS + 60 * MINUTES_NS), True),
        # As in Volcano, a time that cannot be read holds.
        ("yesterday", True),
        ("2026-01-01T00:00:00", True),
        ("", False),
    ],
)
def test_a_lock_holds_for_five_minutes(since: str, is_locked: bool) -> None:
    node = locked(vgpu_node("n1", "8000"), since)
    engine = engine_with({**VGPU, **LOCK}, node, pods(1, memory=100))
    assert bool(run(engine)) is not is_locked


def test_a_lock_ends_by_time_alone() -> None:
    node = locked(vgpu_node("n1", "8000"), time_of(NOW_NS))
    engine = engine_with({**VGPU, **LOCK}, node, pods(1, memory=100))
    assert run(engine) == {}
    assert run(engine, 299) == {}
    assert not engine.can_skip(NOW_NS + 301 * SECOND_NS)
    assert sorted(run(engine, 301)) == ["j-0"]


def test_pods_without_devices_do_not_look_at_locks() -> None:
    node = locked(vgpu_node("n1", "8000"), time_of(NOW_NS))
    engine = engine_with({**VGPU, **LOCK}, node, gang("j", asking("j-0", "j")))
    (bind,) = run(engine).values()
    assert isinstance(bind, Bind)
    assert bind.device is None


def test_a_gang_that_is_undone_gives_the_lock_back() -> None:
    nodes = [vgpu_node("n1", "8000")]
    large = gang("a", *(asking(f"a-{i}", "a", share(100)) for i in range(2)))
    engine = engine_with({**VGPU, **LOCK}, nodes, large, pods(1, memory=100))
    assert sorted(run(engine)) == ["j-0"]

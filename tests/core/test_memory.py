"""What the core keeps follows what is there: nothing grows with what is gone or was never there."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.settings import CacheSettings
from pumice.core.decisions import Bind, SessionResult
from pumice.core.deltas import ClusterObject, Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.kubebatch import KUBE_BATCH
from pumice.core.model.group import PodGroup
from pumice.core.model.node import Node
from pumice.core.model.pod import HostPort, Pod, PodPhase, PodVolume
from pumice.core.model.storage import (
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from pumice.core.session.feasibility import class_rules, views
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.plugins.opened import asking, offering
from tests.core.plugins.random_clusters import RandomCluster
from tests.core.plugins.test_predicates_against_plain import groups
from tests.world import make_engine

SECOND_NS = 10**9


def array_bytes(table: NodeTable) -> int:
    return sum(part.nbytes for part in vars(table).values() if isinstance(part, np.ndarray))


def inventions(count: int) -> list[Pod]:
    """Pods of one group, each asking for a resource that nobody has heard of."""
    pods = [pod(f"p{i}", "g") for i in range(count)]
    return [
        asking(p, (("cpu", 1000), (f"example.com/r{i}", 1000), ("pods", 1)))
        for i, p in enumerate(pods)
    ]


def test_a_resource_that_no_node_offers_takes_no_column_and_no_arrays() -> None:
    engine = make_engine("allocate", [["gang"], ["predicates", "nodeorder"]])
    fill(engine, [node(f"n{i}") for i in range(40)], queue(), pod_group("g"))
    engine.schedule(NOW_NS)
    columns, size = list(engine.cache.table.columns), array_bytes(engine.cache.table)
    fill(engine, inventions(200))
    result = engine.schedule(NOW_NS)
    assert engine.cache.table.columns == columns
    assert array_bytes(engine.cache.table) == size
    assert engine._views._with_arrays == set()
    message = engine.cache.jobs["ns/g"].status.conditions[-1].message
    assert "40 Insufficient example.com/r" in message
    assert result.decisions == ()
    assert result.work.get("rows_computed", 0) == 0
    for waiting in inventions(200):
        engine.apply([Deleted(Pod, waiting.uid)])
    engine.schedule(NOW_NS + SECOND_NS)
    assert len(engine._views) == len(list(engine.cache.classes)) == 0


def test_a_resource_counts_as_soon_as_a_node_offers_it_and_no_longer() -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), inventions(1))
    assert engine.schedule(NOW_NS).decisions == ()
    offers = offering(node("n2"), **{"example.com/r0": 1000})
    fill(engine, offers)
    assert [str(d) for d in engine.schedule(NOW_NS).decisions] == ["bind p0 n2"]
    assert "example.com/r0" in engine.cache.table.columns
    engine.apply([Deleted(Node, offers.uid)])
    engine.schedule(NOW_NS + SECOND_NS)
    assert "example.com/r0" not in engine.cache.table.columns
    fill(engine, offering(node("n1"), **{"example.com/r0": 1000}))
    engine.cache.settle()
    assert "example.com/r0" in engine.cache.table.columns
    fill(engine, node("n1"))
    engine.cache.settle()
    assert "example.com/r0" not in engine.cache.table.columns


def test_a_pod_on_a_node_that_does_not_offer_what_it_uses_is_counted_once_it_does() -> None:
    running = dataclasses.replace(inventions(1)[0], node_name="n1", phase=PodPhase.RUNNING)
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), running)
    engine.schedule(NOW_NS)
    fill(engine, offering(node("n1"), **{"example.com/r0": 3000}))
    engine.cache.settle()
    assert engine.cache.table.sum_used().get("example.com/r0") == 1000


def test_kube_batch_leaves_out_a_node_whose_pod_uses_what_no_node_offers() -> None:
    running = dataclasses.replace(inventions(1)[0], node_name="n1", phase=PodPhase.RUNNING)
    engine = Engine(settings=CacheSettings(compat=(KUBE_BATCH,)))
    fill(engine, node("n1"), node("n2"), queue(), pod_group("g"), running)
    engine.cache.settle()
    assert engine.cache.in_sync().tolist() == [False, True]  # type: ignore[attr-defined]


def test_views_are_freed_with_their_classes() -> None:
    engine = fill(Engine(), [node(f"n{i}") for i in range(4)], queue())
    for number in range(30):
        name = f"j{number}"
        waiting = pod(name, name, 5 + number / 10)
        fill(engine, pod_group(name), waiting)
        engine.schedule(NOW_NS + number * SECOND_NS)
        assert len(engine._views) == 1
        engine.apply([Deleted(Pod, waiting.uid), Deleted(PodGroup, f"uid-{name}")])
    engine.schedule(NOW_NS + 40 * SECOND_NS)
    assert len(engine._views) == 0


def test_views_of_living_classes_are_limited_by_their_size() -> None:
    engine = fill(Engine(), [node(f"n{i}") for i in range(4)], queue())
    for number in range(40):
        name = f"j{number:02}"
        fill(engine, pod_group(name), pod(name, name, 5 + number / 10))
    with patch.object(views, "_MAX_BYTES", 20 * 4 * views._BYTES_PER_NODE + 20):
        first = engine.schedule(NOW_NS)
        again = engine.schedule(NOW_NS + SECOND_NS)
    assert len(engine._views) == 20
    assert len(first.waits) == 40
    assert again.waits == first.waits


def test_no_session_is_kept_alive_by_a_view() -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), pod("a", "g", 1))
    engine.schedule(NOW_NS)
    (view,) = [view for _, view in engine._views._views.values()]
    gc.collect()
    assert not [r for r in gc.get_referents(view.rules._chains) if type(r).__name__ == "Session"]
    assert view.rules._chains is class_rules._NO_CHAINS


def test_a_label_that_no_node_has_takes_no_column() -> None:
    engine = fill(Engine(), [node(f"n{i}", labels={"rack": "r1"}) for i in range(4)], queue())
    for number in range(20):
        name = f"j{number:02}"
        wants = {"node_selector": ((f"invented-{number}", "x"),)}
        fill(engine, pod_group(name), pod(name, name, spec=wants))
    assert engine.schedule(NOW_NS).decisions == ()
    assert len(engine.cache.labels._columns) == 1


def test_totals_of_a_cluster_are_exact_whatever_their_size() -> None:
    most = 2**53 - 1
    table = NodeTable()
    for number in range(1025):
        table.set_node(Node(f"u{number}", f"n{number}", allocatable=(("memory", most),)))
    table.settle()
    assert table.sum_allocatable().memory == 1025 * most


@pytest.mark.parametrize("first", [CsiNode, Node])
def test_csi_nodes_and_nodes_leave_nothing_in_any_order(first: type[ClusterObject]) -> None:
    engine = Engine()
    for number in range(5):
        limits = CsiNode(f"uid-csi-{number}", f"n{number}", (("csi.example.com", 9),))
        fill(engine, node(f"n{number}"), limits)
        both = [Deleted(CsiNode, limits.uid), Deleted(Node, f"uid-n{number}")]
        engine.apply(both if first is CsiNode else both[::-1])
    engine.schedule(NOW_NS)
    assert engine.cache.table.entries == {}
    assert len(engine.cache.table.columns) == 4


# Other settings.


def other_settings(engine: Engine) -> None:
    known = engine.cache.settings
    engine.change_settings(dataclasses.replace(known, scheduler_names=("volcano", "other")))


def test_other_settings_do_not_decide_again_what_takes_long() -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), pod("a", "g"))
    assert len(engine.schedule(NOW_NS).decisions) == 1
    assert engine.expire(NOW_NS + 1, NOW_NS + 2) == ["uid-a"]
    other_settings(engine)
    assert engine.schedule(NOW_NS + SECOND_NS).decisions == ()


def test_other_settings_do_not_end_the_wait_after_failures() -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), pod("a", "g"))
    for second in (0, 1):
        now_ns = NOW_NS + second * SECOND_NS
        (bind,) = engine.schedule(now_ns).decisions
        engine.apply([OutcomeReported(bind.id, OutcomeCode.FAILED)], now_ns)
    other_settings(engine)
    assert engine.schedule(now_ns + 1).decisions == ()
    assert len(engine.schedule(now_ns + 2 * SECOND_NS).decisions) == 1


# In the end there is nothing.


def storage(chance: Random) -> list[ClusterObject]:
    claims = [
        PersistentVolumeClaim(
            f"uid-c{i}",
            "a",
            f"c{i}",
            storage_class_name="ssd",
            volume_name=chance.choice(("", f"v{i}")),
        )
        for i in range(3)
    ]
    volumes = [
        PersistentVolume(f"uid-v{i}", f"v{i}", claim_key=f"a/c{i}", csi_driver="csi.example.com")
        for i in range(3)
    ]
    return [StorageClass("uid-ssd", "ssd", provisioner="csi.example.com"), *claims, *volumes]


def everything(seed: int) -> list[ClusterObject]:
    cluster, chance = RandomCluster(seed), Random(seed)
    odd = {
        "host_ports": (HostPort("TCP", "0.0.0.0", chance.choice((80, 443))),),
        "volumes": (PodVolume(f"c{chance.randint(0, 2)}"),),
    }
    special = [
        dataclasses.replace(pod(f"odd{i}", "g", on=on, spec=odd), namespace="a")
        for i, on in enumerate(("", "n0", "n1"))
    ]
    limits = [
        CsiNode(f"uid-csi-{n.name}", n.name, (("csi.example.com", 9),)) for n in cluster.nodes
    ]
    objects: list[ClusterObject] = [
        queue(), *groups(), *cluster.namespaces, *cluster.workloads, *cluster.nodes, *limits,
        *cluster.running, *cluster.waiting, *special, *storage(chance),
    ]  # fmt: skip
    chance.shuffle(objects)
    return objects


def obeyed(engine: Engine, there: dict[str, ClusterObject], result: SessionResult) -> None:
    for decision in result.decisions:
        bound = there.get(decision.uid)
        if isinstance(decision, Bind) and isinstance(bound, Pod):
            there[bound.uid] = dataclasses.replace(bound, node_name=decision.node)
            engine.apply([Upserted(there[bound.uid])])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([(), (KUBE_BATCH,)]))
def test_a_cluster_that_came_and_went_leaves_an_empty_cache(
    seed: int, compat: tuple[str, ...]
) -> None:
    chance = Random(seed)
    engine = Engine(settings=CacheSettings(compat=compat))
    if compat:
        kept = [o for o in engine.configuration.tiers[1] if o.name != "overcommit"]
        tiers = (engine.configuration.tiers[0][:2], tuple(kept))
        engine.configure(
            dataclasses.replace(engine.configuration, actions=("allocate",), tiers=tiers)
        )
    there: dict[str, ClusterObject] = {}
    for number, item in enumerate(everything(seed)):
        there[item.uid] = item
        engine.apply([Upserted(item)])
        if chance.random() < 0.1:
            obeyed(engine, there, engine.schedule(NOW_NS + number * SECOND_NS))
    left = list(there.values())
    chance.shuffle(left)
    for number, item in enumerate(left):
        engine.apply([Deleted(type(item), item.uid)])
        if chance.random() < 0.1:
            engine.schedule(NOW_NS + (100 + number) * SECOND_NS)
    for number in range(13):
        engine.schedule(NOW_NS + (200 + number) * SECOND_NS)
    assert list(leftovers(engine.cache, "cache")) == []
    assert len(engine._views) == 0


# The columns and stores that are always there, and what the cache was told to do.
ALWAYS = (
    "cache.table.columns",
    "cache.settings",
    "cache.stores._by_kind",
)


def leftovers(item: object, path: str, seen: set[int] | None = None) -> Iterator[str]:
    """Every container below an object of the cache that still holds something."""
    seen = set() if seen is None else seen
    if id(item) in seen or path.startswith(ALWAYS):
        return
    seen.add(id(item))
    if isinstance(item, dict | list | set | frozenset):
        # Lists of limits begin with 0.
        if len(item) and item != [0]:
            yield f"{path}: {item!r:.200}"
    elif isinstance(item, np.ndarray):
        # One number of a list of limits stands at its beginning or end.
        if item.shape[-1:] and item.shape[-1] > 1:
            yield f"{path}: {item.shape}"
    elif type(item).__module__.startswith(("pumice.core.cache", "pumice.core.kubebatch")):
        for name, value in attributes(item):
            yield from leftovers(value, f"{path}.{name}", seen)


def attributes(item: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(item, "__dict__", {}).items()
    for kind in type(item).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(item, name):
                yield name, getattr(item, name)

"""Rows by states of plugins: the kernel, which is told limits and scores, decides as NumPy does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core import kernel
from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import Deleted
from pumice.core.engine import Engine
from pumice.core.model.pod import Pod
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, node, pod_group, queue
from tests.core.plugins.card_clusters import asking, share, vgpu_node
from tests.core.plugins.test_numa_aware import asking as pinned
from tests.core.plugins.test_numa_aware import topology

pytestmark = pytest.mark.skipif(kernel.rows is None, reason="there is no compiled kernel")
SECOND_NS = 10**9
SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def engine_with(names: list[str], arguments: dict[str, Any], *objects: Any) -> Engine:
    plugins: list[dict[str, Any]] = [{"name": name} for name in names]
    plugins[-1]["arguments"] = arguments
    data = {"actions": "allocate, backfill", "tiers": [{"plugins": plugins}]}
    return fill(Engine(read_configuration(data, Registry().catalog())), queue(), *objects)


def decided(engine: Engine, jobs: list[list[Any]], *, compiled: bool) -> tuple[list[Any], int]:
    """What is bound session by session, with a pod that goes away in between."""
    found, by_numpy = [], 0
    with patch.object(kernel, "rows", kernel.rows if compiled else None):
        for second, job in enumerate(jobs):
            fill(engine, job)
            result = engine.schedule(NOW_NS + second * SECOND_NS)
            by_numpy += result.work.get("classes_by_numpy", 0)
            binds = [d for d in result.decisions if isinstance(d, Bind)]
            found.append([(d.name, d.node, d.annotations) for d in binds])
            if second % 3 == 1 and binds:
                engine.apply([Deleted(Pod, binds[-1].uid)])
    return found, by_numpy


@SETTINGS
@given(
    nodes=st.lists(st.lists(st.sampled_from(["4000", "8000/T4"]), max_size=3), min_size=1, max_size=5),
    jobs=st.lists(
        st.tuples(
            st.sampled_from([0, 500, 1500, 4000]),
            st.integers(1, 2),
            st.sampled_from([0, 20, 100]),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=5,
    ),
    policy=st.sampled_from(["", "binpack", "spread"]),
    weight=st.sampled_from([0, 7]),
    names=st.sampled_from([["gang", "binpack"], ["nodeorder"], ["binpack", "nodeorder"]]),
    # The kernel judges sixteen neighbours together.
    times=st.sampled_from([1, 7]),
)  # fmt: skip
def test_shared_cards(
    nodes: list[list[str]],
    jobs: list[tuple[int, int, int, int]],
    policy: str,
    weight: int,
    names: list[str],
    times: int,
) -> None:
    arguments = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": policy,
        "deviceshare.ScheduleWeight": weight,
    }
    made = [vgpu_node(f"n{i:02}", *cards) for i, cards in enumerate(nodes * times)]
    gangs = [
        [
            pod_group(f"j{j}", 1),
            *(asking(f"j{j}-{i:02}", f"j{j}", share(memory, count, cores)) for i in range(size)),
        ]
        for j, (memory, count, cores, size) in enumerate(jobs)
    ]
    chain = [*names, "predicates", "deviceshare"]
    (fast, by_numpy), (slow, _) = (
        decided(engine_with(chain, arguments, *made), gangs, compiled=compiled)
        for compiled in (True, False)
    )
    assert fast == slow
    assert not by_numpy


@SETTINGS
@given(
    free=st.lists(st.sampled_from(["0-7", "0-3", "0,2,4,6", "5"]), min_size=1, max_size=4),
    jobs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=5),
    times=st.sampled_from([1, 7]),
)
def test_cpus_of_numa_nodes(free: list[str], jobs: list[tuple[int, int]], times: int) -> None:
    made = [
        item
        for i, cpus in enumerate(free * times)
        for item in (node(f"n{i:02}", 16), topology(f"n{i:02}", free=cpus))
    ]
    gangs = []
    for j, (cpus, size) in enumerate(jobs):
        group, pod = pinned(f"j{j}", cpus)
        pods = [replace(pod, uid=f"uid-j{j}-{i}", name=f"j{j}-{i}") for i in range(size)]
        gangs.append([group, *pods])
    chain = ["gang", "predicates", "nodeorder", "numa-aware"]
    fast, slow = (
        decided(engine_with(chain, {}, *made), gangs, compiled=compiled)[0]
        for compiled in (True, False)
    )
    assert fast == slow


def test_scores_that_another_plugin_adds_later_are_left_to_numpy() -> None:
    arguments = {"binpack.weight": 3}
    made = [vgpu_node("n0", "8000"), vgpu_node("n1", "4000", "4000")]
    jobs = [[pod_group("j", 1), *(asking(f"j-{i}", "j", share(900)) for i in range(6))]]
    base = ["gang", "predicates"]
    cards = {
        "name": "deviceshare",
        "arguments": {
            "deviceshare.VGPUEnable": True,
            "deviceshare.SchedulePolicy": "binpack",
            "deviceshare.ScheduleWeight": 2,
        },
    }
    results = []
    for compiled in (True, False):
        plugins = [*({"name": n} for n in base), cards, {"name": "binpack", "arguments": arguments}]
        data = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
        engine = Engine(read_configuration(data, Registry().catalog()))
        results.append(decided(fill(engine, queue(), *made), jobs, compiled=compiled))
    assert results[0][0] == results[1][0]
    assert results[0][1] > 0

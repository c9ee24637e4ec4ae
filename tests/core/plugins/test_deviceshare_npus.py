"""deviceshare: which parts of Ascend NPUs pods get as HAMi shares them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.decisions import Bind, Evict
from pumice.core.deltas import Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.plugins.deviceshare.device_config import why_not_devices
from tests.core.builders import NOW_NS, fill
from tests.core.plugins.card_clusters import (
    HAMI,
    VGPU,
    asking,
    configured,
    engine_with,
    gang,
    npu,
    npu_node,
    run,
    said,
    share,
    vgpu_node,
    waits_of,
)

ALLOCATED = "hami.io/Ascend310P-devices-allocated"
BY_CORES = {"huawei.com/vnpu-mode": "hami-core"}
A910 = {
    "commonWord": "Ascend910B3",
    "resourceName": "huawei.com/Ascend910B3",
    "resourceMemoryName": "huawei.com/Ascend910B3-memory",
    "memoryAllocatable": 65536,
    "memoryCapacity": 65536,
    "templates": [
        {"name": "vir10_3c_32g", "memory": 32768},
        {"name": "vir05_1c_16g", "memory": 16384},
    ],
}
A310 = {
    "commonWord": "Ascend310P",
    "resourceName": "huawei.com/Ascend310P",
    "resourceMemoryName": "huawei.com/Ascend310P-memory",
    "memoryAllocatable": 21527,
    "memoryCapacity": 24576,
    "templates": [{"name": "vir01", "memory": 3072}],
}


def job(name: str, *containers: Any, **annotations: str) -> list[Any]:
    return gang(name, asking(f"{name}-0", name, *containers, annotations=annotations))


def test_memory_is_given_out_in_the_smallest_part_that_has_enough() -> None:
    engine = engine_with(HAMI, npu_node("n1", (21527,)), job("a", npu(4096)))
    bind = run(engine)["a-0"]
    seconds = str(NOW_NS // 10**9)
    assert dict(bind.annotations) == {
        ALLOCATED: "n1-0,Ascend310P,6144,0:;",
        "hami.io/Ascend310P-devices-to-allocate": "n1-0,Ascend310P,6144,0:;",
        "huawei.com/Ascend310P": '[{"UUID":"n1-0","temp":"vir02"}]',
        "predicate-time": seconds,
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": seconds,
    }


def test_a_pod_that_names_no_memory_gets_the_whole_card() -> None:
    jobs = [*job("a", npu()), *job("b", npu())]
    engine = engine_with(HAMI, npu_node("n1", (21527,)), jobs)
    binds = run(engine)
    assert said(binds, ALLOCATED) == {"a-0": "n1-0,Ascend310P,21527,0:;"}
    assert dict(binds["a-0"].annotations)["huawei.com/Ascend310P"] == '[{"UUID":"n1-0"}]'
    assert waits_of(engine, "b") == {"no ascend device available": 1}


def test_memory_and_cores_are_no_resources_of_nodes() -> None:
    """No node offers them, and the pods fit all the same."""
    engine = engine_with(HAMI, npu_node("n1", (21527,)), job("a", npu(3072, cores=1)))
    assert list(run(engine)) == ["a-0"]


def test_without_the_switch_they_are_resources_of_nodes() -> None:
    engine = engine_with(VGPU, npu_node("n1", (21527,)), job("a", npu(3072)))
    assert run(engine) == {}


@pytest.mark.parametrize("amount", [24577, 10**12])
def test_more_memory_than_a_card_has_fits_nowhere(amount: int) -> None:
    engine = engine_with(HAMI, npu_node("n1", (21527,), (21527,)), job("a", npu(amount)))
    assert run(engine) == {}
    assert waits_of(engine, "a") == {"no ascend device available": 1}


def test_parts_of_several_cards_do_not_exist() -> None:
    nodes = npu_node("n1", (21527,), (21527,))
    engine = engine_with(HAMI, nodes, job("a", npu(3072, number=2)), job("b", npu(number=2)))
    assert said(run(engine), ALLOCATED) == {
        "b-0": "n1-0,Ascend310P,21527,0:n1-1,Ascend310P,21527,0:;"
    }


def test_an_impossible_request_evicts_nobody() -> None:
    arguments = {**HAMI}
    running = replace(
        asking("low-0", "low", npu(21527)),
        node_name="n1",
        phase=PodPhase.RUNNING,
        annotations={ALLOCATED: "n1-0,Ascend310P,21527,0:;", "scheduling.k8s.io/group-name": "low"},
    )
    big = replace(asking("high-0", "high", npu(3072, number=2)), priority=100)
    node = npu_node("n1", (21527,), (21527,))
    engine = engine_with(
        arguments, node, gang("low", running), gang("high", big), actions="preempt"
    )
    assert not any(isinstance(d, Evict) for d in engine.schedule(NOW_NS).decisions)


def test_a_card_serves_one_container_of_a_pod() -> None:
    engine = engine_with(HAMI, npu_node("n1", (21527,), (21527,)), job("a", npu(3072), npu(3072)))
    assert said(run(engine), ALLOCATED) == {
        "a-0": "n1-0,Ascend310P,3072,0:;n1-1,Ascend310P,3072,0:;"
    }


def test_every_container_counts_after_a_restart() -> None:
    held = "n1-0,Ascend310P,12288,0:;n1-1,Ascend310P,12288,0:;"
    running = replace(
        asking("a-0", "a", npu(12288), npu(12288), annotations={ALLOCATED: held}),
        node_name="n1",
        phase=PodPhase.RUNNING,
    )
    engine = engine_with(HAMI, npu_node("n1", (21527,), (21527,)), gang("a", running))
    fill(engine, job("b", npu(12288)))
    assert run(engine) == {}
    engine.apply([Deleted(Pod, running.uid)])
    assert list(run(engine, 1)) == ["b-0"]


@pytest.mark.parametrize(
    ("policy", "second"), [("", "n1-0"), ("binpack", "n1-0"), ("spread", "n1-1")]
)
def test_the_policy_says_which_card_comes_first(policy: str, second: str) -> None:
    arguments = {**HAMI, "deviceshare.SchedulePolicy": policy}
    jobs = [*job("a", npu(3072)), *job("b", npu(3072))]
    engine = engine_with(arguments, npu_node("n1", (21527,), (21527,)), jobs)
    shares = said(run(engine), ALLOCATED)
    assert shares["a-0"].startswith("n1-0,")
    assert shares["b-0"].startswith(f"{second},")


def test_full_cards_count_in_the_score_of_a_node() -> None:
    arguments = {**HAMI, "deviceshare.SchedulePolicy": "binpack", "deviceshare.ScheduleWeight": 5}
    nodes = [npu_node(f"n{i}", (21527,)) for i in (1, 2)]
    first = replace(asking("x-0", "x", npu(3072), annotations={}), node_name="n2")
    held = {ALLOCATED: "n2-0,Ascend310P,3072,0:;", **first.annotations}
    engine = engine_with(arguments, nodes, gang("x", replace(first, annotations=held)))
    fill(engine, job("a", npu(3072)))
    assert run(engine)["a-0"].node == "n2"


# Shared cores.


def test_shared_cores_need_a_node_that_shares_them() -> None:
    nodes = [
        npu_node("n1", (21527,)),
        npu_node("n2", (21527,), annotations={"hami-vnpu-core": "true"}),
    ]
    engine = engine_with(HAMI, nodes, job("a", npu(4096, cores=90), **BY_CORES))
    bind = run(engine)["a-0"]
    assert bind.node == "n2"
    assert said({"a-0": bind}, ALLOCATED) == {"a-0": "n2-0,Ascend310P,4096,90:;"}
    told = json.loads(dict(bind.annotations)["huawei.com/Ascend310P"])
    assert told == [{"UUID": "n2-0", "memory": 4096, "core": 90}]


def test_the_configuration_lets_all_nodes_share_cores() -> None:
    nodes = [
        npu_node("n1", (21527,), annotations={"hami-vnpu-core": "no"}),
        npu_node("n2", (21527,)),
    ]
    engine = engine_with(HAMI, nodes, job("a", npu(4096, cores=90), **BY_CORES))
    configured(engine, {"vnpus": {"hamiVnpuCore": True, "configs": [A310]}})
    assert run(engine)["a-0"].node == "n2"


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [(60, 40, True), (60, 50, False), (100, 0, False), (10, 100, False), (50, 0, True)],
)
def test_cores_of_a_card_are_not_given_out_twice(first: int, second: int, *, fits: bool) -> None:
    node = npu_node("n1", (21527,), annotations={"hami-vnpu-core": "true"})
    jobs = [*job("a", npu(100, cores=first), **BY_CORES)]
    jobs += job("b", npu(100, cores=second), **BY_CORES)
    assert len(run(engine_with(HAMI, node, jobs))) == 1 + fits


# Types and networks.


def test_cards_of_one_network_come_first() -> None:
    node = npu_node(
        "n1", (65536, 0), (65536, 1), (65536, 1), (65536, 0), (65536, 1), word="Ascend910B3"
    )
    engine = engine_with(HAMI, node, job("a", npu(number=3, word="Ascend910B3")))
    configured(engine, {"vnpus": {"configs": [A910]}})
    ids = said(run(engine), "hami.io/Ascend910B3-devices-allocated")["a-0"]
    assert [part.partition(",")[0] for part in ids.split(":")[:-1]] == ["n1-1", "n1-2", "n1-4"]


def test_several_types_are_told_apart() -> None:
    nodes = [npu_node("n1", (21527,)), npu_node("n2", (65536,), word="Ascend910B3")]
    jobs = [*job("a", npu(3072)), *job("b", npu(20000, word="Ascend910B3"))]
    engine = engine_with(HAMI, nodes, jobs)
    configured(engine, {"vnpus": {"configs": [A310, A910]}})
    binds = run(engine)
    assert {name: bind.node for name, bind in binds.items()} == {"a-0": "n1", "b-0": "n2"}
    told = dict(binds["b-0"].annotations)
    assert told["huawei.com/Ascend910B3"] == '[{"UUID":"n2-0","temp":"vir10_3c_32g"}]'
    assert "huawei.com/Ascend310P" not in told


def test_npus_and_vgpus_are_shared_side_by_side() -> None:
    nodes = [npu_node("n1", (21527,)), vgpu_node("n2", "8000", "8000")]
    jobs = [*job("a", npu(3072)), *job("b", share(3000)), *job("c", share(9000))]
    engine = engine_with({**HAMI, **VGPU}, nodes, jobs)
    assert {name: bind.node for name, bind in run(engine).items()} == {"a-0": "n1", "b-0": "n2"}
    assert waits_of(engine, "c")["hami-vgpuDeviceSharing error"] == 1


def test_a_pod_may_ask_for_both() -> None:
    gpu, card = vgpu_node("n1", "8000"), npu_node("n1", (21527,))
    both = replace(
        gpu,
        annotations={**gpu.annotations, **card.annotations},
        allocatable=(*gpu.allocatable, card.allocatable[-1]),
        capacity=(*gpu.capacity, card.allocatable[-1]),
    )
    engine = engine_with({**HAMI, **VGPU}, both, job("a", {**npu(3072), **share(3000)}))
    told = dict(run(engine)["a-0"].annotations)
    assert told[ALLOCATED] == "n1-0,Ascend310P,3072,0:;"
    assert told["volcano.sh/vgpu-ids-new"] == "n1-0,NVIDIA,3000,0:"


# Odd data.


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "x", '[{"count":1}]', '[{"id":"a"},{"id":"a"}]', '[1]', '[{"id":"a","devmem":1e999}]',
     '[{"id":"a","devmem":"many"}]', "[" * 100_000],
)  # fmt: skip
def test_a_register_that_cannot_be_read_offers_nothing(text: str) -> None:
    node = npu_node("n1", (21527,), annotations={"hami.io/node-register-Ascend310P": text})
    assert run(engine_with(HAMI, node, job("a", npu(3072)))) == {}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, None),
        ({"vnpus": [A310]}, None),
        ([], "is invalid"),
        (7, "is invalid"),
        ({"vnpus": [{}]}, "lacks the key 'resourceName'"),
        ({"vnpus": {"configs": [{**A310, "memoryCapacity": "much"}]}}, "is invalid"),
        ({"nvidia": {"knownMigGeometries": [{"models": ["A"]}]}}, "lacks the key"),
        ({"nvidia": {"gpuMemoryFactor": float("inf")}}, "is invalid"),
    ],
)
def test_a_device_configuration_is_checked(data: object, problem: str | None) -> None:
    found = why_not_devices(data)
    assert found is None if problem is None else problem in str(found)


def test_another_configuration_counts_from_the_next_session_on() -> None:
    engine = engine_with(HAMI, npu_node("n1", (65536,), word="Ascend910B3"))
    fill(engine, job("a", npu(100, word="Ascend910B3")))
    assert run(engine) == {}
    configured(engine, {"vnpus": {"configs": [A910]}})
    assert list(run(engine, 1)) == ["a-0"]


def test_a_container_that_asks_for_no_card_gets_none() -> None:
    engine = engine_with(HAMI, npu_node("n1", (21527,)), job("a", npu(number=0), npu(3072)))
    assert said(run(engine), ALLOCATED) == {"a-0": ";n1-0,Ascend310P,3072,0:;"}


def test_a_node_is_locked_by_the_name_that_the_device_plugin_knows() -> None:
    arguments = {**HAMI, "deviceshare.NodeLockEnable": True}
    jobs = [*job("a", npu(3072)), *job("b", npu(3072))]
    engine = engine_with(arguments, npu_node("n1", (21527,)), jobs)
    bind = run(engine)["a-0"]
    assert bind.device is not None
    assert (bind.device.type, bind.device.node_lock) == ("Ascend310P", "hami.io/mutex.lock")
    assert waits_of(engine, "b") == {"node has been locked within 5 minutes": 1}


def test_a_placement_that_is_undone_gives_its_part_back() -> None:
    """The gang does not fit whole; the pod after it gets the card."""
    pods = [asking(f"a-{i}", "a", npu(21527)) for i in range(2)]
    engine = engine_with(HAMI, npu_node("n1", (21527,)), gang("a", *pods), job("b", npu(21527)))
    assert list(run(engine)) == ["b-0"]


def _confirm(engine: Engine, bind: Bind, node: Node) -> None:
    known = engine.cache.tasks[bind.uid].pod
    told = {**known.annotations, **dict(bind.annotations)}
    engine.apply([Upserted(replace(known, node_name=node.name, annotations=told))])


def test_a_new_engine_knows_from_annotations_what_is_in_use() -> None:
    node = npu_node("n1", (21527,))
    engine = engine_with(HAMI, node, job("a", npu(12288)))
    _confirm(engine, run(engine)["a-0"], node)
    fresh = engine_with(HAMI, node)
    fresh.restore(engine.checkpoint())
    fill(fresh, job("b", npu(12288)), job("c", npu(6144)))
    assert list(run(fresh, 1)) == ["c-0"]

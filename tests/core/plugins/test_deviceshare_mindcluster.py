"""deviceshare: which parts of Ascend 310P NPUs pods get as MindCluster shares them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Evict
from pumice.core.deltas import DataReported, Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.errors import ConfigurationError
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, amounts, fill, queue
from tests.core.plugins.card_clusters import (
    SECOND_NS,
    VGPU,
    asking,
    engine_with,
    gang,
    run,
    said,
    share,
    vgpu_node,
    waits_of,
)

ON = {"deviceshare.AscendMindClusterVNPUEnable": True}
CORES = "huawei.com/npu-core"
REAL = "huawei.com/AscendReal"
CHIPS = "huawei.com/Ascend310P"
REASON = "not enough AI cores on the NPUs of the node"
LABELS = {
    "accelerator": "huawei-Ascend310P",
    "servertype": "Ascend310P-8",
    "node.kubernetes.io/npu.chip.name": "310P3",
}


def chip_node(name: str, chips: int, **labels: str) -> Node:
    offered = (*amounts(64, 256, pods=110), (CORES, chips * 8000))
    return Node(
        f"uid-{name}", name, labels={**LABELS, **labels}, allocatable=offered, capacity=offered
    )


def told(name: str, chips: int, **more: str) -> DataReported:
    listed = ",".join(f"Ascend310P-{chip}" for chip in range(chips))
    return DataReported("deviceshare", f"npu/{name}", {CHIPS: listed, **more})


def cluster(*nodes: tuple[str, int], arguments: Mapping[str, Any] = ON) -> Engine:
    engine = engine_with(arguments, [chip_node(*node) for node in nodes])
    engine.apply([told(*node) for node in nodes])
    return engine


def job(name: str, cores: int, **labels: str) -> list[Any]:
    return gang(name, asking(f"{name}-0", name, {CORES: cores}, labels=labels))


@pytest.mark.parametrize(
    ("cores", "level", "dvpp", "template"),
    [
        (1, "", "", "vir01"),
        (2, "", "null", "vir02_1c"),
        (2, "high", "null", "vir02"),
        (2, "odd", "null", "vir02_1c"),
        (4, "low", "yes", "vir04_4c_dvpp"),
        (4, "high", "no", "vir04_3c_ndvpp"),
        (4, "low", "null", "vir04_3c"),
        (4, "high", "", "vir04"),
    ],
)
def test_the_template_follows_from_cores_and_labels(
    cores: int, level: str, dvpp: str, template: str
) -> None:
    wishes = {"vnpu-level": level, "vnpu-dvpp": dvpp}
    engine = fill(cluster(("n1", 1)), job("a", cores, **{k: v for k, v in wishes.items() if v}))
    bind = run(engine)["a-0"]
    assert dict(bind.annotations) == {CORES: f"0-{template}", "predicate-time": str(NOW_NS)}


@pytest.mark.parametrize(("cores", "chips"), [(8, "0"), (16, "0,1")])
def test_whole_chips_have_no_template(cores: int, chips: str) -> None:
    engine = fill(cluster(("n1", 2)), job("a", cores))
    assert said(run(engine), CORES) == {"a-0": chips}


@pytest.mark.parametrize(("cores", "dvpp"), [(3, "null"), (5, "null"), (12, "null"), (4, "maybe")])
def test_parts_that_do_not_exist_fit_nowhere(cores: int, dvpp: str) -> None:
    engine = fill(cluster(("n1", 2)), job("a", cores, **{"vnpu-dvpp": dvpp}))
    assert run(engine) == {}
    assert waits_of(engine, "a") == {REASON: 1}


def test_the_fullest_chip_comes_first() -> None:
    engine = fill(cluster(("n1", 2)), job("a", 1), job("b", 1))
    assert said(run(engine), CORES) == {"a-0": "0-vir01", "b-0": "0-vir01"}


def test_a_pod_gets_fewer_cpus_where_there_are_not_enough() -> None:
    """A chip has 7 cpus: not enough for two templates with 4."""
    high = {"vnpu-level": "high"}
    engine = fill(cluster(("n1", 1)), job("a", 4, **high))
    first = run(engine)["a-0"]
    _serve(engine, first.uid, "Ascend310P-4c-100-0_0")
    fill(engine, job("b", 4, **high))
    assert said(run(engine, 1), CORES) == {"b-0": "0-vir04_3c"}


def _serve(engine: Engine, uid: str, real: str = "") -> Pod:
    """The pod as the cluster shows it, once the device plugin has served it, or before."""
    task = engine.cache.tasks[uid]
    shown = replace(
        task.pod,
        node_name=task.node_name or task.pod.node_name,
        phase=PodPhase.RUNNING,
        annotations={**task.annotations, **({REAL: real} if real else {})},
    )
    engine.apply([Upserted(shown)])
    return shown


def test_parts_of_one_template_are_made_at_a_time() -> None:
    engine = fill(cluster(("n1", 2)), job("a", 1), job("b", 2), job("c", 8))
    binds = run(engine)
    assert list(binds) == ["a-0"]
    shown = _serve(engine, binds["a-0"].uid)
    # Asked for, not made yet.
    assert run(engine, 1) == {}
    _serve(engine, shown.uid, "Ascend310P-1c-100-0_0")
    assert len(run(engine, 2)) == 1


def test_dvpp_is_not_given_out_twice() -> None:
    yes = {"vnpu-dvpp": "yes"}
    engine = fill(cluster(("n1", 1)), job("a", 4, **yes), job("b", 4, **yes))
    binds = run(engine)
    assert said(binds, CORES) == {"a-0": "0-vir04_4c_dvpp"}
    _serve(engine, binds["a-0"].uid, "Ascend310P-4c-100-0_0")
    fill(engine, job("c", 1), job("d", 4, **{"vnpu-dvpp": "no"}))
    assert said(run(engine, 1), CORES) == {"d-0": "0-vir04_3c_ndvpp"}


@pytest.mark.parametrize(("groups", "cores", "fits"), [(3, 4, False), (3, 2, True), (4, 2, False), (4, 1, True)])  # fmt: skip
def test_chips_of_many_groups_take_small_parts_only(groups: int, cores: int, *, fits: bool) -> None:
    engine = cluster(("n1", 1))
    for group in range(groups):
        held = {CORES: "0-vir01", REAL: f"Ascend310P-1c-10{group}-0_{group}"}
        pod = asking(f"x{group}-0", f"x{group}", {CORES: 1}, annotations=held)
        fill(engine, gang(f"x{group}", replace(pod, node_name="n1", phase=PodPhase.RUNNING)))
    fill(engine, job("a", cores))
    assert bool(run(engine)) is fits


def test_an_unhealthy_chip_is_not_given_out() -> None:
    engine = engine_with(ON, chip_node("n1", 2), job("a", 8), job("b", 8))
    engine.apply([told("n1", 2, **{f"{CHIPS}-Unhealthy": "Ascend310P-0"})])
    assert said(run(engine), CORES) == {"a-0": "1"}


def test_a_node_that_its_agent_separates_takes_nothing() -> None:
    engine = engine_with(ON, chip_node("n1", 2), job("a", 8))
    engine.apply([told("n1", 2, NodeStatus="PreSeparate")])
    assert run(engine) == {}
    engine.apply([told("n1", 2, NodeStatus="Healthy")])
    assert list(run(engine, 1)) == ["a-0"]


def test_a_node_without_data_takes_nothing() -> None:
    engine = engine_with(ON, chip_node("n1", 2), job("a", 8))
    assert run(engine) == {}
    assert waits_of(engine, "a") == {REASON: 1}


@pytest.mark.parametrize("keeps", [True, False])
def test_free_chips_are_those_of_the_node_or_those_that_the_plugin_lists(*, keeps: bool) -> None:
    common = {"self-maintain-available-card": "true" if keeps else "false"}
    plugins = [{"name": "predicates"}, {"name": "deviceshare", "arguments": ON}]
    data = {
        "actions": "allocate",
        "tiers": [{"plugins": plugins}],
        "configurations": [{"name": "init-params", "arguments": common}],
    }
    engine = Engine(read_configuration(data, Registry().catalog()))
    base = json.dumps({"Ascend310P-0": {"IP": ""}, "Ascend310P-1": {"IP": ""}})
    node = replace(chip_node("n1", 2), annotations={"baseDeviceInfos": base})
    fill(engine, queue(), node, job("a", 16))
    lists = {CHIPS: "Ascend310P-1", f"{CHIPS}-Recovering": ""}
    engine.apply([DataReported("deviceshare", "npu/n1", lists)])
    assert bool(run(engine)) is keeps


@pytest.mark.parametrize(
    "labels",
    [{"accelerator": "huawei-Ascend910"}, {"accelerator": "x"}, {"servertype": "Ascend310P"},
     {"servertype": "Ascend310P-x"}, {"servertype": "Ascend310P-0"}, {"servertype": "Ascend310P-10"}],
)  # fmt: skip
def test_nodes_of_other_chips_are_refused(labels: dict[str, str]) -> None:
    engine = engine_with(ON, chip_node("n1", 1, **labels), job("a", 8))
    engine.apply([told("n1", 1)])
    assert run(engine) == {}


@pytest.mark.parametrize("text", ["", "x", "0-", "-vir01", "0,x", "0-vir01-2", "99-vir01", "0,0"])
def test_odd_annotations_break_nothing(text: str) -> None:
    pod = asking("x-0", "x", {CORES: 1}, annotations={CORES: text})
    engine = cluster(("n1", 2))
    fill(engine, gang("x", replace(pod, node_name="n1", phase=PodPhase.RUNNING)), job("a", 8))
    assert engine.schedule(NOW_NS).faults == ()


def test_nobody_is_evicted_for_a_part() -> None:
    held = {CORES: "0", REAL: "Ascend310P-0"}
    low = asking("low-0", "low", {CORES: 8}, annotations=held)
    engine = engine_with(ON, chip_node("n1", 1), actions="preempt")
    engine.apply([told("n1", 1)])
    fill(engine, gang("low", replace(low, node_name="n1", phase=PodPhase.RUNNING)))
    fill(engine, gang("high", replace(asking("high-0", "high", {CORES: 8}), priority=9)))
    assert not any(isinstance(d, Evict) for d in engine.schedule(NOW_NS).decisions)


def test_a_node_with_fewer_idle_cores_is_preferred() -> None:
    weighted = {**ON, "deviceshare.ScheduleWeight": 10}
    engine = cluster(("n1", 2), ("n2", 1), arguments=weighted)
    assert run(fill(engine, job("a", 1)))["a-0"].node == "n2"


def test_a_node_with_the_preferred_template_is_preferred() -> None:
    """n2 has fewer idle cores, and too few cpus for the template."""
    weighted = {**ON, "deviceshare.ScheduleWeight": 10}
    engine = cluster(("n1", 1), ("n2", 1), arguments=weighted)
    held = {CORES: "0-vir04", REAL: "Ascend310P-4c-100-0_0"}
    pod = asking("x-0", "x", {CORES: 4}, annotations=held)
    fill(engine, gang("x", replace(pod, node_name="n2", phase=PodPhase.RUNNING)))
    fill(engine, job("a", 4, **{"vnpu-level": "high"}))
    assert run(engine)["a-0"].node == "n1"


def test_chips_and_vgpus_are_shared_side_by_side() -> None:
    engine = engine_with({**ON, **VGPU}, [chip_node("n1", 1), vgpu_node("n2", "8000")])
    engine.apply([told("n1", 1)])
    fill(engine, job("a", 1), gang("b", asking("b-0", "b", share(3000))))
    assert {name: bind.node for name, bind in run(engine).items()} == {"a-0": "n1", "b-0": "n2"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    jobs=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 4, 8, 16, 3]),
            st.sampled_from(["low", "high"]),
            st.sampled_from(["null", "yes", "no"]),
            st.integers(1, 4),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    ends=st.lists(st.integers(0, 10), max_size=4),
)
def test_no_chip_is_overcommitted(
    nodes: list[int], jobs: list[tuple[int, str, str, int, bool]], ends: list[int]
) -> None:
    engine = cluster(*((f"n{i}", chips) for i, chips in enumerate(nodes)))
    running: dict[str, Pod] = {}
    for number, (cores, level, dvpp, size, served) in enumerate(jobs):
        labels = {"vnpu-level": level, "vnpu-dvpp": dvpp}
        name = f"j{number}"
        pods = [asking(f"{name}-{i}", name, {CORES: cores}, labels=labels) for i in range(size)]
        fill(engine, gang(name, *pods, minimum=1))
        for bound in run(engine, number * 2).values():
            running[bound.uid] = _serve(engine, bound.uid)
        for uid, shown in list(running.items()) if served else ():
            running[uid] = _serve(engine, uid, f"Ascend310P-1c-{len(uid)}-{shown.name}_0")
        _check(running)
        if ends and running:
            uid = sorted(running)[ends[number % len(ends)] % len(running)]
            del running[uid]
            engine.apply([Deleted(Pod, uid)], NOW_NS + (number * 2 + 1) * SECOND_NS)


_SIZES = {"vir01": (1, 1), "vir02": (2, 2), "vir02_1c": (2, 1), "vir04": (4, 4), "vir04_3c": (4, 3),
          "vir04_3c_ndvpp": (4, 3), "vir04_4c_dvpp": (4, 4), "": (8, 7)}  # fmt: skip


def _check(running: Mapping[str, Pod]) -> None:
    used: dict[tuple[str, str], list[str]] = {}
    for shown in running.values():
        if CORES in shown.annotations:
            chips, _, template = shown.annotations[CORES].partition("-")
            for chip in chips.split(","):
                used.setdefault((shown.node_name, chip), []).append(template)
    for templates in used.values():
        assert sum(_SIZES[name][0] for name in templates) <= 8
        assert sum(_SIZES[name][1] for name in templates) <= 7
        assert templates.count("vir04_4c_dvpp") <= 1


@pytest.mark.parametrize(
    ("common", "problem", "warnings"),
    [
        ({"presetVirtualDevice": "false", "grace-over-time": "900"}, "", 2),
        ({"useClusterInfoManager": "perhaps"}, "true or false", 0),
        ({"useClusterInfo": "true"}, "useClusterInfoManager", 0),
    ],
)
def test_parameters_of_mindcluster_are_checked(
    common: dict[str, str], problem: str, warnings: int
) -> None:
    data = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "deviceshare", "arguments": ON}]}],
        "configurations": [{"name": "init-params", "arguments": common}],
    }
    catalog = Registry().catalog()
    if problem:
        with pytest.raises(ConfigurationError, match=problem):
            read_configuration(data, catalog)
    else:
        assert len(read_configuration(data, catalog).warnings) == warnings

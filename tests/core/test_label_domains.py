"""Jobs that must stay on nodes with the same value of a label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind, Evict
from pumice.core.deltas import OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import NetworkTopology, SubGroupPolicy
from pumice.core.model.node import Node
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, priority_class, queue

ZONE = "topology.kubernetes.io/zone"
PLUGINS = ("priority", "gang", "predicates", "nodeorder")


def engine_with(
    *objects: Any, actions: str = "allocate, backfill", more: tuple[str, ...] = ()
) -> Engine:
    plugins = [{"name": name} for name in (*PLUGINS, *more)]
    data = {"actions": actions, "tiers": [{"plugins": plugins}]}
    return fill(Engine(read_configuration(data, Registry().catalog())), queue(), *objects)


def in_zone(name: str, zone: str, cpu: float = 4) -> Node:
    return node(name, cpu, labels={ZONE: zone})


def gang(
    name: str, size: int, cpu: float = 1, minimum: int | None = None, **fields: Any
) -> list[Any]:
    group = pod_group(name, size if minimum is None else minimum, topology_key=ZONE, **fields)
    return [group, *(pod(f"{name}-{i}", name, cpu, cpu) for i in range(size))]


def run(engine: Engine, second: int = 0) -> dict[str, str]:
    result = engine.schedule(NOW_NS + second * 10**9)
    assert result.faults == ()
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def reason_of(engine: Engine, job: str) -> Reason:
    [wait] = [wait for wait in engine.waits if wait.job == f"ns/{job}"]
    [reason] = [r for r in wait.reasons if r.code is ReasonCode.NO_LABEL_DOMAIN_FITS]
    return reason


@pytest.mark.parametrize("more", [(), ("network-topology-aware",)])
def test_a_gang_is_placed_within_one_value_of_the_label(more: tuple[str, ...]) -> None:
    engine = engine_with(
        in_zone("n1", "a", 3), in_zone("n2", "b"), in_zone("n3", "b"), node("n4", 64), more=more
    )
    fill(engine, gang("j", 5))
    assert set(run(engine).values()) == {"n2", "n3"}
    assert run(engine, 1) == {}


def test_the_domain_with_the_least_room_that_is_enough_is_taken() -> None:
    engine = engine_with(in_zone("n1", "a", 8), in_zone("n2", "b", 3), in_zone("n3", "c", 5))
    fill(engine, gang("j", 4))
    assert set(run(engine).values()) == {"n3"}


def test_a_gang_that_no_domain_takes_waits_and_says_which_is_the_nearest() -> None:
    engine = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 4))
    fill(engine, gang("j", 5))
    assert run(engine) == {}
    reason = reason_of(engine, "j")
    assert (reason.subjects, reason.have, reason.need) == ((ZONE, f"{ZONE}=b"), 4, 5)
    fill(engine, in_zone("n3", "a", 2))
    assert set(run(engine, 1).values()) == {"n1", "n3"}


def test_nodes_without_the_label_are_in_no_domain() -> None:
    engine = engine_with(node("n1"), gang("j", 1))
    assert run(engine) == {}
    assert [count.reason for count in reason_of(engine, "j").nodes] == [
        f"node(s) didn't have the label {ZONE}"
    ]


def test_later_pods_go_where_the_first_ones_are() -> None:
    engine = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 8), gang("j", 2))
    assert set(run(engine).values()) == {"n1"}
    fill(engine, *(pod(f"j-{i}", "j") for i in (2, 3)))
    assert run(engine, 1) == {"j-2": "n1"}
    fresh = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 8))
    running = [pod(f"j-{i}", "j", on="n1") for i in range(2)]
    fill(fresh, pod_group("j", 2, topology_key=ZONE), *running, pod("j-2", "j"), pod("j-3", "j"))
    assert run(fresh) == {"j-2": "n1"}


def test_pods_beyond_the_minimum_stay_in_the_domain_too() -> None:
    engine = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 2), gang("j", 5, minimum=2))
    assert set(run(engine).values()) == {"n2"}


def test_a_job_whose_pods_are_in_two_domains_gets_no_more() -> None:
    engine = engine_with(in_zone("n1", "a"), in_zone("n2", "b"))
    fill(engine, pod_group("j", 1, topology_key=ZONE), pod("j-0", "j", on="n1"))
    fill(engine, pod("j-1", "j", on="n2"), pod("j-2", "j"))
    assert run(engine) == {}
    assert "several values" in reason_of(engine, "j").nodes[0].reason


def test_best_effort_pods_stay_in_the_domain() -> None:
    engine = engine_with(in_zone("n1", "a"), in_zone("n2", "b"), node("n3"))
    fill(engine, pod_group("j", 1, topology_key=ZONE), pod("j-0", "j", on="n2"))
    fill(engine, *(pod(f"j-{i}", "j", 0, 0) for i in (1, 2, 3)))
    assert set(run(engine).values()) == {"n2"}


def test_pods_of_several_classes_stay_together() -> None:
    engine = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 5))
    fill(engine, pod_group("j", 2, topology_key=ZONE), pod("j-0", "j", 1), pod("j-1", "j", 3))
    assert set(run(engine).values()) == {"n2"}


def test_sub_groups_stay_in_the_domain_of_their_job() -> None:
    policy = SubGroupPolicy("parts", match_label_keys=("part",), sub_group_size=2)
    group = pod_group("j", 4, topology_key=ZONE, sub_group_policies=(policy,))
    pods = [pod(f"j-{i}", "j", labels={"part": str(i % 2)}) for i in range(4)]
    engine = engine_with(in_zone("n1", "a", 3), in_zone("n2", "b", 4), group, *pods)
    assert set(run(engine).values()) == {"n2"}


def test_a_topology_of_the_network_beside_it_is_refused() -> None:
    both = pod_group("j", 1, topology_key=ZONE, network_topology=NetworkTopology())
    [refused] = engine_with().apply([Upserted(both)])
    assert "topology_key" in str(refused)


def test_a_node_that_gets_another_label_is_in_another_domain() -> None:
    engine = engine_with(in_zone("n1", "a", 2), in_zone("n2", "b", 2), gang("j", 4))
    assert run(engine) == {}
    fill(engine, replace(in_zone("n2", "b", 2), labels={ZONE: "a"}))
    assert set(run(engine, 1).values()) == {"n1", "n2"}


@pytest.mark.parametrize(("action", "helps"), [("preempt", False), ("gangpreempt", True)])
def test_evictions_for_the_gang_are_in_one_domain(action: str, helps: bool) -> None:
    low, high = priority_class("low", 1), priority_class("high", 9)
    engine = engine_with(low, high, actions=f"allocate, {action}", more=("conformance",))
    fill(engine, in_zone("n1", "a", 1), in_zone("n2", "b", 2))
    spread = [
        pod(f"small-{i}", "small", on=name, annotations={})
        for i, name in enumerate(("n1", "n2", "n2"))
    ]
    fill(engine, pod_group("small", 0, priority_class_name="low", preemptable=True), *spread)
    fill(engine, gang("big", 2, priority_class_name="high"))
    decisions = engine.schedule(NOW_NS).decisions
    evicted = sorted(d.name for d in decisions if isinstance(d, Evict))
    assert evicted == (["small-1", "small-2"] if helps else [])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(1, 4)), max_size=6),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2), st.integers(0, 5)), max_size=6),
)
def test_no_job_is_ever_in_two_domains(nodes: list[Any], jobs: list[Any]) -> None:
    engine = engine_with()
    for number, (zone, cpu) in enumerate(nodes):
        fill(engine, in_zone(f"n{number}", zone, cpu) if zone else node(f"n{number}", cpu))
    for number, (size, cpu, minimum) in enumerate(jobs):
        fill(engine, gang(f"j{number}", size, cpu, min(minimum, size)))
    zones: dict[str, set[str]] = {}
    for second in range(2):
        result = engine.schedule(NOW_NS + second * 10**9)
        assert result.faults == ()
        for bind in result.decisions:
            assert isinstance(bind, Bind)
            zone = nodes[int(bind.node[1:])][0]
            zones.setdefault(bind.name.partition("-")[0], set()).add(zone)
            engine.apply([OutcomeReported(bind.id, OutcomeCode.APPLIED)], NOW_NS)
    for found in zones.values():
        assert len(found) == 1
        assert "" not in found

"""numa-aware: which cpus pods get, and that no cpu is given out twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.pod import ContainerResources, Pod, PodPhase
from pumice.core.model.topology import NumaCpu, NumaTopology
from pumice.core.plugins.numa_aware.alignment import read_cpus, write_cpus
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue

SECOND_NS = 10**9
CPUS = "pumice.sh/numa-cpus"
SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"


def engine_with(*objects: Any) -> Engine:
    names = ("gang", "predicates", "numa-aware", "nodeorder")
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in names]}]}
    return fill(Engine(read_configuration(data, Registry().catalog())), queue(), *objects)


def topology(
    name: str,
    free: str,
    policy: str = SINGLE,
    *,
    numas: int = 2,
    per_numa: int = 4,
    manager: str = "static",
    **fields: Any,
) -> NumaTopology:
    """Two cpus a core, one socket a NUMA node."""
    cpus = tuple(
        NumaCpu(cpu, cpu // per_numa, cpu // per_numa, cpu // 2) for cpu in range(numas * per_numa)
    )
    return NumaTopology(
        f"uid-numa-{name}",
        name,
        {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
        {"cpu": (free, len(cpus))},
        cpus,
        **fields,
    )


def asking(name: str, *cpus: float, policy: str = SINGLE, guaranteed: bool = True) -> list[Any]:
    containers = tuple(
        ContainerResources(milli_cpu=int(c * 1000), name=f"c{i}") for i, c in enumerate(cpus)
    )
    spec = {"containers": containers, "guaranteed": guaranteed, "numa_policy": policy}
    return [pod_group(name), pod(f"{name}-0", name, sum(cpus), spec=spec)]


def run(engine: Engine, second: int = 0) -> dict[str, tuple[str, str]]:
    """The node and the cpus of every pod that is bound."""
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    binds = [d for d in result.decisions if isinstance(d, Bind)]
    return {bind.name: (bind.node, dict(bind.annotations).get(CPUS, "")) for bind in binds}


def reasons(engine: Engine, job: str) -> dict[str, int]:
    [wait] = [wait for wait in engine.waits if wait.job == f"ns/{job}"]
    return {count.reason: count.nodes for reason in wait.reasons for count in reason.nodes}


ALL = "0-7"


def test_a_pod_gets_cpus_of_one_numa_node() -> None:
    engine = engine_with(node("n1", 8), topology("n1", "0,1,5-7"), asking("j", 3))
    assert run(engine) == {"j-0": ("n1", "5,6,7")}


def test_cpus_that_are_given_out_are_not_given_out_again() -> None:
    objects = [node("n1", 8), topology("n1", ALL), *asking("a", 3), *asking("b", 3)]
    engine = engine_with(*objects, *asking("c", 2))
    found = run(engine)
    assert found["a-0"][1] != found["b-0"][1]
    # Two cpus are left, one of each NUMA node.
    assert "c-0" not in found
    assert reasons(engine, "c") == {"container c0 cannot be assigned by numa": 1}
    assert run(engine, 1) == {}


def test_containers_are_placed_one_after_the_other() -> None:
    engine = engine_with(node("n1", 8), topology("n1", ALL), asking("j", 3, 3))
    [(_, cpus)] = run(engine).values()
    assert len(cpus.split(",")) == 6


@pytest.mark.parametrize(("policy", "fits"), [(SINGLE, False), (RESTRICTED, False), (BEST, True)])
def test_policies_differ_in_what_they_refuse(policy: str, fits: bool) -> None:
    engine = engine_with(
        node("n1", 8), topology("n1", "0,1,4,5", policy), asking("j", 3, policy=policy)
    )
    assert bool(run(engine)) is fits


def test_a_pod_larger_than_a_numa_node_is_preferred_on_two_where_restricted() -> None:
    engine = engine_with(
        node("n1", 8), topology("n1", ALL, RESTRICTED), asking("j", 6, policy=RESTRICTED)
    )
    assert len(run(engine)["j-0"][1].split(",")) == 6


def test_nodes_that_need_fewer_numa_nodes_are_better() -> None:
    nodes = [node("n1", 8), node("n2", 8)]
    numa = [topology("n1", "0,1,4,5", BEST), topology("n2", "4-7", BEST)]
    engine = engine_with(*nodes, *numa, asking("j", 3, policy=BEST))
    assert run(engine) == {"j-0": ("n2", "4,5,6")}


@pytest.mark.parametrize(
    ("numa", "reason"),
    [
        ([], "numa info is empty"),
        ([topology("n1", ALL, manager="none")], "cpu manager policy isn't static"),
        (
            [topology("n1", ALL, BEST)],
            f"task topology policy[{SINGLE}] is different with node[{BEST}]",
        ),
        ([topology("n1", "")], "cpu allocatable map is empty"),
        ([topology("n1", "0-")], "numa info is invalid"),
        ([topology("n1", "7-0")], "numa info is invalid"),
        ([topology("n1", "99999999999")], "numa info is invalid"),
        ([topology("n1", ALL, numas=9)], "numa info is invalid"),
    ],
)
def test_a_node_that_cannot_align_is_refused_with_its_reason(numa: list[Any], reason: str) -> None:
    engine = engine_with(node("n1", 64), *numa, asking("j", 2))
    assert run(engine) == {}
    assert reasons(engine, "j") == {reason: 1}


def test_a_pod_without_a_policy_avoids_a_kubelet_that_would_refuse_it() -> None:
    engine = engine_with(
        node("n1", 8), node("n2", 8), topology("n1", "0,1,4,5"), asking("j", 3, policy="")
    )
    assert run(engine) == {"j-0": ("n2", "")}


@pytest.mark.parametrize("cpus", [0.0, 1.5])
def test_fractions_and_nothing_are_not_pinned(cpus: float) -> None:
    engine = engine_with(node("n1", 8), topology("n1", "0"), asking("j", cpus))
    assert run(engine) == {"j-0": ("n1", "")}


def test_pods_that_are_not_guaranteed_are_not_looked_at() -> None:
    engine = engine_with(node("n1", 8), topology("n1", ""), asking("j", 3, guaranteed=False))
    assert run(engine) == {"j-0": ("n1", "")}


def test_reserved_cpus_are_left_to_the_kubelet() -> None:
    numa = topology("n1", ALL, reserved=(("cpu", 1500),))
    engine = engine_with(node("n1", 8), numa, asking("a", 4), asking("b", 3))
    assert run(engine) == {"a-0": ("n1", "4,5,6,7")}


def test_a_planned_cpu_counts_until_the_kubelet_reports_the_pod() -> None:
    engine = engine_with(node("n1", 16), topology("n1", ALL), asking("a", 4))
    assert run(engine) == {"a-0": ("n1", "0,1,2,3")}
    known = engine.cache.tasks["uid-a-0"].pod
    shown = replace(known, node_name="n1", phase=PodPhase.RUNNING, annotations={CPUS: "0,1,2,3"})
    engine.apply([Upserted(shown)])
    fill(engine, asking("b", 4))
    assert run(engine, 1) == {"b-0": ("n1", "4,5,6,7")}
    # A kubelet has chosen differently for the first, and says nothing of the second yet.
    numa = topology("n1", "0-3", pod_allocations={"uid-a-0": "4-7"})
    engine.apply([Upserted(numa)])
    fill(engine, asking("c", 1))
    assert run(engine, 2) == {}
    engine.apply([Deleted(NumaTopology, numa.uid)])
    assert run(engine, 3) == {}
    assert reasons(engine, "c") == {"numa info is empty": 1}


def test_a_new_core_knows_planned_cpus_from_annotations() -> None:
    held = asking("a", 4)
    held[1] = replace(
        held[1], node_name="n1", phase=PodPhase.RUNNING, annotations={CPUS: "0,1,2,3"}
    )
    engine = engine_with(node("n1", 8), topology("n1", ALL), held, asking("b", 4))
    assert run(engine) == {"b-0": ("n1", "4,5,6,7")}


@pytest.mark.parametrize("text", ["", "x", "0-", "-1", "3-1", "99999"])
def test_garbage_in_the_annotation_of_a_pod_takes_no_cpu(text: str) -> None:
    held = asking("a", 2)
    held[1] = replace(held[1], node_name="n1", phase=PodPhase.RUNNING, annotations={CPUS: text})
    engine = engine_with(node("n1", 8), topology("n1", ALL), held, asking("b", 4))
    assert "b-0" in run(engine)


@pytest.mark.parametrize("text", ["0", "0,1,2", "0-3,8"])
def test_cpu_lists_are_read_as_they_are_written(text: str) -> None:
    mask = read_cpus(text)
    assert mask is not None
    assert read_cpus(write_cpus(mask)) == mask


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(
        st.tuples(
            st.sets(st.integers(0, 7), min_size=1), st.sampled_from([SINGLE, RESTRICTED, BEST])
        ),
        min_size=1,
        max_size=3,
    ),
    jobs=st.lists(
        st.tuples(
            st.lists(st.integers(1, 4), min_size=1, max_size=2),
            st.sampled_from([SINGLE, RESTRICTED, BEST, ""]),
        ),
        min_size=1,
        max_size=8,
    ),
    confirmed=st.booleans(),
)
def test_no_cpu_is_given_out_twice(
    nodes: list[tuple[set[int], str]], jobs: list[tuple[list[int], str]], confirmed: bool
) -> None:
    objects: list[Any] = []
    free: dict[str, set[int]] = {}
    for number, (cpus, policy) in enumerate(nodes):
        name = f"n{number}"
        free[name] = set(cpus)
        text = ",".join(map(str, sorted(cpus)))
        objects += [node(name, len(cpus)), topology(name, text, policy)]
    engine = engine_with(*objects)
    for number, (counts, policy) in enumerate(jobs):
        fill(engine, asking(f"j{number}", *counts, policy=policy))
        for name, (where, text) in run(engine, number).items():
            given = {int(cpu) for cpu in text.split(",")}
            asked = sum(jobs[int(name[1:-2])][0])
            assert len(given) == asked
            assert given <= free[where]
            free[where] -= given
            _check_single(nodes, jobs, name, where, given)
            if confirmed:
                known = engine.cache.tasks[f"uid-{name}"].pod
                shown = replace(
                    known, node_name=where, phase=PodPhase.RUNNING, annotations={CPUS: text}
                )
                engine.apply([Upserted(shown)])


def _check_single(
    nodes: list[tuple[set[int], str]],
    jobs: list[tuple[list[int], str]],
    name: str,
    where: str,
    given: set[int],
) -> None:
    counts, _ = jobs[int(name[1:-2])]
    if nodes[int(where[1:])][1] == SINGLE and len(counts) == 1:
        assert len({cpu // 4 for cpu in given}) == 1


def test_cpus_of_a_pod_that_is_gone_are_free_again() -> None:
    engine = engine_with(node("n1", 8), topology("n1", "0-3"), asking("a", 4))
    assert run(engine) == {"a-0": ("n1", "0,1,2,3")}
    engine.apply([Deleted(Pod, "uid-a-0")])
    fill(engine, asking("b", 4))
    found: Mapping[str, tuple[str, str]] = run(engine, 1)
    assert found == {"b-0": ("n1", "0,1,2,3")}

"""deviceshare: MIG instances of cards, and the names of vGPU resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import Deleted
from pumice.core.engine import Engine
from pumice.core.model.pod import Pod, PodPhase
from tests.core.builders import NOW_NS, fill
from tests.core.plugins.card_clusters import (
    IDS,
    MIG_CONFIG,
    REGISTER,
    VGPU,
    asking,
    configured,
    engine_with,
    gang,
    mig_node,
    run,
    said,
    share,
    vgpu_node,
    waits_of,
)


def mig_engine(*objects: Any, **config: Any) -> Engine:
    nvidia = {**MIG_CONFIG["nvidia"], **config}
    return configured(engine_with(VGPU, *objects), {"nvidia": nvidia})


def pods(*memory: int, **annotations: str) -> list[Any]:
    return [
        item
        for number, amount in enumerate(memory)
        for item in gang(
            f"j{number}",
            asking(f"j{number}-0", f"j{number}", share(amount), annotations=annotations),
        )
    ]


def test_a_pod_gets_the_smallest_instance_of_the_first_geometry_that_has_one() -> None:
    engine = mig_engine(mig_node("n1"), pods(4000))
    assert said(run(engine), IDS) == {"j0-0": "n1-0[group1-0],NVIDIA,4000,0:"}


def test_a_card_keeps_its_geometry_while_an_instance_is_in_use() -> None:
    engine = mig_engine(mig_node("n1"), pods(8000, 4000, 8000, 8000, 8000))
    assert said(run(engine), IDS) == {
        "j0-0": "n1-0[group2-0],NVIDIA,8000,0:",
        "j1-0": "n1-0[group2-3],NVIDIA,4000,0:",
        "j2-0": "n1-0[group2-1],NVIDIA,8000,0:",
        "j3-0": "n1-0[group2-2],NVIDIA,8000,0:",
    }
    assert waits_of(engine, "j4") == {"hami-vgpuDeviceSharing error": 1}


def test_instances_are_known_from_annotations() -> None:
    held = replace(
        asking("x-0", "x", share(9000), annotations={IDS: "n1-0[group2-1],NVIDIA,9000,0:"}),
        node_name="n1",
        phase=PodPhase.RUNNING,
    )
    engine = mig_engine(mig_node("n1"), gang("x", held), pods(9000, 9000, 9000))
    assert said(run(engine), IDS) == {
        "j0-0": "n1-0[group2-0],NVIDIA,9000,0:",
        "j1-0": "n1-0[group2-2],NVIDIA,9000,0:",
    }


@pytest.mark.parametrize("part", ["[other-0]", "[group1-99]", "[]", "[group1]", "[-1]", "["])
def test_an_instance_of_no_known_geometry_is_not_given_out_again(part: str) -> None:
    held = replace(
        asking("x-0", "x", share(40000), annotations={IDS: f"n1-0{part},NVIDIA,40000,0:"}),
        node_name="n1",
        phase=PodPhase.RUNNING,
    )
    engine = mig_engine(mig_node("n1"), gang("x", held), pods(4000))
    assert run(engine) == {}


def test_containers_of_a_pod_get_different_instances() -> None:
    engine = mig_engine(mig_node("n1"), gang("j", asking("j-0", "j", share(4000), share(4000))))
    assert said(run(engine), IDS) == {
        "j-0": "n1-0[group1-0],NVIDIA,4000,0:;n1-0[group1-1],NVIDIA,4000,0:"
    }


def test_a_pod_that_names_no_memory_gets_the_whole_card() -> None:
    engine = mig_engine(mig_node("n1", cards=2), pods(0, 0))
    assert set(said(run(engine), IDS).values()) == {
        "n1-1[group3-0],NVIDIA,40960,0:",
        "n1-0[group3-0],NVIDIA,40960,0:",
    }


def test_requests_are_in_units_of_the_memory_factor() -> None:
    node = mig_node("n1")
    text = node.annotations[REGISTER].replace("40960", "40")
    engine = mig_engine(
        replace(node, annotations={REGISTER: text}), pods(8, 8, 4), gpuMemoryFactor=1024
    )
    assert said(run(engine), IDS) == {
        "j0-0": "n1-0[group2-0],NVIDIA,8,0:",
        "j1-0": "n1-0[group2-1],NVIDIA,8,0:",
        "j2-0": "n1-0[group2-3],NVIDIA,4,0:",
    }


@pytest.mark.parametrize("kind", ["T4", "A100"])
def test_cards_of_no_known_geometry_are_shared_by_memory(kind: str) -> None:
    engine = mig_engine(mig_node("n1", kind=kind), pods(4000))
    assert said(run(engine), IDS) == {"j0-0": "n1-0,NVIDIA,4000,0:"}


def test_without_a_configuration_cards_are_shared_by_memory() -> None:
    engine = engine_with(VGPU, mig_node("n1"), pods(4000))
    assert said(run(engine), IDS) == {"j0-0": "n1-0,NVIDIA,4000,0:"}


@pytest.mark.parametrize(("mode", "node"), [("mig", "n1"), ("hami-core", "n2")])
def test_a_pod_may_name_the_mode(mode: str, node: str) -> None:
    nodes = [mig_node("n1"), mig_node("n2", mode="hami-core")]
    engine = mig_engine(nodes, pods(4000, **{"volcano.sh/vgpu-mode": mode}))
    assert run(engine)["j0-0"].node == node


def test_a_gang_that_does_not_fit_leaves_its_instances_to_others() -> None:
    members = [asking(f"g-{i}", "g", share(40000)) for i in range(2)]
    engine = mig_engine(mig_node("n1"), gang("g", *members))
    assert run(engine) == {}
    # What the gang had counts until its session ends, as in Volcano.
    engine.apply([Deleted(Pod, member.uid) for member in members])
    fill(engine, pods(40000))
    assert set(said(run(engine, 1), IDS).values()) == {"n1-0[group3-0],NVIDIA,40000,0:"}


# Names of resources.


def test_resources_have_the_names_of_the_configuration() -> None:
    names = {
        "resourceCountName": "example.com/gpu",
        "resourceMemoryName": "example.com/gpu-memory",
        "resourceCoreName": "example.com/gpu-cores",
        "resourceMemoryPercentageName": "example.com/gpu-percent",
    }
    node = vgpu_node("n1", "8000")
    more = tuple((name, 1_000_000) for name in names.values())
    node = replace(node, allocatable=node.allocatable + more, capacity=node.capacity + more)

    def ask(name: str, **amounts: int) -> list[Pod]:
        limits = {f"example.com/gpu-{key}": value for key, value in amounts.items()}
        return gang(name, asking(f"{name}-0", name, {"example.com/gpu": 1, **limits}))

    jobs = [*ask("a", memory=1000, cores=10), *ask("b", percent=50), *ask("c", percent=50)]
    engine = configured(engine_with(VGPU, node, jobs), {"nvidia": names})
    assert said(run(engine), IDS) == {"a-0": "n1-0,NVIDIA,1000,10:", "b-0": "n1-0,NVIDIA,4000,0:"}


def test_a_percentage_has_no_name_unless_it_is_configured() -> None:
    asked = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50}
    node = vgpu_node("n1", "8000")
    more = (("volcano.sh/vgpu-memory-percentage", 1_000_000),)
    node = replace(node, allocatable=node.allocatable + more)
    engine = engine_with(VGPU, node, gang("a", asking("a-0", "a", asked)))
    assert said(run(engine), IDS) == {"a-0": "n1-0,NVIDIA,8000,0:"}
    assert engine.schedule(NOW_NS).faults == ()

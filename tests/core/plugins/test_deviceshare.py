"""deviceshare: which cards pods get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.errors import ConfigurationError
from pumice.core.model.pod import ContainerResources, Pod
from tests.core.builders import NOW_NS, fill
from tests.core.plugins.card_clusters import (
    BINPACK,
    BY_NUMBER,
    HAMI,
    IDS,
    INDEX,
    MEMORY,
    NUMBER,
    SECOND_NS,
    SHARING,
    VGPU,
    asking,
    engine_with,
    gang,
    gpu_node,
    run,
    said,
    share,
    vgpu_node,
    waits_of,
)

# GPU sharing.


def test_a_pod_gets_the_first_card_with_enough_memory() -> None:
    pods = [asking(f"j-{i}", "j", {"volcano.sh/gpu-memory": 600}) for i in range(3)]
    engine = engine_with(SHARING, gpu_node("n1", 3, 3000), gang("j", *pods))
    assert said(run(engine), INDEX) == {"j-0": "0", "j-1": "1", "j-2": "2"}


def test_memory_of_a_card_is_not_given_out_twice() -> None:
    pods = [asking(f"j-{i}", "j", {"volcano.sh/gpu-memory": 600}) for i in range(3)]
    engine = engine_with(SHARING, gpu_node("n1", 2, 2000), gang("j", *pods, minimum=1))
    assert said(run(engine), INDEX) == {"j-0": "0", "j-1": "1"}
    assert run(engine, 1) == {}


def test_the_reason_is_told_when_cards_are_exhausted() -> None:
    pods = [asking(f"j-{i}", "j", {"volcano.sh/gpu-memory": 600}) for i in range(3)]
    engine = engine_with(SHARING, gpu_node("n1", 2, 2000), gang("j", *pods))
    assert run(engine) == {}
    assert waits_of(engine, "j") == {"GpuShare no enough gpu memory on node": 1}


def test_whole_cards_are_given_out_by_number() -> None:
    two, one = {"volcano.sh/gpu-number": 2}, {"volcano.sh/gpu-number": 1}
    jobs = [*gang("a", asking("a-0", "a", two)), *gang("b", asking("b-0", "b", one))]
    engine = engine_with(BY_NUMBER, gpu_node("n1", 4, 4000), jobs)
    assert said(run(engine), INDEX) == {"a-0": "0,1", "b-0": "2"}


def test_unhealthy_cards_are_left_out() -> None:
    broken = {"volcano.sh/gpu-unhealthy-ids": "0,x,2"}
    node = replace(gpu_node("n1", 3, 3000), annotations=broken)
    pods = [asking(f"j-{i}", "j", {"volcano.sh/gpu-number": 1}) for i in range(2)]
    engine = engine_with(BY_NUMBER, node, gang("j", *pods, minimum=1))
    assert said(run(engine), INDEX) == {"j-0": "1"}


def test_an_init_container_that_asks_for_more_counts() -> None:
    big = asking("a-0", "a", {"volcano.sh/gpu-memory": 100})
    init = ContainerResources(init=True, limits=(("volcano.sh/gpu-memory", 900_000),))
    spec = replace(big.spec, containers=(*big.spec.containers, init))
    jobs = [*gang("a", replace(big, spec=spec))]
    jobs += gang("b", asking("b-0", "b", {"volcano.sh/gpu-memory": 200}))
    engine = engine_with(SHARING, gpu_node("n1", 1, 1000), jobs)
    assert said(run(engine), INDEX) == {"a-0": "0"}


def test_what_runs_is_known_from_annotations_alone() -> None:
    """A core that starts anew gives out what the old one would have."""
    held = asking("h", "h", {"volcano.sh/gpu-memory": 800}, on="n1", annotations={INDEX: "0"})
    pods = [asking(f"j-{i}", "j", {"volcano.sh/gpu-memory": 300}) for i in range(2)]
    engine = engine_with(
        SHARING, gpu_node("n1", 2, 2000), gang("h", held), gang("j", *pods, minimum=1)
    )
    assert said(run(engine), INDEX) == {"j-0": "1", "j-1": "1"}


@pytest.mark.parametrize("text", ["", "x", "0,y", "-1", "99999999999999999999999", "7", "١"])
def test_garbage_in_the_annotation_of_a_pod_charges_no_card(text: str) -> None:
    held = asking("h", "h", {"volcano.sh/gpu-memory": 800}, on="n1", annotations={INDEX: text})
    new = asking("j-0", "j", {"volcano.sh/gpu-memory": 900})
    engine = engine_with(SHARING, gpu_node("n1", 2, 2000), gang("h", held), gang("j", new))
    assert said(run(engine), INDEX) == {"j-0": "0"}


# vGPU.


def test_a_vgpu_bind_has_all_annotations_of_the_device_plugin() -> None:
    new = asking("j-0", "j", share(1000, 2, 30))
    engine = engine_with(VGPU, vgpu_node("n1", "8000", "8000"), gang("j", new))
    ids = "n1-1,NVIDIA,1000,30:n1-0,NVIDIA,1000,30:"
    seconds = str(NOW_NS // SECOND_NS)
    assert dict(run(engine)["j-0"].annotations) == {
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": seconds,
        IDS: ids,
        "volcano.sh/devices-to-allocate": ids,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": seconds,
    }


@pytest.mark.parametrize(
    ("policy", "cards"),
    [("", ["n1-2", "n1-2"]), ("binpack", ["n1-0", "n1-0"]), ("spread", ["n1-0", "n1-1"])],
)
def test_the_policy_says_which_cards_come_first(policy: str, cards: list[str]) -> None:
    arguments = {**VGPU, "deviceshare.SchedulePolicy": policy}
    pods = [asking(f"j-{i}", "j", share(1000)) for i in range(2)]
    engine = engine_with(arguments, vgpu_node("n1", "8000", "8000", "8000"), gang("j", *pods))
    ids = said(run(engine), IDS)
    assert [ids[f"j-{i}"].partition(",")[0] for i in range(2)] == cards


def test_binpack_prefers_the_fuller_card_of_the_cluster() -> None:
    held = asking("h", "h", share(4000), on="n2", annotations={IDS: "n2-0,NVIDIA,4000,0:"})
    nodes = [vgpu_node(name, "8000") for name in ("n1", "n2", "n3")]
    engine = engine_with(
        BINPACK, nodes, gang("h", held), gang("j", asking("j-0", "j", share(2000)))
    )
    assert run(engine)["j-0"].node == "n2"


def test_without_memory_a_pod_gets_the_whole_card() -> None:
    pods = [asking(f"j-{i}", "j", {NUMBER: 1}) for i in range(2)]
    engine = engine_with(VGPU, vgpu_node("n1", "8000"), gang("j", *pods, minimum=1))
    assert said(run(engine), IDS) == {"j-0": "n1-0,NVIDIA,8000,0:"}


def test_a_container_that_asks_for_no_card_gets_none() -> None:
    new = asking("j-0", "j", {NUMBER: 0})
    engine = engine_with(VGPU, vgpu_node("n1", "8000"), gang("j", new))
    assert run(engine)["j-0"].annotations == ()


def test_a_fraction_of_a_unit_counts_as_nothing() -> None:
    base = asking("j-0", "j", share(1000))
    odd = ContainerResources(limits=((MEMORY, 1_500), (NUMBER, 1_000)))
    new = replace(base, spec=replace(base.spec, containers=(odd,)))
    engine = engine_with(VGPU, vgpu_node("n1", "8000"), gang("j", new))
    assert said(run(engine), IDS) == {"j-0": "n1-0,NVIDIA,8000,0:"}


def test_cores_of_a_hundred_need_a_card_alone() -> None:
    jobs = [*gang("a", asking("a-0", "a", share(100, cores=10)))]
    jobs += gang("b", asking("b-0", "b", share(100, cores=100)))
    jobs += gang("c", asking("c-0", "c", share(100)))
    engine = engine_with(VGPU, vgpu_node("n1", "8000", "8000"), jobs)
    cards = {name: ids.partition(",")[0] for name, ids in said(run(engine), IDS).items()}
    # Nobody joins the card whose cores are all in use.
    assert cards == {"a-0": "n1-1", "b-0": "n1-0", "c-0": "n1-1"}


@pytest.mark.parametrize(
    ("annotations", "card"),
    [
        ({"nvidia.com/use-gputype": "t4"}, "n1-1"),
        ({"nvidia.com/nouse-gputype": "V100,t4"}, "n1-0"),
        ({"volcano.sh/vgpu-use-gpuuuid": " n1-0 ,"}, "n1-0"),
        ({"volcano.sh/vgpu-nouse-gpuuuid": "n1-2"}, "n1-1"),
        ({"nvidia.com/use-gputype": "H100"}, None),
        ({"volcano.sh/vgpu-mode": "mig"}, None),
        ({"volcano.sh/vgpu-mode": "hami-core"}, "n1-2"),
    ],
)
def test_annotations_of_a_pod_choose_among_cards(
    annotations: dict[str, str], card: str | None
) -> None:
    new = asking("j-0", "j", share(1000), annotations=annotations)
    nodes = vgpu_node("n1", "8000/A100", "8000/T4", "8000/V100")
    engine = engine_with(VGPU, nodes, gang("j", new))
    ids = said(run(engine), IDS)
    assert [text.partition(",")[0] for text in ids.values()] == ([card] if card else [])


def test_pods_of_a_group_that_spreads_share_no_card() -> None:
    annotations = {
        "volcano.sh/vgpu-podgroup-policy": "spread",
        "scheduling.k8s.io/group-name": "j",
    }
    pods = [asking(f"j-{i}", "j", share(1000), annotations=annotations) for i in range(3)]
    engine = engine_with(VGPU, vgpu_node("n1", "8000", "8000"), gang("j", *pods, minimum=2))
    ids = said(run(engine), IDS)
    assert sorted(text.partition(",")[0] for text in ids.values()) == ["n1-0", "n1-1"]
    assert run(engine, 1) == {}


def test_pods_of_an_exclusive_rule_share_no_card() -> None:
    arguments = {**VGPU, "deviceshare.GPUExclusiveRules": [{"team": "a"}, {"team": "b"}]}
    jobs = []
    for name, team in (("a", "a"), ("b", "b"), ("c", "a")):
        jobs += gang(name, asking(f"{name}-0", name, share(1000), labels={"team": team}))
    engine = engine_with(arguments, vgpu_node("n1", "8000"), jobs)
    assert sorted(run(engine)) == ["a-0", "b-0"]
    assert waits_of(engine, "c") == {"hami-vgpuDeviceSharing error": 1}


@pytest.mark.parametrize(
    "register",
    [
        "",
        "garbage",
        "n1-0,10,8000:",
        "n1-0,10,8000,NVIDIA,true:",
        "n1-0,ten,lots,NVIDIA,true,hami-core:",
        "n1-0,10,8000,NVIDIA,true,hami-core:n1-0,10,8000,NVIDIA,true,hami-core:",
    ],
)
def test_a_node_whose_cards_cannot_be_read_gets_no_pod_that_wants_one(register: str) -> None:
    new = asking("j-0", "j", share(1000))
    engine = engine_with(VGPU, vgpu_node("n1", "8000", register=register), gang("j", new))
    assert run(engine) == {}
    assert waits_of(engine, "j") == {"hami-vgpuDeviceSharing error": 1}


def test_more_fields_of_a_newer_device_plugin_are_read_over() -> None:
    register = "n1-0,10,8000,NVIDIA-A100,true,hami-core,numa0,x:"
    new = asking("j-0", "j", share(1000))
    engine = engine_with(VGPU, vgpu_node("n1", "8000", register=register), gang("j", new))
    assert said(run(engine), IDS) == {"j-0": "n1-0,NVIDIA,1000,0:"}


def test_a_card_that_goes_while_pods_run_takes_their_use_with_it() -> None:
    held = asking("h", "h", share(6000), on="n1", annotations={IDS: "n1-1,NVIDIA,6000,0:"})
    engine = engine_with(VGPU, vgpu_node("n1", "8000", "8000"), gang("h", held))
    assert run(engine) == {}
    engine.apply([Upserted(vgpu_node("n1", "8000"))])
    fill(engine, gang("j", asking("j-0", "j", share(1500))))
    assert said(run(engine, 1), IDS) == {"j-0": "n1-0,NVIDIA,1500,0:"}
    # It comes back, and its pod still uses it.
    engine.apply([Upserted(vgpu_node("n1", "8000", "8000"))])
    fill(engine, gang("k", asking("k-0", "k", share(6600))))
    assert run(engine, 2) == {}


def test_a_pod_that_is_being_deleted_keeps_its_card_until_it_is_gone() -> None:
    held = asking("h", "h", share(6000), on="n1", annotations={IDS: "n1-0,NVIDIA,6000,0:"})
    leaving = replace(held, terminating=True)
    new = asking("j-0", "j", share(5000))
    node = vgpu_node("n1", "8000", "4000")
    engine = engine_with(VGPU, node, gang("h", leaving), gang("j", new))
    # The node's memory would do; no card has 5000 free yet.
    assert run(engine) == {}
    engine.apply([Deleted(Pod, leaving.uid)])
    assert said(run(engine, 1), IDS) == {"j-0": "n1-0,NVIDIA,5000,0:"}


@pytest.mark.parametrize("arguments", [VGPU, {**VGPU, **HAMI}])
def test_a_gang_that_does_not_fit_keeps_its_shares_till_the_session_ends(
    arguments: dict[str, Any],
) -> None:
    """As in Volcano; the next session knows nothing of it."""
    big = [asking(f"big-{i}", "big", share(3000)) for i in range(4)]
    small = gang("small", asking("small-0", "small", share(3000)))
    engine = engine_with(arguments, vgpu_node("n1", "8000"), gang("big", *big), small)
    assert run(engine) == {}
    engine.apply([Deleted(Pod, p.uid) for p in big])
    assert sorted(run(engine, 1)) == ["small-0"]


def test_a_bind_that_failed_gives_its_card_back() -> None:
    first = gang("a", asking("a-0", "a", share(6000)))
    engine = engine_with(VGPU, vgpu_node("n1", "8000"), first)
    [bind] = run(engine).values()
    fill(engine, gang("b", asking("b-0", "b", share(6000))))
    assert run(engine, 1) == {}
    engine.apply([OutcomeReported(bind.id, OutcomeCode.FAILED)], NOW_NS)
    assert len(run(engine, 2)) == 1


def test_an_unconfirmed_bind_survives_a_checkpoint() -> None:
    engine = engine_with(VGPU, vgpu_node("n1", "8000"), gang("a", asking("a-0", "a", share(6000))))
    run(engine)
    other = engine_with(VGPU)
    other.restore(engine.checkpoint())
    fill(other, gang("b", asking("b-0", "b", share(6000))))
    assert run(other, 1) == {}


# Configurations.


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({**SHARING, **BY_NUMBER}, "only one of"),
        ({**SHARING, **VGPU}, "only one of"),
        ({"deviceshare.SchedulePolicy": "pack"}, "must be one of"),
        ({"deviceshare.GPUExclusiveRules": [{"a": 1}]}, r"\[0\].a: must be a text"),
        ({"deviceshare.GPUExclusiveRules": [{}]}, "mapping of labels"),
        ({"deviceshare.GPUExclusiveRules": ["a"]}, "must be a mapping"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        engine_with(arguments)


def test_without_a_device_switched_on_the_plugin_does_nothing() -> None:
    engine = engine_with({}, vgpu_node("n1", "8000"), gang("j", asking("j-0", "j", share(9000))))
    assert run(engine) == {}
    fill(engine, gang("k", asking("k-0", "k", share(1000))))
    assert run(engine, 1)["k-0"].annotations == ()

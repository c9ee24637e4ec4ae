"""deviceshare gives out no card twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.decisions import Bind, Decision
from pumice.core.deltas import Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from tests.core.builders import NOW_NS, fill
from tests.core.plugins.card_clusters import (
    HAMI,
    IDS,
    MIG_CONFIG,
    REGISTER,
    SECOND_NS,
    VGPU,
    asking,
    configured,
    engine_with,
    gang,
    mig_node,
    npu,
    npu_node,
    share,
    vgpu_node,
)

CARD = st.tuples(st.sampled_from(["4000", "8000"]), st.sampled_from(["A100", "T4"]))
REQUEST = st.tuples(
    st.sampled_from([500, 1500, 3000, 4000, 0]),
    st.integers(1, 2),
    st.sampled_from([0, 20, 50, 100]),
    st.sampled_from([{}, {}, {"nvidia.com/use-gputype": "T4"}]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(st.lists(CARD, min_size=1, max_size=3), min_size=1, max_size=3),
    jobs=st.lists(st.tuples(REQUEST, st.integers(1, 3), st.booleans()), min_size=1, max_size=6),
    policy=st.sampled_from(["", "binpack", "spread"]),
    ends=st.lists(st.integers(0, 10), max_size=4),
)
def test_no_card_is_overcommitted(
    nodes: list[list[tuple[str, str]]],
    jobs: list[tuple[tuple[int, int, int, dict[str, str]], int, bool]],
    policy: str,
    ends: list[int],
) -> None:
    made = [
        vgpu_node(f"n{i}", *(f"{memory}/{kind}" for memory, kind in cards))
        for i, cards in enumerate(nodes)
    ]
    engine = engine_with({**VGPU, "deviceshare.SchedulePolicy": policy}, made)
    running: dict[str, Pod] = {}
    for number, ((memory, count, cores, wishes), size, whole) in enumerate(jobs):
        pods = [
            asking(f"j{number}-{i}", f"j{number}", share(memory, count, cores), annotations=wishes)
            for i in range(size)
        ]
        fill(engine, gang(f"j{number}", *pods, minimum=size if whole else 1))
        decisions = engine.schedule(NOW_NS + number * SECOND_NS).decisions
        running |= _started(engine, decisions)
        _check_cards(made, running)
        if ends and running:
            name = sorted(running)[ends[number % len(ends)] % len(running)]
            engine.apply([Deleted(Pod, running.pop(name).uid)])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    jobs=st.lists(
        st.tuples(st.sampled_from([0, 4000, 9000, 20000]), st.integers(1, 2), st.integers(1, 3)),
        min_size=1,
        max_size=6,
    ),
    ends=st.lists(st.integers(0, 10), max_size=4),
)
def test_no_instance_is_given_out_twice(
    nodes: list[int], jobs: list[tuple[int, int, int]], ends: list[int]
) -> None:
    made = [mig_node(f"n{i}", cards) for i, cards in enumerate(nodes)]
    engine = configured(engine_with(VGPU, made), MIG_CONFIG)
    running: dict[str, Pod] = {}
    for number, (memory, count, size) in enumerate(jobs):
        asked = [share(memory, count), share(memory)]
        pods = [asking(f"j{number}-{i}", f"j{number}", *asked[: 1 + i % 2]) for i in range(size)]
        fill(engine, gang(f"j{number}", *pods, minimum=1))
        running |= _started(engine, engine.schedule(NOW_NS + number * SECOND_NS).decisions)
        _check_instances(running)
        if ends and running:
            name = sorted(running)[ends[number % len(ends)] % len(running)]
            engine.apply([Deleted(Pod, running.pop(name).uid)])


def _check_instances(running: Mapping[str, Pod]) -> None:
    used: dict[str, set[tuple[str, int]]] = {}
    sizes = {"group1": [5120] * 7, "group2": [10240] * 3 + [5120], "group3": [40960]}
    for shown in running.values():
        for part in shown.annotations[IDS].replace(";", ":").split(":"):
            if part:
                name, _, memory, _ = part.split(",")
                card, _, place = name.rstrip("]").partition("[")
                group, _, position = place.partition("-")
                assert int(memory) <= sizes[group][int(position)]
                on_card = used.setdefault(card, set())
                assert (group, int(position)) not in on_card
                on_card.add((group, int(position)))
                assert len({known for known, _ in on_card}) == 1


NPU_REQUEST = st.tuples(
    st.sampled_from([0, 100, 3000, 6144, 9000, 21527, 24576, 30000]),
    st.integers(0, 3),
    st.sampled_from([0, 1, 8, 50, 100]),
    st.booleans(),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=3),
    jobs=st.lists(
        st.tuples(st.lists(NPU_REQUEST, min_size=1, max_size=2), st.integers(1, 3), st.booleans()),
        min_size=1,
        max_size=6,
    ),
    policy=st.sampled_from(["", "binpack", "spread"]),
    also=st.booleans(),
    ends=st.lists(st.integers(0, 10), max_size=4),
)
def test_no_npu_is_overcommitted(
    nodes: list[tuple[int, bool]],
    jobs: list[tuple[list[tuple[int, int, int, bool]], int, bool]],
    policy: str,
    also: bool,
    ends: list[int],
) -> None:
    shares = {True: {"hami-vnpu-core": "true"}, False: {}}
    made = [
        npu_node(f"n{i}", *[(21527,)] * cards, count=4, annotations=shares[by_cores])
        for i, (cards, by_cores) in enumerate(nodes)
    ]
    arguments = {**HAMI, "deviceshare.SchedulePolicy": policy, "deviceshare.VGPUEnable": also}
    engine = engine_with(arguments, made)
    running: dict[str, Pod] = {}
    for number, (containers, size, whole) in enumerate(jobs):
        asked = [npu(memory, count, cores) for memory, count, cores, _ in containers]
        mode = {"huawei.com/vnpu-mode": "hami-core"} if containers[0][3] else {}
        pods = [
            asking(f"j{number}-{i}", f"j{number}", *asked, annotations=mode) for i in range(size)
        ]
        fill(engine, gang(f"j{number}", *pods, minimum=size if whole else 1))
        running |= _started(engine, engine.schedule(NOW_NS + number * SECOND_NS).decisions)
        _check_npus(running)
        if ends and running:
            name = sorted(running)[ends[number % len(ends)] % len(running)]
            engine.apply([Deleted(Pod, running.pop(name).uid)])


def _check_npus(running: Mapping[str, Pod]) -> None:
    memory: dict[str, int] = {}
    pods: dict[str, list[int]] = {}
    for shown in running.values():
        parts = shown.annotations.get("hami.io/Ascend310P-devices-allocated", "")
        for part in filter(None, parts.replace(";", ":").split(":")):
            card, _, used, cores = part.split(",")
            assert card.startswith(f"{shown.node_name}-")
            memory[card] = memory.get(card, 0) + int(used)
            pods.setdefault(card, []).append(int(cores))
    for card, shares in pods.items():
        assert memory[card] <= 21527
        assert len(shares) <= 4
        assert sum(shares) <= 100


def _started(engine: Engine, decisions: tuple[Decision, ...]) -> dict[str, Pod]:
    """The bound pods as the cluster shows them then; every other one is not confirmed yet."""
    found = {}
    for number, bind in enumerate(decisions):
        assert isinstance(bind, Bind)
        known = engine.cache.tasks[bind.uid].pod
        shown = replace(
            known,
            node_name=bind.node,
            phase=PodPhase.RUNNING,
            annotations={**known.annotations, **dict(bind.annotations)},
        )
        found[bind.name] = shown
        if number % 2 == 0:
            engine.apply([Upserted(shown)])
    return found


def _check_cards(nodes: list[Node], running: Mapping[str, Pod]) -> None:
    memory: dict[str, int] = {}
    cores: dict[str, int] = {}
    pods: dict[str, int] = {}
    alone: set[str] = set()
    for shown in running.values():
        for part in shown.annotations[IDS].replace(";", ":").split(":"):
            if part:
                card, _, used, share_of_cores = part.split(",")
                assert card.startswith(f"{shown.node_name}-")
                memory[card] = memory.get(card, 0) + int(used)
                cores[card] = cores.get(card, 0) + int(share_of_cores)
                pods[card] = pods.get(card, 0) + 1
                if share_of_cores == "100":
                    alone.add(card)
    for node in nodes:
        for text in node.annotations[REGISTER].split(":")[:-1]:
            name, most, size, *_ = text.split(",")
            assert memory.get(name, 0) <= int(size)
            assert cores.get(name, 0) <= 100
            assert pods.get(name, 0) <= int(most)
            assert name not in alone or pods[name] == 1

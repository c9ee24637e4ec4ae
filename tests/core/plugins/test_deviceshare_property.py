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
    IDS,
    REGISTER,
    SECOND_NS,
    VGPU,
    asking,
    engine_with,
    gang,
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

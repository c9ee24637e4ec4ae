"""Tasks that are placed together go where they would go one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.core import kernel
from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.decisions import SessionResult
from pumice.core.deltas import Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import (
    PodGroup,
    PodGroupPhase,
    PodGroupStatus,
    Queue,
    QueueState,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase, PodSpec
from pumice.core.session.hooks import Chains
from pumice.core.session.placing import placement
from pumice.core.session.placing.statement import Moves

NOW_NS = 10**18
GI = 2**30

SPREADING = ("overcommit", "drf", "predicates", "proportion", "nodeorder")
# Without gang a job is ready after every task.
LOOSE = ("drf", "predicates", "proportion", "nodeorder")
PACKING = ("overcommit", "drf", "predicates", "capacity", "nodeorder", "binpack")


@dataclass(frozen=True)
class Shape:
    """A cluster in numbers."""

    nodes: list[tuple[int, int]]
    # Size, minimum, cpu, memory and queue of every job.
    jobs: list[tuple[int, int, int, int, int]]
    # Node and cpu of pods that run already.
    running: list[tuple[int, int]]


SHAPES = st.builds(
    Shape,
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 32)), min_size=1, max_size=9),
    st.lists(
        st.tuples(
            st.integers(1, 12),
            st.integers(1, 12),
            st.integers(1, 5),
            st.integers(1, 5),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4)), max_size=6),
)


def spec(cpu: int, memory: int) -> PodSpec:
    return PodSpec(
        requests=(("cpu", cpu * 500), ("memory", memory * GI), ("pods", 1)),
        non_zero_milli_cpu=cpu * 500,
        non_zero_memory_bytes=memory * GI,
        scheduler_name="volcano",
    )


def engine_of(shape: Shape, plugins: tuple[str, ...]) -> Engine:
    strict = () if plugins is LOOSE else ("gang",)
    first = tuple(PluginOptions(name) for name in ("priority", *strict, "conformance"))
    second = tuple(PluginOptions(name, arguments=Arguments()) for name in plugins)
    engine = Engine(Configuration(("enqueue", "allocate", "backfill"), (first, second)))
    things: list[Node | Pod | PodGroup | Queue] = [
        Queue(f"q{i}", f"q{i}", weight=1 + i, state=QueueState.OPEN) for i in range(2)
    ]
    for i, (cpu, memory) in enumerate(shape.nodes):
        offered = (("cpu", cpu * 1000), ("memory", memory * GI), ("pods", 12))
        things.append(Node(f"n{i}", f"n{i}", allocatable=offered))
    for i, (node, cpu) in enumerate(shape.running):
        things.append(
            Pod(
                f"r{i}",
                "ns",
                f"running-{i}",
                spec=spec(cpu, 1),
                phase=PodPhase.RUNNING,
                node_name=f"n{node % len(shape.nodes)}",
            )
        )
    status = PodGroupStatus(PodGroupPhase.INQUEUE)
    for i, (size, least, cpu, memory, queue) in enumerate(shape.jobs):
        name, minimum = f"j{i}", min(size, least)
        things.append(
            PodGroup(name, "ns", name, queue=f"q{queue}", min_member=minimum, status=status)
        )
        things += [
            Pod(f"{name}-{k}", "ns", f"{name}-t-{k}", spec=spec(cpu, memory), group_name=name)
            for k in range(size)
        ]
    assert not engine.apply(Upserted(thing) for thing in things)
    return engine


@contextmanager
def one_by_one() -> Iterator[None]:
    """Nothing is placed in one go or has a key: every task is looked at by itself, over all nodes."""
    with (
        patch.object(placement.Placement, "_place_alike", return_value=False),
        patch.object(placement.Placement, "place_at_once", return_value=None),
        patch.object(Chains, "all_of", return_value=None),
    ):
        yield


@contextmanager
def from_batches() -> Iterator[None]:
    """Tasks are taken from batches, but placed one at a time."""
    with patch.object(Moves, "can_place_many", new=False):
        yield


@contextmanager
def by_numpy() -> Iterator[None]:
    """The kernel is not there."""
    with patch.object(kernel, "rows", None):
        yield


def told(result: SessionResult) -> list[object]:
    return [result.decisions, result.statuses, result.events, result.waits]


@pytest.mark.parametrize(
    "plugins", [SPREADING, PACKING, LOOSE], ids=["spreading", "packing", "loose"]
)
@pytest.mark.parametrize("slowly", [one_by_one, from_batches, by_numpy])
@given(shape=SHAPES)
def test_together_as_one_by_one(
    plugins: tuple[str, ...], slowly: type[object], shape: Shape
) -> None:
    fast, slow = engine_of(shape, plugins), engine_of(shape, plugins)
    quick = fast.schedule(NOW_NS)
    with slowly():  # type: ignore[attr-defined]
        careful = slow.schedule(NOW_NS)
    assert told(quick) == told(careful)
    assert (fast.cache.table.amounts == slow.cache.table.amounts).all()
    assert told(fast.schedule(NOW_NS + 1)) == told(slow.schedule(NOW_NS + 1))


def test_a_gang_is_placed_in_one_go() -> None:
    shape = Shape([(16, 32)] * 8, [(12, 12, 1, 1, 0)], [])
    engine = engine_of(shape, SPREADING)
    with patch.object(placement.Placement, "_place_one", side_effect=AssertionError):
        assert len(engine.schedule(NOW_NS).decisions) == 12

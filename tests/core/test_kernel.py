"""The compiled kernel gives what NumPy gives, bit for bit, and refuses arrays that do not match."""

from __future__ import annotations

import random
import weakref
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.core import kernel
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.engine import Engine
from pumice.core.model.node import Node
from pumice.core.model.pod import PodSpec
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.session import Session
from tests.core.builders import GIB, NOW_NS, fill, job, queue

pytestmark = pytest.mark.skipif(
    kernel.rows is None, reason="the kernel is not compiled here: no C compiler"
)

ARRAYS = ("fits_idle", "fits_future", "open", "order", "batch", "total")
PACKING = {"binpack.weight": 3, "binpack.cpu": 5, "binpack.memory": 2}

WEIGHTS = {"leastrequested.weight": 2, "mostrequested.weight": 3, "balancedresource.weight": 0}
GPU = "nvidia.com/gpu"

# A node that has just registered offers nothing, and some are huge.
CPU = st.one_of(st.just(0), st.integers(1, 64_000), st.just(2**50))
AMOUNTS = st.tuples(CPU, st.one_of(st.just(0), st.integers(1, 2**40)), st.integers(0, 8))
# What a node offers, how much of it is taken in 256ths, and how many pods it takes.
NODES = st.lists(
    st.tuples(AMOUNTS, st.integers(0, 280), st.integers(0, 280), st.integers(0, 4)),
    min_size=1,
    max_size=150,
)


def many(seed: int) -> list[Any]:
    """Enough nodes that the kernel judges neighbours together; some offer nothing of a resource."""
    chance = random.Random(seed)
    return [
        (
            (
                chance.choice((0, *[chance.randint(1, 64_000)] * 15)),
                chance.choice((0, *[chance.randint(1, 2**40)] * 15)),
                chance.choice((0, chance.randint(1, 8))),
            ),
            chance.randint(0, 280),
            chance.randint(0, 280),
            chance.randint(0, 4),
        )
        for _ in range(chance.randint(16, 100))
    ]


ASKED = st.tuples(st.integers(0, 9_000), st.integers(0, 2**36), st.integers(0, 2))


def engine_of(nodes: list[Any], arguments: dict[str, Any]) -> Engine:
    names = ("predicates", "nodeorder", *(("binpack",) if arguments is PACKING else ()))
    with_arguments = "nodeorder" if arguments is WEIGHTS else "binpack"
    plugins = tuple(
        PluginOptions(name, arguments=Arguments(arguments if name == with_arguments else {}))
        for name in names
    )
    engine = Engine(Configuration(("allocate",), (plugins,)))
    for number, ((cpu, memory, cards), _, _, pods) in enumerate(nodes):
        offered = (("cpu", cpu), ("memory", memory), ("pods", pods), (GPU, 1000 * cards))
        usable = tuple((name, amount) for name, amount in offered if amount)
        fill(engine, Node(f"n{number}", f"n{number:03}", allocatable=usable))
    fill(engine, queue())
    return engine


def use_up(table: NodeTable, nodes: list[Any]) -> None:
    column_of_cards = table.column_of(GPU)
    for row, ((cpu, memory, cards), idle_part, kube_part, _) in enumerate(nodes):
        columns = [(0, cpu), (1, memory)]
        if column_of_cards is not None:
            columns.append((column_of_cards, 1000 * cards))
        for column, amount in columns:
            taken, counted = amount * idle_part // 256, amount * kube_part // 256
            table.idle[column, row] -= taken
            table.used[column, row] += taken
            table.future[column, row] -= taken // 2
            table.kube_requested[column, row] += counted
            if column < 2:
                table.kube_non_zero[column, row] += counted + counted // 3
        table.kube_pods[row] = row % 3


def view_of(session: Session, class_: TaskClass) -> ClassView:
    view = ClassView(class_, (), session)
    view.sync()
    return view


def class_of(asked: tuple[int, int, int]) -> TaskClass:
    cards = ((GPU, 1000 * asked[2]),) if asked[2] else ()
    amounts = (("cpu", asked[0]), ("memory", asked[1]), ("pods", 1), *cards)
    spec = PodSpec(
        amounts,
        non_zero_milli_cpu=asked[0] or 100,
        non_zero_memory_bytes=asked[1] or 200 * 2**20,
    )
    return TaskClass(1, spec, amounts)


@pytest.mark.parametrize(
    "arguments", [{}, PACKING, WEIGHTS], ids=["spreading", "packing", "weights"]
)
@given(nodes=NODES | st.integers(0, 2**32).map(many), asked=ASKED, count=st.integers(1, 40))
def test_the_kernel_and_numpy_agree_bit_for_bit(
    arguments: dict[str, Any], nodes: list[Any], asked: tuple[int, int, int], count: int
) -> None:
    def compare(session: Session) -> None:
        use_up(session.table, nodes)
        class_ = class_of(asked)
        fast = view_of(session, class_)
        with patch.object(kernel, "rows", None):
            slow = view_of(session, class_)
            by_numpy = slow.by_numpy.best_rows(None, count)
        for name in ARRAYS:
            assert getattr(fast, name).tobytes() == getattr(slow, name).tobytes(), name
        assert fast.best_rows(None, count) == by_numpy
        within = np.arange(len(nodes)) % 2 == 0
        with patch.object(kernel, "rows", None):
            by_numpy = slow.by_numpy.best_rows(within, count)
        assert fast.best_rows(within, count) == by_numpy

    engine_of(nodes, arguments).inspect(compare, NOW_NS)


def test_the_usual_class_is_left_to_the_kernel() -> None:
    """Or else the test above would compare NumPy with itself."""
    nodes = [((4000, 2**34, 8), 0, 0, 9), ((0, 0, 0), 0, 0, 0)]
    for arguments, cards in ((PACKING, 0), ({}, 1), (WEIGHTS, 0)):
        asked = class_of((100, GIB, cards))

        def is_served(session: Session, class_: TaskClass = asked) -> bool:
            return view_of(session, class_).uses_kernel

        assert engine_of(nodes, arguments).inspect(is_served, NOW_NS)


@given(rows=st.lists(st.integers(0, 6), max_size=20))
def test_rows_are_weighed_as_often_as_they_are_named(rows: list[int]) -> None:
    assert kernel.rows is not None
    amounts, stamps = np.arange(21.0).reshape(3, 7), np.zeros(7, dtype=np.int64)
    wanted, weight = amounts.copy(), np.array([1.0, -2.0, 0.5])
    kernel.rows.weigh(amounts, stamps, rows, weight, 9)
    for row in rows:
        wanted[:, row] += weight
    assert (amounts == wanted).all()
    assert np.flatnonzero(stamps == 9).tolist() == sorted(set(rows))


@pytest.mark.parametrize("rows", [[7], [-1], [0, 2**40]])
def test_nothing_is_weighed_when_a_row_is_not_there(rows: list[int]) -> None:
    assert kernel.rows is not None
    amounts, stamps = np.zeros((3, 7)), np.zeros(7, dtype=np.int64)
    with pytest.raises(IndexError):
        kernel.rows.weigh(amounts, stamps, rows, np.ones(3), 1)
    assert not amounts.any()


def parts(rows: int = 4) -> list[Any]:
    """A program that asks for nothing."""
    return [
        np.zeros((23, rows)),
        np.zeros((8, rows)),
        np.ones(rows, dtype=np.bool_),
        np.zeros(rows),
        np.array([0, -1, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0], dtype=np.int64),
        np.zeros(10),
        np.zeros(23),
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
        np.zeros(0),
    ]


def outputs(rows: int = 4) -> list[Any]:
    flags: list[Any] = [np.zeros(rows, dtype=np.bool_) for _ in range(3)]
    return [*flags, np.zeros(rows), np.zeros(rows), np.zeros(rows)]


def opened(program: list[Any]) -> Any:
    assert kernel.rows is not None
    return kernel.rows.program(tuple(program), np.zeros(4, dtype=np.int64), tuple(outputs()))


def test_without_needs_or_scores_the_first_row_is_the_best() -> None:
    assert kernel.rows is not None
    assert kernel.rows.choose(opened(parts()), None, 2, ()) == ([0, 0], 1)


def test_limits_close_rows_and_steps_add_scores() -> None:
    assert kernel.rows is not None
    limits, places = np.array([2.0, 1.0, 0.0, 1.0]), np.array([0, 2, 0, 99])
    # A place beyond the steps adds nothing.
    program = [*parts()[:7], limits, places, np.array([1.0, 5.0, 3.0])]
    kept = outputs()
    made = kernel.rows.program(tuple(program), np.zeros(4, dtype=np.int64), tuple(kept))
    kernel.rows.evaluate(made, -1)
    assert kept[2].tolist() == [True, True, False, True]
    assert kept[5].tolist() == [1.0, 3.0, -np.inf, 0.0]
    assert kernel.rows.choose(made, None, 9, ())[0] == [1, 0, 0, 3]


def test_the_nodes_and_numbers_of_a_choice_are_checked() -> None:
    assert kernel.rows is not None
    program = opened(parts())
    for within, count in ((np.ones(3, dtype=np.bool_), 1), (np.ones(4), 1), (None, -1)):
        with pytest.raises((TypeError, ValueError)):
            kernel.rows.choose(program, within, count, ())


@pytest.mark.parametrize("instead", [(), None, 7])
def test_what_was_not_opened_is_no_program(instead: object) -> None:
    assert kernel.rows is not None
    with pytest.raises(ValueError, match="Capsule"):
        kernel.rows.evaluate(instead, -1)
    with pytest.raises(ValueError, match="Capsule"):
        kernel.rows.choose(instead, None, 1, ())


def test_arrays_live_as_long_as_a_program_that_writes_to_them() -> None:
    assert kernel.rows is not None
    kept = outputs()
    program = kernel.rows.program(tuple(parts()), np.arange(4), tuple(kept))
    for _ in range(3):
        assert kernel.rows.evaluate(program, 1) == 2
    total = weakref.ref(kept.pop())
    assert total() is not None
    del program
    assert total() is None


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (0, np.zeros((23, 3))),
        (1, np.zeros(8, dtype=np.float32)),
        (2, np.ones(0, dtype=np.bool_)),
        (3, np.zeros(5)),
        (4, np.zeros(3, dtype=np.int64)),
        (4, np.array([1, -1, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 99, 0], dtype=np.int64)),
        (4, np.array([0, 77, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0], dtype=np.int64)),
        (4, np.array([0, -1, 0, 1, 90, 0, 0, 0, 0, 0, -1, -1, 0], dtype=np.int64)),
        (4, np.array([0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], dtype=np.int64)),
        (4, np.array([0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0], dtype=np.int64)),
        (5, np.zeros(11)),
        (6, np.zeros(2)),
        (6, [1.0, 2.0]),
        (7, np.zeros(3)),
        # Places without limits, and of other rows.
        (8, np.zeros(4, dtype=np.int64)),
        (8, np.zeros(3, dtype=np.int64)),
        (9, np.zeros(4, dtype=np.float32)),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(part: int, instead: object) -> None:
    assert kernel.rows is not None
    program = parts()
    program[part] = instead
    with pytest.raises((TypeError, ValueError)):
        opened(program)


def test_stamps_and_outputs_are_checked_before_anything_is_written() -> None:
    assert kernel.rows is not None
    program, flags = tuple(parts()), [np.zeros(4, dtype=np.bool_) for _ in range(3)]
    good = (*flags, np.zeros(4), np.zeros(4), np.ones(4))
    stamps = np.arange(4)
    for stamped, written in (
        (np.arange(5), good),
        (np.arange(4, dtype=np.int32), good),
        (stamps, (*flags, np.zeros(4), np.zeros(4), np.zeros(3))),
        (stamps, good[:5]),
    ):
        with pytest.raises((TypeError, ValueError)):
            kernel.rows.program(program, stamped, written)
    assert good[5].tolist() == [1, 1, 1, 1]
    assert kernel.rows.evaluate(kernel.rows.program(program, stamps, good), 1) == 2
    assert good[5].tolist() == [1, 1, 0, 0]


def test_a_gang_goes_the_same_way_with_and_without() -> None:
    def decided() -> object:
        engine = engine_of([((8000, 64 * GIB, 0), 0, 0, 110)] * 9, {})
        return fill(engine, job("g", 20)).schedule(NOW_NS).decisions

    fast = decided()
    with patch.object(kernel, "rows", None):
        assert decided() == fast

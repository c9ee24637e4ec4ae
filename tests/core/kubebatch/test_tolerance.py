"""kube-batch's vectors: 10 milli-cpu, 10 MiB and 10 milli-scalar do not matter."""

from __future__ import annotations

import pytest

from pumice.core.kubebatch import tolerance
from pumice.core.kubebatch.tolerance import counted, counts, lesser
from pumice.core.model.resources import Resources
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, engine, job_of, lone, task

MIB = 1024**2
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (Resources(1009, 0), Resources(1000, 0), True),
        (Resources(1010, 0), Resources(1000, 0), False),
        (Resources(0, 1000 * MIB + 10 * MIB - 1), Resources(0, 1000 * MIB), True),
        (Resources(0, 1000 * MIB + 10 * MIB), Resources(0, 1000 * MIB), False),
        (Resources(0, 0, {GPU: 1009}), Resources(0, 0, {GPU: 1000}), True),
        (Resources(0, 0, {GPU: 1010}), Resources(0, 0, {GPU: 1000}), False),
        # Left scalars of 10 and less are skipped, larger ones need the other side.
        (Resources(0, 0, {GPU: 10}), Resources(), True),
        (Resources(0, 0, {GPU: 11}), Resources(), False),
        # Dimensions that only the right side has never matter.
        (Resources(1, 1), Resources(1, 1, {GPU: 0}), True),
        # Huge pages are in bytes here and were in thousandths there: next to no tolerance.
        (Resources(0, 0, {"hugepages-2Mi": 2}), Resources(0, 0, {"hugepages-2Mi": 1}), False),
    ],
)
def test_less_or_equal_is_less_or_closer_than_the_tolerance(
    left: Resources, right: Resources, fits: bool
) -> None:
    assert tolerance.is_at_most(left, right) is fits


def test_an_amount_below_every_tolerance_is_empty() -> None:
    assert tolerance.is_empty(Resources(9, 10 * MIB - 1, {GPU: 9}))
    assert not tolerance.is_empty(Resources(10, 0))
    assert not tolerance.is_empty(Resources(0, 10 * MIB))
    assert not tolerance.is_empty(Resources(0, 0, {GPU: 10}))


@pytest.mark.parametrize(
    ("left", "right", "less"),
    [
        (Resources(1, 1), Resources(2, 2), True),
        (Resources(1, 2), Resources(2, 2), False),
        (Resources(1, 1), Resources(2, 2, {GPU: 10}), False),
        (Resources(1, 1), Resources(2, 2, {GPU: 11}), True),
        (Resources(1, 1, {GPU: 1}), Resources(2, 2), False),
        (Resources(1, 1, {GPU: 1}), Resources(2, 2, {GPU: 2}), True),
        (Resources(1, 1, {GPU: 2}), Resources(2, 2, {GPU: 2}), False),
    ],
)
def test_less_is_strict_in_every_dimension(left: Resources, right: Resources, less: bool) -> None:
    assert tolerance.is_less(left, right) is less


def test_the_lesser_of_two_has_scalars_only_where_both_have_some() -> None:
    both = lesser(Resources(1, 4, {GPU: 3}), Resources(2, 3, {GPU: 1}))
    assert both == Resources(1, 3, {GPU: 1})
    assert lesser(Resources(1, 4, {GPU: 3}), Resources(2, 3)) == Resources(1, 3)


def test_pods_and_ephemeral_storage_are_no_dimensions() -> None:
    assert not counts("pods")
    assert not counts("ephemeral-storage")
    assert not counts("attachable-volumes-csi-x/y")
    assert counted((("cpu", 1), ("pods", 1), (GPU, 2), ("ephemeral-storage", 3))) == (
        ("cpu", 1),
        (GPU, 2),
    )


def test_a_node_takes_a_pod_for_which_it_lacks_less_than_the_tolerance() -> None:
    small = builders.node("n1", 1, 1)
    assert binds(cluster(small, lone("fits", 1.009)).schedule(1)) == {"fits": "n1"}
    assert binds(cluster(small, lone("not", 1.010)).schedule(1)) == {}


def test_the_tolerance_is_given_once_a_node() -> None:
    many = cluster(builders.node("n1", 1), lone("p0", 0.509), lone("p1", 0.5), lone("p2", 0.02))
    assert binds(many.schedule(1)) == {"p0": "n1", "p1": "n1"}


def test_a_pod_that_asks_for_next_to_nothing_is_left_to_backfill() -> None:
    tiny = cluster(builders.node("n1", 0), lone("tiny", 0.009, controller="c"))
    assert task(tiny, "tiny").best_effort is False, "it asks for a gigabyte"
    spec = builders.pod("tiny", "", 0.009, 0)
    only = cluster(builders.node("n1", 0), spec, of=engine("allocate"))
    assert task(only, "tiny").best_effort
    assert binds(only.schedule(1)) == {}
    assert binds(cluster(builders.node("n1", 0), spec).schedule(1)) == {"tiny": "n1"}


def test_requests_have_neither_a_place_nor_storage() -> None:
    known = cluster(lone("p", 2, controller="c"))
    assert job_of(known, "c").index.total_request == Resources(2000, builders.GIB)


def test_the_number_of_pods_is_only_a_limit_of_the_node() -> None:
    full = cluster(builders.node("n1", 8, 16, pods=1), lone("p0"), lone("p1"))
    assert binds(full.schedule(1)) == {"p0": "n1"}
    without = cluster(
        builders.node("n1", 8, 16, pods=1),
        lone("p0"),
        lone("p1"),
        of=engine(tiers=("priority gang",)),
    )
    assert binds(without.schedule(1)) == {"p0": "n1", "p1": "n1"}

"""Resource vectors: the vocabulary in which the reference compares and computes."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.cache.totals import contribution_of, reserved_by
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.resources import Resources
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, minimum

R = Resources


def scalars(cpu: float = 0, **others: float) -> Resources:
    return Resources(cpu, 0, dict(others))


def test_names_are_the_dimensions_that_hold_something() -> None:
    assert R(0.1, 0.09, {"pods": 1, "a": 0, "b": 2}).names() == ["cpu", "b", "pods"]


@pytest.mark.parametrize(
    ("left", "right", "is_less"),
    [
        (R(1, 1), R(1, 1), True),
        (R(1.09), R(1), True),  # within the tolerance
        (R(1.1), R(1), False),
        (R(0, 2), R(9, 1), False),
        (scalars(a=1), R(9, 9), False),  # missing on the right
        (scalars(a=0.05), R(), True),
        (R(), scalars(a=1), True),  # missing on the left
        (scalars(a=1), scalars(a=1, b=1), True),
        (scalars(pods=2), scalars(pods=1), False),  # pods count
    ],
)
def test_less_equal(left: Resources, right: Resources, is_less: bool) -> None:
    assert left.less_equal(right) is is_less


def test_the_worked_example() -> None:
    a, b = R(1000, 2**30, {"gpu": 1000}), R(1000, 2**30)
    assert not a.less_equal(b)
    assert b.less_equal(a)
    assert R(1000.05).less_equal(R(1000))
    assert not R(1000.1).less_equal(R(1000))


@pytest.mark.parametrize(
    ("have", "limit", "request_", "above"),
    [
        (R(2, 2), R(1, 1), R(1, 0), ["cpu"]),
        (R(2, 2), R(1, 1), R(1, 1), ["cpu", "memory"]),
        (R(1.01), R(1), R(1), ["cpu"]),  # no tolerance
        (R(1), R(1), R(1), []),
        (scalars(a=2), R(), scalars(a=1), ["a"]),  # missing in the limit counts as zero
        (scalars(a=2), R(), scalars(a=0), []),
        (scalars(pods=9), scalars(pods=1), scalars(pods=1), []),
        (R(), R(), scalars(a=1), []),  # no scalars at all: only cpu and memory are tested
        (scalars(b=3, a=3), scalars(a=1, b=2), scalars(a=1, b=1), ["a", "b"]),
    ],
)
def test_requested_dimensions_above_a_limit(
    have: Resources, limit: Resources, request_: Resources, above: list[str]
) -> None:
    assert have.names_above_for(limit, request_) == above


@pytest.mark.parametrize(
    ("held", "extra", "limit"),
    [
        (R(1, 1), R(1, 0), R(2, 0)),
        (R(1, 1), R(1, 1), R(2, 1)),
        (scalars(a=1), scalars(a=1, pods=1), scalars(a=2)),
        (scalars(a=1), scalars(a=2, pods=1), scalars(a=2)),
        (R(), scalars(a=1), R()),
        (scalars(pods=1), scalars(pods=1), R()),
    ],
)
def test_room_is_the_same_question_without_the_sum(
    held: Resources, extra: Resources, limit: Resources
) -> None:
    above = held.clone().add(extra).names_above_for(limit, extra)
    assert held.has_room_for(extra, limit) is not bool(above)


@pytest.mark.parametrize(
    ("have", "limit", "request_", "some"),
    [
        (R(2, 2), R(1, 2), R(1, 1), True),
        (R(2, 2), R(1, 2), R(1, 0), False),
        (R(1.05), R(1), R(1), True),  # within the tolerance
        (R(0, 5), R(0, 1), R(1, 1), False),  # empty on both sides does not count
        (scalars(pods=1), scalars(pods=5), scalars(pods=1), False),
        (scalars(a=1), scalars(a=5), scalars(a=1), True),
        (scalars(a=1), R(), scalars(a=1), False),
    ],
)
def test_some_requested_dimension_is_within(
    have: Resources, limit: Resources, request_: Resources, some: bool
) -> None:
    assert have.some_within(limit, request_) is some


@pytest.mark.parametrize(
    ("have", "limit", "request_", "some"),
    [
        (R(2), R(1), R(1), True),
        (R(1.01), R(1), R(1), True),  # no tolerance
        (R(1), R(1), R(1), False),
        (R(4), R(0), R(2), False),  # a limit of nothing says nothing
        (R(4), R(0.1), R(2), True),
        (scalars(a=2), R(), scalars(a=1), False),
        (scalars(a=2), scalars(a=0), scalars(a=1), True),  # but one that is named does
        (scalars(pods=2), scalars(pods=1), scalars(pods=1), False),
        (R(4, 8, {"a": 2}), R(2, 8, {"a": 1}), scalars(a=1), True),
        (R(4, 8, {"a": 2}), R(2, 8, {"a": 1}), R(0, 4), False),
    ],
)
def test_some_requested_dimension_is_above(
    have: Resources, limit: Resources, request_: Resources, some: bool
) -> None:
    assert have.some_above(limit, request_) is some


@pytest.mark.parametrize(
    ("amount", "empty"),
    [(R(), True), (R(0.09, 0.09, {"pods": 5}), True), (R(0.1), False), (scalars(a=1), False)],
)
def test_empty_is_nothing_but_a_place_among_the_pods(amount: Resources, empty: bool) -> None:
    assert amount.is_empty() is empty


def test_surplus_is_the_positive_part() -> None:
    assert R(5, 1, {"a": 3, "b": 1, "c": 2}).surplus_over(R(2, 2, {"a": 1, "b": 4})) == R(
        3, 0, {"a": 2, "c": 2}
    )


def test_lowering_and_missing_scalars() -> None:
    def mine() -> Resources:
        return R(5, 5, {"a": 3, "b": 3})

    limit = R(2, 9, {"a": 1})
    assert mine().lower_to(limit, missing_is_zero=True) == R(2, 5, {"a": 1, "b": 0})
    assert mine().lower_to(limit, missing_is_zero=False) == R(2, 5, {"a": 1, "b": 3})


def test_raising_takes_the_larger_and_forgets_scalars_below_zero() -> None:
    assert R(1, 5, {"a": 1, "b": -1}).raise_to(R(2, 2, {"a": 3, "c": -4, "d": 0})) == R(
        2, 5, {"a": 3, "d": 0}
    )


@pytest.mark.parametrize(
    ("part", "whole", "share"),
    [
        (R(1, 3), R(4, 4), 0.75),
        (R(1), R(), 0.0),  # dimensions that the whole lacks do not count
        (R(), R(4), 0.0),
        (scalars(pods=5), R(10, 0, {"pods": 10}), 0.5),
        (R(8), R(4), 2.0),
    ],
)
def test_dominant_share(part: Resources, whole: Resources, share: float) -> None:
    assert part.dominant_share(whole) == share


def test_shared_names() -> None:
    assert R(1, 0, {"pods": 1}).shares_names(R(5), pods=False)
    assert not R(0, 1, {"pods": 1}).shares_names(R(5, 0, {"pods": 1}), pods=False)
    assert R(0, 1, {"pods": 1}).shares_names(R(5, 0, {"pods": 1}), pods=True)


def test_taking_from_a_vector_without_scalars_drops_theirs() -> None:
    assert R(5).subtract(R(1, 0, {"a": 1})) == R(4)
    assert scalars(b=1).subtract(scalars(a=1)) == scalars(a=-1, b=1)


# Numbers of jobs.


def job_with(**fields: Any) -> Opened:
    group = pod_group("g", 1, **fields)
    members = [pod("r", "g", 3, 0, on="n1"), pod("p", "g", 2, 0)]
    return Opened(node("n1", 100, 100), queue(), group, *members, plugins=[])


def test_without_a_minimum_all_that_a_job_holds_is_elastic() -> None:
    assert job_with().job("g").elastic() == R(3000, 0, {"pods": 1})
    assert job_with(min_resources=minimum(2)).job("g").elastic() == R(1000, 0, {"pods": 1})


@pytest.mark.parametrize(
    ("asked", "reserved"),
    [
        ((("cpu", 5000),), R(2000)),
        ((("cpu", 1000),), R()),
        ((("cpu", 1000), ("pods", 3)), scalars(pods=2)),
        (((GPU, 4000),), R(0, 0, {GPU: 4000})),
    ],
)
def test_what_is_reserved_is_the_minimum_without_what_is_held(
    asked: tuple[tuple[str, int], ...], reserved: Resources
) -> None:
    assert reserved_by(job_with(min_resources=asked).job("g")) == reserved


@pytest.mark.parametrize(
    ("phase", "inqueue", "admitted"),
    [
        (PodGroupPhase.INQUEUE, 4000, 7000),
        (PodGroupPhase.RUNNING, 4000, 4000),
        (PodGroupPhase.PENDING, 0, 0),
        (PodGroupPhase.UNKNOWN, 0, 0),
    ],
)
def test_promises_by_phase(phase: PodGroupPhase, inqueue: int, admitted: int) -> None:
    part = contribution_of(job_with(min_resources=minimum(7), phase=phase).job("g"))
    assert part.inqueue.milli_cpu == inqueue
    assert part.admitted.milli_cpu == admitted
    assert part.allocated.milli_cpu == 3000
    assert part.request.milli_cpu == 5000


@pytest.mark.parametrize(
    ("gates", "left"),
    [
        ((), 7000),
        (("example.com/wait",), 5000),
        (("scheduling.volcano.sh/queue-allocation-gate",), 7000),
        (("scheduling.volcano.sh/queue-allocation-gate", "example.com/wait"), 5000),
    ],
)
def test_gated_pods_are_deducted_unless_the_gate_is_their_queues(
    gates: tuple[str, ...], left: int
) -> None:
    session = Opened(
        queue(),
        pod_group("g", 1, min_resources=minimum(7)),
        pod("p", "g", 2, 0, spec={"scheduling_gates": gates}),
        plugins=[],
    )
    job = session.job("g")
    assert job.without_gated(job.minimum()).milli_cpu == left

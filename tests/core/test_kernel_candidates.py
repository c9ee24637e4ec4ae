"""The kernel follows scores that depend on the candidates, with the result of one task after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core import kernel
from pumice.core.engine import Engine
from pumice.core.model.group import Workload
from pumice.core.model.node import Node
from pumice.core.model.pod import PodSpec, SpreadConstraint, WeightedNodeTerm
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
)
from tests.core.builders import GIB, NOW_NS, fill, pod, pod_group, queue
from tests.core.test_kernel import GPU, opened, parts
from tests.world import make_engine

pytestmark = pytest.mark.skipif(
    kernel.rows is None, reason="the kernel is not compiled here: no C compiler"
)


ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FAST = NodeSelectorTerm((Requirement("disk", Operator.IN, ("fast",)),))
SLOW = NodeSelectorTerm((Requirement("disk", Operator.IN, ("slow",)),))
OF_WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
OF_NONE = LabelSelector((Requirement("app", Operator.IN, ("none",)),))
SPREADS = (
    (),
    (SpreadConstraint(ZONE, 1, required=False, selector=OF_WEB),),
    (
        SpreadConstraint(HOSTNAME, 2, required=False, selector=OF_WEB, honor_node_taints=True),
        SpreadConstraint("rack", 3, required=False, selector=OF_NONE),
    ),
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "disk": st.sampled_from(("fast", "slow")),
        ZONE: st.sampled_from(("a", "b", "")),
        "rack": st.sampled_from(("r1", "r2", "r3")),
    },
)
DISCOURAGING = Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE)
# Labels, discouraging taints, cores and GPUs; no cores: the node has just registered.
PLACES = st.lists(
    st.tuples(LABELS, st.integers(0, 2), st.integers(0, 4), st.integers(0, 2)),
    min_size=1,
    max_size=12,
)
# Pods, cores in quarters, GPUs, whether a Service selects it, the spread, and preferred terms.
GANGS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.integers(0, 6),
        st.integers(0, 1),
        st.booleans(),
        st.sampled_from(SPREADS),
        st.sampled_from(((), (FAST,), (FAST, SLOW))),
    ),
    min_size=1,
    max_size=6,
)


def cluster_of(places: list[Any], gangs: list[Any], *, packing: bool) -> Engine:
    names = ["gang", "predicates", "nodeorder", *(["binpack"] if packing else [])]
    engine = make_engine("allocate, backfill", [names])
    fill(engine, queue(), Workload("uid-s", "Service", "ns", "web", OF_WEB))
    for number, (labels, taints, cpu, cards) in enumerate(places):
        name = f"n{number:02}"
        offered = (("cpu", 1000 * cpu), ("memory", 8 * GIB), ("pods", 20), (GPU, 1000 * cards))
        fill(
            engine,
            Node(
                f"uid-{name}",
                name,
                labels={HOSTNAME: name, **labels},
                taints=(DISCOURAGING,) * taints,
                allocatable=offered if cpu else (),
            ),
        )
    for number, (size, quarters, cards, is_web, spread, terms) in enumerate(gangs):
        asked = (("cpu", 250 * quarters), ("memory", GIB), ("pods", 1), (GPU, 1000 * cards))
        spec = PodSpec(
            asked if cards else asked[:3],
            non_zero_milli_cpu=250 * quarters or 100,
            non_zero_memory_bytes=GIB,
            scheduler_name="volcano",
            spread_constraints=spread,
            preferred_node_terms=tuple(WeightedNodeTerm(3, term) for term in terms),
        )
        labels = {"app": "web"} if is_web else {}
        pods = [pod(f"g{number}-{i}", f"g{number}", labels=labels) for i in range(size)]
        group = pod_group(f"g{number}", max(1, size - 1))
        fill(engine, group, [replace(each, spec=spec) for each in pods])
    return engine


@settings(max_examples=150)
@given(places=PLACES, gangs=GANGS, packing=st.booleans())
def test_preferences_and_spread_go_the_same_way_with_and_without(
    places: list[Any], gangs: list[Any], packing: bool
) -> None:
    fast = cluster_of(places, gangs, packing=packing).schedule(NOW_NS)
    with patch.object(kernel, "rows", None):
        slow = cluster_of(places, gangs, packing=packing).schedule(NOW_NS)
    assert (fast.decisions, fast.waits) == (slow.decisions, slow.waits)


def test_preferences_and_spread_are_left_to_the_kernel() -> None:
    places = [({"disk": "fast", ZONE: "a"}, 1, 4, 1), ({ZONE: "b"}, 0, 4, 1)]
    gangs = [(4, 1, 0, True, spread, (FAST,)) for spread in SPREADS]
    engine = cluster_of(places, gangs, packing=False)
    result = engine.schedule(NOW_NS)
    assert len(result.decisions) == 12
    # Three gangs in three steps, and what is left of each after it is ready.
    assert result.work["candidates_scored"] == 6 * len(places)
    assert "classes_by_numpy" not in result.work


@pytest.mark.parametrize(
    "term",
    [
        7,
        (),
        (9, 1.0, np.zeros(4, dtype=np.int64)),
        (0, 1.0, np.zeros(3, dtype=np.int64)),
        (0, 1.0, np.zeros(4, dtype=np.int32)),
        (0, "much", np.zeros(4, dtype=np.int64)),
        (2, 1.0, np.ones(4, dtype=np.bool_), np.zeros(5), ()),
        (2, 1.0, np.ones(4, dtype=np.bool_), np.zeros(6), [()]),
        (2, 1.0, np.ones(4, dtype=np.bool_), np.zeros(6), ((),)),
        (2, 1.0, np.ones(4, dtype=np.bool_), np.zeros(6), ((),) * 9),
    ],
)
def test_terms_that_do_not_belong_to_the_rows_are_refused(term: object) -> None:
    assert kernel.rows is not None
    with pytest.raises((TypeError, ValueError)):
        kernel.rows.choose(opened(parts()), None, 1, (term,))


@pytest.mark.parametrize(("code", "place", "size"), [(2, 0, 2), (0, 3, 2), (0, -1, 2), (0, 0, 5)])
def test_a_place_out_of_range_is_refused(code: int, place: int, size: int) -> None:
    assert kernel.rows is not None
    codes, places = (np.full(4, value, dtype=np.int32) for value in (code, place))
    flags, pods = np.ones(4, dtype=np.bool_), np.zeros(4, dtype=np.int32)
    constraint = (False, True, 0.0, size, codes, places, flags, pods)
    with pytest.raises(ValueError, match="out of range"):
        kernel.rows.choose(opened(parts()), None, 1, ((2, 1.0, flags, np.zeros(6), (constraint,)),))

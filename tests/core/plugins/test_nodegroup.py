"""nodegroup: the groups that a queue may use, and how much of each."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.group import NodeGroupAffinity
from pumice.core.plugins.nodegroup import (
    ABOVE_LIMIT,
    BAD_LIMITS,
    LIMITS,
    NO_AFFINITY,
    NO_LABEL,
    NODE_GROUP,
    NOT_ALLOWED,
    read_limits,
)
from tests.core.builders import NOW_NS, fill, job, node, queue
from tests.core.plugins.opened import Opened, options

NODES = [
    node("gpu", labels={NODE_GROUP: "gpu"}),
    node("cpu", labels={NODE_GROUP: "cpu"}),
    node("x"),
]


def opened(affinity: NodeGroupAffinity | None, **arguments: Any) -> Opened:
    held = queue(affinity=affinity)
    return Opened(*NODES, held, *job("a", 1), plugins=[options("nodegroup", **arguments)])


def refused(session: Opened) -> dict[str, str]:
    view = session.session.view(session.task("a-0"))
    return {
        session.session.table.names[row]: refusal.reason
        for refusal in view.class_refusals().get("nodegroup", ())
        for row in refusal.rows.nonzero()[0].tolist()
    }


def scores(session: Opened) -> dict[str, float]:
    view = session.session.view(session.task("a-0"))
    return dict(zip(session.session.table.names, view.class_scores()[0][1].tolist(), strict=True))


@pytest.mark.parametrize(
    ("affinity", "strict", "expected"),
    [
        (None, True, {"gpu": NO_AFFINITY, "cpu": NO_AFFINITY, "x": NO_LABEL}),
        (NodeGroupAffinity(), False, {"gpu": NO_AFFINITY, "cpu": NO_AFFINITY}),
        (NodeGroupAffinity(required=("gpu",)), False, {"cpu": NOT_ALLOWED, "x": NO_LABEL}),
        (NodeGroupAffinity(preferred=("cpu",)), True, {"gpu": NOT_ALLOWED, "x": NO_LABEL}),
        (
            NodeGroupAffinity(required=("gpu", "cpu"), anti_required=("gpu",)),
            True,
            {"gpu": NOT_ALLOWED, "x": NO_LABEL},
        ),
        # Only what is named is allowed, even where nothing but an anti-affinity is named.
        (
            NodeGroupAffinity(anti_required=("gpu",)),
            True,
            {"gpu": NOT_ALLOWED, "cpu": NOT_ALLOWED, "x": NO_LABEL},
        ),
        (
            NodeGroupAffinity(anti_required=("gpu",), anti_preferred=("gpu",)),
            True,
            {"cpu": NOT_ALLOWED, "x": NO_LABEL},
        ),
    ],
)
def test_nodes_are_refused_by_their_group(
    affinity: NodeGroupAffinity | None, strict: bool, expected: dict[str, str]
) -> None:
    assert refused(opened(affinity, strict=strict)) == expected


def test_scores_follow_the_order_of_preference() -> None:
    affinity = NodeGroupAffinity(required=("gpu",), preferred=("cpu", "gpu"))
    assert scores(opened(affinity)) == {"gpu": 150.0, "cpu": 50.0, "x": 0.0}
    in_order = opened(affinity, enablePreferredOrder=True)
    assert scores(in_order) == {"gpu": 125.0, "cpu": 50.0, "x": 0.0}
    avoided = opened(NodeGroupAffinity(required=("gpu",), anti_preferred=("gpu",)))
    assert scores(avoided)["gpu"] == -1.0


def inheriting(*queues: ClusterObject, name: str) -> Opened:
    tree = options("nodegroup", "enableHierarchy")
    return Opened(*NODES, *queues, *job("a", 1, queue_name=name), plugins=[tree])


def test_a_queue_inherits_from_the_nearest_queue_above_it() -> None:
    session = inheriting(
        queue("root"),
        queue("top", affinity=NodeGroupAffinity(required=("gpu",))),
        queue("middle", parent="top"),
        queue("leaf", parent="middle"),
        name="leaf",
    )
    assert refused(session) == {"cpu": NOT_ALLOWED, "x": NO_LABEL}


def test_an_empty_affinity_inherits_nothing() -> None:
    session = inheriting(
        queue("top", affinity=NodeGroupAffinity(required=("gpu",))),
        queue("leaf", parent="top", affinity=NodeGroupAffinity()),
        name="leaf",
    )
    assert refused(session)["gpu"] == NO_AFFINITY


@pytest.mark.parametrize("parents", [("b", "a"), ("missing", ""), ("a", "a")])
def test_queues_in_a_circle_or_without_a_parent_inherit_nothing(parents: tuple[str, str]) -> None:
    session = inheriting(queue("a", parent=parents[0]), queue("b", parent=parents[1]), name="a")
    assert refused(session)["gpu"] == NO_AFFINITY


# Limits.


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"gpu": 5}', '{"gpu": {"cpu": "many"}}'])
def test_limits_that_cannot_be_read_refuse_every_node(text: str) -> None:
    held = queue(annotations={LIMITS: text}, affinity=NodeGroupAffinity(required=("gpu",)))
    session = Opened(*NODES, held, *job("a", 1), plugins=["nodegroup"])
    assert set(refused(session).values()) == {BAD_LIMITS}


@pytest.mark.parametrize("text", ["", "{}", "null", '{"gpu": null}'])
def test_empty_limits_limit_nothing(text: str) -> None:
    assert not any((read_limits(queue(annotations={LIMITS: text})) or {}).values())


def test_a_request_of_zero_fits_a_limit_that_is_used_up() -> None:
    text = json.dumps({"gpu": {"example.com/card": 0}})
    held = queue(annotations={LIMITS: text}, affinity=NodeGroupAffinity(required=("gpu",)))
    engine = _engine(held, NODES[0], *job("a", 1))
    assert len(engine.schedule(NOW_NS).decisions) == 1


def _engine(*objects: ClusterObject) -> Engine:
    tier = tuple(
        PluginOptions(n, arguments=Arguments()) for n in ("gang", "predicates", "nodegroup")
    )
    return fill(Engine(Configuration(("allocate", "backfill"), (tier,))), *objects)


def test_a_limit_holds_a_gang_back_and_says_so() -> None:
    held = queue(
        annotations={LIMITS: json.dumps({"gpu": {"cpu": "1500m"}})},
        affinity=NodeGroupAffinity(required=("gpu",)),
    )
    result = _engine(held, NODES[0], *job("a", 2)).schedule(NOW_NS)
    assert result.decisions == ()
    assert ABOVE_LIMIT in {n.reason for w in result.waits for r in w.reasons for n in r.nodes}


@pytest.mark.parametrize("seed", range(30))
def test_no_queue_ever_gets_more_of_a_group_than_its_limit(seed: int) -> None:
    rng = random.Random(seed)
    groups = ["g1", "g2"]
    limits = {g: rng.choice([0, 500, 1500, 2000, 3000, 10_000]) for g in groups}
    text = json.dumps({g: {"cpu": f"{m}m"} for g, m in limits.items()})
    held = queue(annotations={LIMITS: text}, affinity=NodeGroupAffinity(preferred=("g1", "g2")))
    nodes = [node(f"n{i}", 4, labels={NODE_GROUP: rng.choice(groups)}) for i in range(4)]
    engine = _engine(held, *nodes)
    group_of = {n.name: n.labels[NODE_GROUP] for n in nodes}
    used = dict.fromkeys(groups, 0)
    cpus: dict[str, float] = {}
    for number in range(4):
        cpu, size = rng.choice([0, 0.3, 0.5, 1, 2]), rng.randint(1, 4)
        minimum = rng.randint(0, size)
        fill(engine, *job(f"j{number}", size, cpu, minimum=minimum))
        cpus.update({f"j{number}-{i}": cpu for i in range(size)})
        for decision in engine.schedule(NOW_NS + number).decisions:
            assert isinstance(decision, Bind)
            used[group_of[decision.node]] += int(cpus[decision.name] * 1000)
    # Pods that ask for nothing are placed all the same.
    assert all(used[group] <= limits[group] for group in groups)

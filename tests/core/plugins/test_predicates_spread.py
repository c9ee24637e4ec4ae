"""Topology spread that must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, SpreadConstraint
from pumice.core.model.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
)
from pumice.core.model.status import TaskStatus
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.verdicts import UU, U, Verdict, verdicts

UNEVEN: Verdict = [("node(s) didn't match pod topology spread constraints", U)]
UNLABELLED: Verdict = [
    ("node(s) didn't match pod topology spread constraints (missing required label)", UU)
]
APP_X = LabelSelector((Requirement("app", Operator.IN, ("x",)),))


def rule(key: str = "zone", skew: int = 1, **fields: Any) -> SpreadConstraint:
    given = {"required": True, "selector": APP_X, **fields}
    return SpreadConstraint(key, skew, **given)


def in_zone(name: str, zone: str, **fields: Any) -> Node:
    return node(name, labels={"zone": zone, **fields.pop("labels", {})}, **fields)


def old(name: str, on: str, **fields: Any) -> Pod:
    return pod(name, "g", on=on, **{"labels": {"app": "x"}, **fields})


def opened_with(*objects: Node | Pod, rules: tuple[SpreadConstraint, ...], **spec: Any) -> Opened:
    waiting = pod("p", "g", spec={"spread_constraints": rules, **spec}, labels={"app": "x"})
    return Opened(queue(), pod_group("g"), waiting, *objects, plugins=["predicates"])


def test_a_place_may_not_have_too_many_more_than_the_emptiest() -> None:
    objects = in_zone("n1", "a"), in_zone("n2", "b"), old("o", "n1")
    assert verdicts(opened_with(*objects, rules=(rule(),)), "p") == {"n1": UNEVEN, "n2": []}
    assert verdicts(opened_with(*objects, rules=(rule(skew=2),)), "p") == {"n1": [], "n2": []}


def test_a_pod_that_does_not_match_the_selector_does_not_count_itself() -> None:
    other = LabelSelector((Requirement("app", Operator.IN, ("y",)),))
    objects = (
        in_zone("n1", "a"),
        in_zone("n2", "b"),
        old("o", "n1", labels={"app": "y"}),
    )
    opened = opened_with(*objects, rules=(rule(selector=other),))
    assert verdicts(opened, "p") == {"n1": [], "n2": []}


def test_a_node_without_the_label_is_refused_for_good() -> None:
    opened = opened_with(in_zone("n1", "a"), node("n2"), rules=(rule(),))
    assert verdicts(opened, "p") == {"n1": [], "n2": UNLABELLED}


def test_nodes_without_all_keys_do_not_count() -> None:
    objects = (
        in_zone("n1", "a", labels={"rack": "r"}),
        in_zone("n2", "b"),
        old("o", "n1"),
    )
    opened = opened_with(*objects, rules=(rule(), rule("rack")))
    # Zone b is no place to compare with: its node has no rack.
    assert verdicts(opened, "p") == {"n1": [], "n2": UNLABELLED}


def test_the_first_constraint_that_fails_speaks() -> None:
    objects = in_zone("n1", "a"), in_zone("n2", "b"), old("o", "n1"), old("o2", "n1")
    opened = opened_with(*objects, rules=(rule(), rule("rack")))
    assert verdicts(opened, "p")["n2"] == UNLABELLED
    racked = opened_with(
        in_zone("n1", "a", labels={"rack": "r"}),
        in_zone("n2", "b", labels={"rack": "s"}),
        old("o", "n1"),
        rules=(rule(), rule("rack")),
    )
    assert verdicts(racked, "p") == {"n1": UNEVEN, "n2": []}


def test_too_few_places_count_as_an_empty_one() -> None:
    objects = in_zone("n1", "a"), in_zone("n2", "b"), old("o", "n1"), old("o2", "n2")
    assert verdicts(opened_with(*objects, rules=(rule(),)), "p") == {"n1": [], "n2": []}
    opened = opened_with(*objects, rules=(rule(min_domains=3),))
    assert verdicts(opened, "p") == {"n1": UNEVEN, "n2": UNEVEN}


@pytest.mark.parametrize("fields", [{"terminating": True}, {"labels": {"app": "y"}}])
def test_pods_that_leave_or_do_not_match_are_not_counted(fields: dict[str, Any]) -> None:
    objects = in_zone("n1", "a"), in_zone("n2", "b"), old("o", "n1", **fields)
    assert verdicts(opened_with(*objects, rules=(rule(),)), "p")["n1"] == []


def test_pods_of_other_namespaces_are_not_counted() -> None:
    foreign = replace(old("o", "n1"), namespace="other")
    objects = in_zone("n1", "a"), in_zone("n2", "b"), foreign
    assert verdicts(opened_with(*objects, rules=(rule(),)), "p")["n1"] == []


def test_an_absent_or_empty_selector_counts_nobody() -> None:
    objects = in_zone("n1", "a"), in_zone("n2", "b"), old("o", "n1"), old("o2", "n1")
    for selector in (None, LabelSelector()):
        opened = opened_with(*objects, rules=(rule(selector=selector),))
        assert verdicts(opened, "p") == {"n1": [], "n2": []}


def test_the_affinity_policy_leaves_out_nodes_that_the_pod_may_not_go_to() -> None:
    objects = (
        in_zone("n1", "a", labels={"disk": "ssd"}),
        in_zone("n2", "b"),
        old("o", "n1"),
    )
    wants = {"node_selector": (("disk", "ssd"),)}
    honoured = opened_with(*objects, rules=(rule(),), **wants)
    assert verdicts(honoured, "p")["n1"] == []
    ignored = opened_with(*objects, rules=(rule(honor_node_affinity=False),), **wants)
    assert verdicts(ignored, "p")["n1"] == UNEVEN


def test_the_taints_policy_leaves_out_nodes_only_when_asked() -> None:
    taint = (Taint("k", "", TaintEffect.NO_SCHEDULE),)
    objects = in_zone("n1", "a"), in_zone("n2", "b", taints=taint), old("o", "n1")
    assert verdicts(opened_with(*objects, rules=(rule(),)), "p")["n1"] == UNEVEN
    honoured = opened_with(*objects, rules=(rule(honor_node_taints=True),))
    assert verdicts(honoured, "p")["n1"] == []


def test_placements_of_the_session_count_at_once() -> None:
    opened = opened_with(
        in_zone("n1", "a"),
        in_zone("n2", "b"),
        pod("q", "g", labels={"app": "x"}),
        rules=(rule(),),
    )
    assert verdicts(opened, "p") == {"n1": [], "n2": []}
    opened.session.moves.place(opened.task("q"), "n1", TaskStatus.ALLOCATED)
    assert verdicts(opened, "p") == {"n1": UNEVEN, "n2": []}
    opened.session.moves.unplace(opened.task("q"))
    assert verdicts(opened, "p") == {"n1": [], "n2": []}


def test_constraints_that_only_prefer_refuse_nobody() -> None:
    objects = in_zone("n1", "a"), node("n2"), old("o", "n1")
    opened = opened_with(*objects, rules=(rule(required=False),))
    assert verdicts(opened, "p") == {"n1": [], "n2": []}
    assert opened.hooks.is_plain["predicates"](opened.task("p"))


def test_the_filter_can_be_switched_off() -> None:
    waiting = pod("p", "g", spec={"spread_constraints": (rule(),)})
    plugin = options("predicates", predicate__PodTopologySpreadEnable=False)
    opened = Opened(queue(), pod_group("g"), waiting, node("n1"), plugins=[plugin])
    assert verdicts(opened, "p") == {"n1": []}

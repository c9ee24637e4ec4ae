"""Filters that look at nothing but the pod and the node: unschedulable, affinity, taints, count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.model.node import Node
from pumice.core.model.pod import PodPhase
from pumice.core.model.selectors import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.verdicts import UU, U, Verdict, verdicts, why_nowhere

NO_SCHEDULE, PREFER, NO_EXECUTE = (
    TaintEffect.NO_SCHEDULE,
    TaintEffect.PREFER_NO_SCHEDULE,
    TaintEffect.NO_EXECUTE,
)
CLOSED = [("node(s) were unschedulable", UU)]
TAINTED = [("node(s) had untolerated taint(s)", UU)]
NOT_MATCHED = [("node(s) didn't match Pod's node affinity/selector", UU)]


def opened_with(spec: dict[str, Any], *nodes: Node, **arguments: object) -> Opened:
    plugin = options("predicates", **arguments)
    return Opened(queue(), pod_group("g"), pod("p", "g", spec=spec), *nodes, plugins=[plugin])


def verdict(spec: dict[str, Any], one: Node, **arguments: object) -> Verdict:
    return verdicts(opened_with(spec, one, **arguments), "p")[one.name]


# Tolerations.


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("k", "v", effect=NO_SCHEDULE), True),
        (Toleration("k", "v"), True),
        (Toleration("k", "other"), False),
        (Toleration("other", "v"), False),
        (Toleration("k", "v", effect=NO_EXECUTE), False),
        (Toleration("k", "", exists=True), True),
        (Toleration("k", "other", exists=True), True),
        (Toleration("", "", exists=True), True),
        (Toleration("", "", exists=True, effect=NO_EXECUTE), False),
        (Toleration("", "v"), True),
    ],
)
def test_a_toleration_matches_by_effect_key_and_value(
    toleration: Toleration, tolerated: bool
) -> None:
    tainted = node("n1", taints=(Taint("k", "v", NO_SCHEDULE),))
    assert verdict({"tolerations": (toleration,)}, tainted) == ([] if tolerated else TAINTED)


@pytest.mark.parametrize(
    ("effect", "said"), [(NO_SCHEDULE, TAINTED), (NO_EXECUTE, TAINTED), (PREFER, [])]
)
def test_only_taints_that_forbid_keep_a_pod_out(effect: TaintEffect, said: Verdict) -> None:
    assert verdict({}, node("n1", taints=(Taint("k", "v", effect),))) == said


def test_one_untolerated_taint_of_several_is_enough() -> None:
    tainted = node("n1", taints=(Taint("a", "", NO_SCHEDULE), Taint("b", "", NO_SCHEDULE)))
    assert verdict({"tolerations": (Toleration("a"),)}, tainted) == TAINTED


# Unschedulable.


def test_a_closed_node_takes_no_pod() -> None:
    assert verdict({}, node("n1", unschedulable=True)) == CLOSED


def test_a_closed_node_takes_a_pod_that_tolerates_the_taint_of_closed_nodes() -> None:
    toleration = Toleration("node.kubernetes.io/unschedulable", exists=True)
    assert verdict({"tolerations": (toleration,)}, node("n1", unschedulable=True)) == []


def test_being_closed_is_said_before_all_other_faults_and_alone() -> None:
    one = node("n1", unschedulable=True, taints=(Taint("k", "", NO_SCHEDULE),))
    assert verdict({"node_selector": (("a", "b"),)}, one) == CLOSED


# Node affinity.


def test_every_pair_of_the_selector_must_match() -> None:
    spec = {"node_selector": (("a", "1"), ("b", "2"))}
    assert verdict(spec, node("n1", labels={"a": "1", "b": "2"})) == []
    assert verdict(spec, node("n1", labels={"a": "1"})) == NOT_MATCHED


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        (Operator.IN, ("1", "2"), {"k": "2"}, True),
        (Operator.IN, ("1", "2"), {"k": "3"}, False),
        (Operator.IN, ("1",), {}, False),
        (Operator.NOT_IN, ("1",), {"k": "2"}, True),
        (Operator.NOT_IN, ("1",), {"k": "1"}, False),
        (Operator.NOT_IN, ("1",), {}, True),
        (Operator.EXISTS, (), {"k": ""}, True),
        (Operator.EXISTS, (), {}, False),
        (Operator.DOES_NOT_EXIST, (), {}, True),
        (Operator.DOES_NOT_EXIST, (), {"k": "1"}, False),
        (Operator.GREATER_THAN, ("5",), {"k": "6"}, True),
        (Operator.GREATER_THAN, ("5",), {"k": "5"}, False),
        (Operator.GREATER_THAN, ("5",), {"k": "many"}, False),
        (Operator.GREATER_THAN, ("5", "6"), {"k": "7"}, False),
        (Operator.LESS_THAN, ("5",), {"k": "4"}, True),
        (Operator.LESS_THAN, ("5",), {}, False),
    ],
)
def test_a_requirement_compares_a_label(
    operator: Operator, values: tuple[str, ...], labels: dict[str, str], matches: bool
) -> None:
    term = NodeSelectorTerm((Requirement("k", operator, values),))
    said = verdict({"required_node_terms": (term,)}, node("n1", labels=labels))
    assert said == ([] if matches else NOT_MATCHED)


def test_one_term_of_several_is_enough_and_within_a_term_all_must_hold() -> None:
    a, b = Requirement("a", Operator.EXISTS), Requirement("b", Operator.EXISTS)
    both, only_b = NodeSelectorTerm((a, b)), NodeSelectorTerm((b,))
    assert verdict({"required_node_terms": (both,)}, node("n1", labels={"a": ""})) == NOT_MATCHED
    assert verdict({"required_node_terms": (both, only_b)}, node("n1", labels={"b": ""})) == []


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (Operator.NOT_IN, ()),
        (Operator.DOES_NOT_EXIST, ("1",)),
        (Operator.LESS_THAN, ("1_000",)),
        (Operator.LESS_THAN, (str(2**63),)),
    ],
)
def test_a_term_that_cannot_be_understood_matches_no_node(
    operator: Operator, values: tuple[str, ...]
) -> None:
    fine = Requirement("k", Operator.EXISTS)
    broken = NodeSelectorTerm((fine, Requirement("other", operator, values)))
    labelled = node("n1", labels={"k": "1"})
    assert verdict({"required_node_terms": (broken,)}, labelled) == NOT_MATCHED
    either = (broken, NodeSelectorTerm((fine,)))
    assert verdict({"required_node_terms": either}, labelled) == []


@pytest.mark.parametrize("terms", [(), (NodeSelectorTerm(),)])
def test_no_term_or_an_empty_one_matches_no_node(terms: tuple[NodeSelectorTerm, ...]) -> None:
    assert verdict({"required_node_terms": terms}, node("n1")) == NOT_MATCHED


@pytest.mark.parametrize(
    ("operator", "values", "good"),
    [
        (Operator.IN, ("n1",), ["n1"]),
        (Operator.NOT_IN, ("n1",), ["n2"]),
        (Operator.IN, ("n1", "n2"), []),
    ],
)
def test_a_field_names_the_node_with_one_value(
    operator: Operator, values: tuple[str, ...], good: list[str]
) -> None:
    term = NodeSelectorTerm((), (Requirement("metadata.name", operator, values),))
    opened = opened_with({"required_node_terms": (term,)}, node("n1"), node("n2"))
    assert [name for name, said in verdicts(opened, "p").items() if not said] == good


def named(*names: str) -> NodeSelectorTerm:
    fields = tuple(Requirement("metadata.name", Operator.IN, (name,)) for name in names)
    return NodeSelectorTerm((), fields)


def test_terms_that_all_name_conflicting_nodes_are_refused_before_any_node() -> None:
    opened = opened_with({"required_node_terms": (named("n1", "n2"),)}, node("n1"), node("n2"))
    said = why_nowhere(opened, "p")
    assert said == "plugin NodeAffinity pre-predicates failed pod affinity terms conflict"


def test_one_term_without_a_conflict_lets_the_nodes_be_asked() -> None:
    terms = (named("n1", "n2"), named("n2"))
    opened = opened_with({"required_node_terms": terms}, node("n1"), node("n2"))
    assert verdicts(opened, "p") == {"n1": NOT_MATCHED, "n2": []}


# The number of pods.


def test_a_node_that_is_full_of_pods_says_so_and_goes_on() -> None:
    full = node("n1", pods=1, taints=(Taint("k", "", NO_SCHEDULE),))
    opened = Opened(
        queue(),
        pod_group("g"),
        pod("p", "g"),
        pod("old", "g", on="n1"),
        full,
        plugins=["predicates"],
    )
    assert verdicts(opened, "p")["n1"] == [("node(s) pod number exceeded", U), *TAINTED]


@pytest.mark.parametrize(("places", "said"), [(1, [("node(s) pod number exceeded", U)]), (2, [])])
def test_terminating_pods_count_and_finished_ones_do_not(places: int, said: Verdict) -> None:
    leaving = pod("old", "g", on="n1", terminating=True)
    finished = replace(pod("done", "g", on="n1"), phase=PodPhase.SUCCEEDED)
    opened = Opened(
        queue(),
        pod_group("g"),
        pod("p", "g"),
        leaving,
        finished,
        node("n1", pods=places),
        plugins=["predicates"],
    )
    assert verdicts(opened, "p")["n1"] == said


# Switches.


def test_affinity_and_taints_can_be_switched_off_and_being_closed_cannot() -> None:
    one = node("n1", unschedulable=True, taints=(Taint("k", "", NO_SCHEDULE),))
    spec = {"node_selector": (("a", "b"),)}
    off = {"predicate__NodeAffinityEnable": False, "predicate__TaintTolerationEnable": False}
    assert verdict(spec, one, **off) == CLOSED
    assert verdict(spec, replace(one, unschedulable=False), **off) == []

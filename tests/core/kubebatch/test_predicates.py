"""kube-batch's filters."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pumice.core.engine import Engine
from pumice.core.model.pod import HostPort, PodAffinityTerm
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, engine, foreign, lone

TOLERATES_ALL = (Toleration(exists=True),)


def placed(*objects: Any, of: Engine | None = None) -> dict[str, str]:
    return binds(cluster(*objects, of=of).schedule(1))


def tainted(key: str, effect: TaintEffect = TaintEffect.NO_SCHEDULE) -> Any:
    return builders.node("n1", taints=(Taint(key, "", effect),))


def test_untolerated_taints_keep_pods_away() -> None:
    assert placed(tainted("odd"), lone("p")) == {}
    assert placed(tainted("odd"), lone("p", spec={"tolerations": TOLERATES_ALL})) == {"p": "n1"}
    assert placed(tainted("odd", TaintEffect.PREFER_NO_SCHEDULE), lone("p")) == {"p": "n1"}


@pytest.mark.parametrize(
    "condition",
    [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
    ],
)
def test_a_node_in_a_bad_condition_takes_nobody_whatever_is_tolerated(condition: str) -> None:
    tolerant = lone("p", spec={"tolerations": TOLERATES_ALL})
    assert placed(tainted(condition), tolerant) == {}


def test_an_unschedulable_node_takes_nobody_whatever_is_tolerated() -> None:
    tolerant = lone("p", spec={"tolerations": TOLERATES_ALL})
    assert placed(builders.node("n1", unschedulable=True), tolerant) == {}


@pytest.mark.parametrize(
    ("key", "taint"),
    [
        ("predicate.DiskPressureEnable", "node.kubernetes.io/disk-pressure"),
        ("predicate.PIDPressureEnable", "node.kubernetes.io/pid-pressure"),
    ],
)
def test_pressure_is_looked_at_when_it_is_asked_for(key: str, taint: str) -> None:
    tolerant = lone("p", spec={"tolerations": TOLERATES_ALL})
    strict = engine(arguments={"predicates": {key: True}})
    assert placed(tainted(taint), tolerant, of=strict) == {}
    assert placed(tainted(taint), tolerant) == {"p": "n1"}


def test_memory_pressure_keeps_out_only_pods_that_ask_for_nothing() -> None:
    node = tainted("node.kubernetes.io/memory-pressure")
    asks = lone("asks", spec={"tolerations": TOLERATES_ALL})
    nothing = builders.pod("nothing", "", 0, 0, spec={"tolerations": TOLERATES_ALL})
    strict = engine(arguments={"predicates": {"predicate.MemoryPressureEnable": True}})
    assert placed(node, asks, nothing, of=strict) == {"asks": "n1"}


def test_selector_and_affinity_choose_nodes() -> None:
    nodes = [builders.node("n1"), builders.node("n2", labels={"disk": "fast"})]
    wants = lone("p", spec={"node_selector": (("disk", "fast"),)})
    assert placed(nodes, wants) == {"p": "n2"}
    term = NodeSelectorTerm((Requirement("disk", Operator.EXISTS),))
    assert placed(nodes, lone("p", spec={"required_node_terms": (term,)})) == {"p": "n2"}
    assert placed(nodes, lone("p", spec={"required_node_terms": ()})) == {}


def test_a_host_port_is_taken_once_a_node() -> None:
    ports = {"host_ports": (HostPort("TCP", "0.0.0.0", 80),)}
    used = foreign(lone("used", on="n1", spec=ports))
    nodes = [builders.node("n1"), builders.node("n2")]
    pods = [lone("p1", spec=ports), lone("p2", spec=ports)]
    assert placed(nodes, used, pods) == {"p1": "n2"}


def test_a_node_is_full_with_as_many_tasks_as_it_takes_pods() -> None:
    node = builders.node("n1", 8, 16, pods=2)
    assert placed(node, lone("there", on="n1"), lone("p1"), lone("p2")) == {"p1": "n1"}


# Affinity between pods.


def term(value: str, key: str = "zone", label: str = "app") -> PodAffinityTerm:
    return PodAffinityTerm(key, LabelSelector((Requirement(label, Operator.IN, (value,)),)))


def zones() -> list[Any]:
    return [
        builders.node(name, labels={"zone": zone, "host": name})
        for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))
    ]


def app(name: str, value: str, on: str = "", **spec: Any) -> Any:
    return lone(name, on=on, labels={"app": value}, spec=spec)


def test_a_pod_goes_where_its_friends_are() -> None:
    friend = app("friend", "web", on="n3")
    assert placed(zones(), friend, app("p", "x", required_affinity=(term("web"),))) == {"p": "n3"}


def test_the_first_of_its_own_friends_goes_anywhere_and_the_others_follow() -> None:
    pods = [
        dataclasses.replace(app(f"p{i}", "web", required_affinity=(term("web"),)), uid=f"u{i}")
        for i in range(2)
    ]
    assert placed(zones(), pods[0]) == {"p0": "n1"}
    assert placed(zones(), app("p", "x", required_affinity=(term("web"),))) == {}
    where = placed(zones(), pods)
    assert {"n1": "a", "n2": "a", "n3": "b"}[where["p1"]] == "a"


def test_a_pod_keeps_away_from_its_foes_and_from_those_who_mind_it() -> None:
    foe = app("foe", "web", on="n1")
    assert placed(zones(), foe, app("p", "x", required_anti_affinity=(term("web"),))) == {"p": "n3"}
    minding = app("minding", "y", on="n1", required_anti_affinity=(term("web"),))
    assert placed(zones(), minding, app("p", "web")) == {"p": "n3"}


def test_pods_placed_in_the_same_session_count() -> None:
    pods = [app(f"p{i}", "web", required_anti_affinity=(term("web", "host"),)) for i in range(4)]
    assert sorted(placed(zones(), pods).values()) == ["n1", "n2", "n3"]


def test_one_pod_must_meet_all_anti_affinity_terms_at_once() -> None:
    """Of each term alone some pod on the node would be a foe; no pod is one by both."""
    there = [
        lone("one", on="n1", labels={"app": "web"}),
        lone("two", on="n1", labels={"tier": "db"}),
    ]
    terms = (term("web", "host"), term("db", "host", "tier"))
    picky = app("p", "x", required_anti_affinity=terms)
    assert placed(builders.node("n1", labels={"host": "n1"}), there, picky) == {"p": "n1"}
    both = lone("both", on="n1", labels={"app": "web", "tier": "db"})
    assert placed(builders.node("n1", labels={"host": "n1"}), both, picky) == {}

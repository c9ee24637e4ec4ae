"""Required affinity and anti-affinity between pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import Namespace
from pumice.core.model.pod import Pod, PodAffinityTerm
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from pumice.core.model.status import TaskStatus
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.verdicts import UU, U, Verdict, verdicts

HOST, ZONE = "kubernetes.io/hostname", "zone"
FAR: Verdict = [("node(s) didn't match pod affinity rules", UU)]
NEAR_FOE: Verdict = [("node(s) didn't match pod anti-affinity rules", U)]
UNWELCOME: Verdict = [("node(s) didn't satisfy existing pods anti-affinity rules", U)]
TEAM_RED = LabelSelector((Requirement("team", Operator.IN, ("red",)),))


def app(*values: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, values),))


def near(key: str, selector: LabelSelector | None, **fields: Any) -> dict[str, Any]:
    return {"required_affinity": (PodAffinityTerm(key, selector, **fields),)}


def away(key: str, selector: LabelSelector | None, **fields: Any) -> dict[str, Any]:
    return {"required_anti_affinity": (PodAffinityTerm(key, selector, **fields),)}


def labelled(name: str, app_name: str, on: str = "", spec: Any = None, space: str = "ns") -> Pod:
    made = pod(name, "g", on=on, spec=spec, labels={"app": app_name})
    return replace(made, namespace=space)


def cluster(*pods: Pod, extra: tuple[ClusterObject, ...] = (), **arguments: object) -> Opened:
    """Two nodes in zone z1, one in z2, one without a zone."""
    nodes = [
        node(name, labels={HOST: name, **({ZONE: zone} if zone else {})})
        for name, zone in (("n1", "z1"), ("n2", "z1"), ("n3", "z2"), ("n4", ""))
    ]
    groups = [replace(pod_group("g"), namespace=s, uid=f"uid-g-{s}") for s in ("ns", "other")]
    plugin = options("predicates", **arguments)
    return Opened(queue(), *groups, *nodes, *pods, *extra, plugins=[plugin])


def nodes_of(opened: Opened, name: str = "p") -> list[str]:
    return [node_name for node_name, said in verdicts(opened, name).items() if not said]


# The incoming pod's affinity.


def test_a_pod_goes_where_a_friend_is_by_the_topology_key() -> None:
    opened = cluster(labelled("old", "x", "n1"), labelled("p", "y", spec=near(ZONE, app("x"))))
    assert verdicts(opened, "p") == {"n1": [], "n2": [], "n3": FAR, "n4": FAR}


def test_the_first_of_a_series_may_go_to_any_node_with_the_key() -> None:
    opened = cluster(labelled("p", "x", spec=near(ZONE, app("x"))))
    assert verdicts(opened, "p") == {"n1": [], "n2": [], "n3": [], "n4": FAR}


def test_a_pod_that_does_not_match_its_own_terms_waits_for_a_friend() -> None:
    opened = cluster(labelled("p", "y", spec=near(ZONE, app("x"))))
    assert nodes_of(opened) == []


def test_once_a_friend_exists_anywhere_the_series_has_begun() -> None:
    opened = cluster(labelled("old", "x", "n3"), labelled("p", "x", spec=near(ZONE, app("x"))))
    assert nodes_of(opened) == ["n3"]


def test_a_friend_on_a_node_without_the_key_does_not_count() -> None:
    opened = cluster(labelled("old", "x", "n4"), labelled("p", "x", spec=near(ZONE, app("x"))))
    assert nodes_of(opened) == ["n1", "n2", "n3"]


def test_one_friend_must_match_all_terms() -> None:
    terms = (PodAffinityTerm(ZONE, app("x")), PodAffinityTerm(HOST, app("y")))
    spec = {"required_affinity": terms}
    apart = cluster(
        labelled("x", "x", "n1"), labelled("y", "y", "n1"), labelled("p", "z", spec=spec)
    )
    assert nodes_of(apart) == []
    wide = {"required_affinity": (terms[0], PodAffinityTerm(HOST, app("x", "y")))}
    assert nodes_of(cluster(labelled("x", "x", "n1"), labelled("p", "z", spec=wide))) == ["n1"]


# The incoming pod's anti-affinity.


def test_a_pod_stays_away_from_foes_by_the_topology_key() -> None:
    opened = cluster(labelled("old", "x", "n1"), labelled("p", "y", spec=away(ZONE, app("x"))))
    assert verdicts(opened, "p") == {"n1": NEAR_FOE, "n2": NEAR_FOE, "n3": [], "n4": []}


def test_each_term_counts_for_itself() -> None:
    spec = {
        "required_anti_affinity": (
            PodAffinityTerm(ZONE, app("x")),
            PodAffinityTerm(HOST, app("y")),
        )
    }
    opened = cluster(
        labelled("x", "x", "n3"), labelled("y", "y", "n1"), labelled("p", "z", spec=spec)
    )
    assert nodes_of(opened) == ["n2", "n4"]


def test_equal_pods_that_shun_each_other_spread_within_a_session() -> None:
    spec = away(HOST, app("x"))
    opened = cluster(labelled("a", "x", spec=spec), labelled("p", "x", spec=spec))
    opened.session.moves.place(opened.task("a"), "n2", TaskStatus.ALLOCATED)
    assert verdicts(opened, "p")["n2"] == NEAR_FOE
    opened.session.moves.unplace(opened.task("a"))
    assert verdicts(opened, "p")["n2"] == []


# Objections of pods on nodes.


def test_a_pod_on_a_node_keeps_others_away() -> None:
    opened = cluster(labelled("old", "x", "n1", away(ZONE, app("y"))), labelled("p", "y"))
    assert verdicts(opened, "p") == {"n1": UNWELCOME, "n2": UNWELCOME, "n3": [], "n4": []}


def test_a_node_names_its_own_foes_before_those_who_object() -> None:
    both = labelled("old", "x", "n1", away(HOST, app("y")))
    opened = cluster(both, labelled("p", "y", spec=away(HOST, app("x"))))
    assert verdicts(opened, "p")["n1"] == NEAR_FOE


def test_who_objects_from_a_node_without_the_key_is_not_heard() -> None:
    opened = cluster(labelled("old", "x", "n4", away(ZONE, app("y"))), labelled("p", "y"))
    assert nodes_of(opened) == ["n1", "n2", "n3", "n4"]


def test_only_nodes_with_objecting_pods_at_the_beginning_are_asked() -> None:
    objecting = away(HOST, app("y"))
    opened = cluster(
        labelled("old", "x", "n1", objecting),
        labelled("a", "x", spec=objecting),
        labelled("b", "x", spec=objecting),
        labelled("p", "y"),
    )
    opened.session.moves.place(opened.task("a"), "n2", TaskStatus.ALLOCATED)
    # Not n2: the pod there came in this session, and no other was there before.
    assert verdicts(opened, "p") == {"n1": UNWELCOME, "n2": [], "n3": [], "n4": []}
    opened.session.moves.evict(opened.task("old"))
    assert nodes_of(opened) == ["n1", "n2", "n3", "n4"]


def test_a_pod_that_joins_an_objecting_one_on_its_node_is_heard() -> None:
    opened = cluster(
        labelled("old", "x", "n1", away(HOST, app("z"))),
        labelled("a", "x", spec=away(HOST, app("y"))),
        labelled("p", "y"),
    )
    opened.session.moves.place(opened.task("a"), "n1", TaskStatus.ALLOCATED)
    assert verdicts(opened, "p")["n1"] == UNWELCOME


def test_a_task_once_skipped_is_skipped_for_the_whole_session() -> None:
    opened = cluster(
        labelled("old", "x", "n1", away(HOST, app("z"))),
        labelled("a", "x", spec=away(HOST, app("y"))),
        labelled("p", "y"),
    )
    assert nodes_of(opened) == ["n1", "n2", "n3", "n4"]
    opened.session.moves.place(opened.task("a"), "n1", TaskStatus.ALLOCATED)
    assert verdicts(opened, "p")["n1"] == []


def test_an_eviction_that_was_undone_leaves_the_pod_unseen() -> None:
    opened = cluster(labelled("old", "x", "n1"), labelled("p", "y", spec=away(HOST, app("x"))))
    statement = opened.session.statement()
    statement.evict(opened.task("old"), "test")
    statement.discard()
    assert opened.task("old").status is TaskStatus.RUNNING
    assert verdicts(opened, "p")["n1"] == []


# Namespaces.


@pytest.mark.parametrize(
    ("fields", "shunned"),
    [
        ({}, ["n1"]),
        ({"namespaces": ("other",)}, ["n3"]),
        ({"namespaces": ("other", "ns")}, ["n1", "n3"]),
        ({"namespace_selector": LabelSelector()}, ["n1", "n3"]),
        ({"namespace_selector": TEAM_RED}, ["n3"]),
        ({"namespace_selector": TEAM_RED, "namespaces": ("ns",)}, ["n1", "n3"]),
        ({"namespace_selector": app("x")}, []),
    ],
)
def test_a_term_speaks_of_its_namespaces(fields: dict[str, Any], shunned: list[str]) -> None:
    spaces = (Namespace("uid-ns", "ns"), Namespace("uid-other", "other", {"team": "red"}))
    own = cluster(
        labelled("a", "x", "n1"),
        labelled("b", "x", "n3", space="other"),
        labelled("p", "y", spec=away(HOST, app("x"), **fields)),
        extra=spaces,
    )
    assert [name for name, said in verdicts(own, "p").items() if said] == shunned
    # The same term, of a pod on a node, against pods of the one and of the other namespace.
    holder = labelled("a", "x", "n2", away(HOST, app("y"), **fields))
    theirs = cluster(holder, labelled("p", "y"), labelled("q", "y", space="other"), extra=spaces)
    objected = [name for name in ("p", "q") if verdicts(theirs, name)["n2"]]
    assert objected == [{"n1": "p", "n3": "q"}[name] for name in shunned]


def test_an_absent_selector_matches_nobody_and_an_empty_one_everybody() -> None:
    absent = labelled("p", "y", spec=away(HOST, None))
    assert nodes_of(cluster(labelled("old", "x", "n1"), absent)) == ["n1", "n2", "n3", "n4"]
    empty = labelled("p", "y", spec=away(HOST, LabelSelector()))
    assert nodes_of(cluster(labelled("old", "x", "n1"), empty)) == ["n2", "n3", "n4"]


# Whom it concerns.


def test_a_cluster_without_terms_never_looks() -> None:
    opened = cluster(labelled("old", "x", "n1"), labelled("p", "y"))
    assert opened.session.pods.had_anti_affinity is None
    assert opened.hooks.task_predicate["predicates"](opened.task("p")) is None
    assert opened.hooks.is_plain["predicates"](opened.task("p"))


def test_the_filter_can_be_switched_off() -> None:
    opened = cluster(
        labelled("old", "x", "n1", away(HOST, app("y"))),
        labelled("p", "y", spec=away(HOST, app("x"))),
        predicate__PodAffinityEnable=False,
    )
    assert nodes_of(opened) == ["n1", "n2", "n3", "n4"]

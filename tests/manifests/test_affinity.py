"""Selectors, affinity, tolerations and spread of pods."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import pod_pb2, selector_pb2
from tests.manifests.manifest import (
    pod,
    problem_of,
    requirements_said,
    said,
    to_spec,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(**terms: Any) -> pod_pb2.PodSpec:
    return to_spec({"affinity": {"nodeAffinity": terms}})


def test_required_node_terms_are_alternatives() -> None:
    found = node_affinity(
        **{
            REQUIRED: {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "zone", "operator": "In", "values": ["a", "b"]},
                            {"key": "gen", "operator": "Gt", "values": ["2"]},
                            {"key": "gpu", "operator": "DoesNotExist"},
                        ]
                    },
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    {},
                ]
            }
        }
    )
    first, second, third = found.required_node_terms.terms
    assert requirements_said(list(first.label_requirements)) == [
        "zone in a,b",
        "gen > 2",
        "gpu missing",
    ]
    assert requirements_said(list(second.field_requirements)) == ["metadata.name in n1"]
    assert third == selector_pb2.NodeSelectorTerm()


def test_no_required_terms_differ_from_an_empty_list_of_them() -> None:
    assert not to_spec({}).HasField("required_node_terms")
    assert not node_affinity(**{PREFERRED: []}).HasField("required_node_terms")
    found = node_affinity(**{REQUIRED: {"nodeSelectorTerms": []}})
    assert found.HasField("required_node_terms")
    assert not found.required_node_terms.terms


def test_preferred_node_terms_have_weights() -> None:
    expression = {"key": "disk", "operator": "Exists"}
    found = node_affinity(
        **{PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [expression]}}]}
    )
    (preferred,) = found.preferred_node_terms
    assert preferred.weight == 5
    assert requirements_said(list(preferred.term.label_requirements)) == ["disk exists"]


def test_pod_affinity_and_anti_affinity() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["3"]}],
        },
        "namespaces": ["x"],
        "namespaceSelector": {},
    }
    weighted = {"weight": 7, "podAffinityTerm": {"topologyKey": "host"}}
    found = to_spec(
        {
            "affinity": {
                "podAffinity": {REQUIRED: [term], PREFERRED: [weighted]},
                "podAntiAffinity": {REQUIRED: [{"topologyKey": "rack", "labelSelector": {}}]},
            }
        }
    )
    (near,) = found.required_affinity
    assert near.topology_key == "zone"
    assert said(near.selector) == ["a in 1", "b in 2", "c notin 3"]
    assert list(near.namespaces) == ["x"]
    assert near.HasField("namespace_selector")
    assert said(near.namespace_selector) == []
    (preferred,) = found.preferred_affinity
    assert (preferred.weight, preferred.term.topology_key) == (7, "host")
    assert not preferred.term.HasField("selector")
    assert not preferred.term.HasField("namespace_selector")
    (away,) = found.required_anti_affinity
    # Everything, which is not the same as nothing.
    assert away.HasField("selector")
    assert not found.preferred_anti_affinity


def folded(term: dict[str, Any], labels: dict[str, str]) -> list[str]:
    spec = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "z", **term}]}}}
    return said(to_spec(spec, labels=labels).required_affinity[0].selector)


LABELS = {"version": "7", "tenant": "red"}


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({"labelSelector": {"matchLabels": {"a": "1"}}, "matchLabelKeys": ["version"]},
         ["a in 1", "version in 7"]),
        ({"labelSelector": {}, "mismatchLabelKeys": ["tenant"]}, ["tenant notin red"]),
        ({"labelSelector": {}, "matchLabelKeys": ["absent", "version"]}, ["version in 7"]),
        # What an API server folded in already is not said twice.
        ({"labelSelector": {"matchExpressions": [
            {"key": "version", "operator": "In", "values": ["7"]}]},
          "matchLabelKeys": ["version"]}, ["version in 7"]),
        # Without a selector there is nothing to add to.
        ({"matchLabelKeys": ["version"]}, []),
    ],
)  # fmt: skip
def test_labels_of_the_pod_itself_are_folded_in(term: dict[str, Any], expected: list[str]) -> None:
    assert folded(term, LABELS) == expected


def test_pods_of_one_template_with_other_labels_have_selectors_of_their_own() -> None:
    term = {"labelSelector": {}, "matchLabelKeys": ["version"]}
    assert folded(term, {"version": "1"}) == ["version in 1"]
    assert folded(term, {"version": "2"}) == ["version in 2"]


def spread(labels: dict[str, str] | None = None, **fields: Any) -> pod_pb2.SpreadConstraint:
    constraint = {
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields
    }  # fmt: skip
    spec = {"topologySpreadConstraints": [constraint]}
    return to_spec(spec, labels=labels or {}).spread_constraints[0]


def test_spread_defaults() -> None:
    found = spread()
    assert (found.topology_key, found.max_skew, found.required) == ("zone", 1, True)
    assert not found.HasField("selector")
    assert (found.min_domains, found.honor_node_affinity, found.honor_node_taints) == (
        1,
        True,
        False,
    )


def test_spread_with_everything_said() -> None:
    found = spread(
        {"version": "7"},
        whenUnsatisfiable="ScheduleAnyway",
        maxSkew=3,
        minDomains=2,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        labelSelector={"matchLabels": {"app": "x"}},
        matchLabelKeys=["version", "absent"],
    )
    assert (found.max_skew, found.required, found.min_domains) == (3, False, 2)
    assert (found.honor_node_affinity, found.honor_node_taints) == (False, True)
    assert said(found.selector) == ["app in x", "version in 7"]


def test_tolerations() -> None:
    found = to_spec(
        {
            "tolerations": [
                {"operator": "Exists"},
                {"key": "a", "value": "1", "effect": "NoSchedule"},
                {"key": "b", "operator": "Equal", "value": "2", "effect": "PreferNoSchedule"},
                {"key": "c", "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": 300},
                {"key": "d", "operator": "Gt", "value": "5"},
            ]
        }
    )  # fmt: skip
    assert [
        (
            one.key,
            one.value,
            one.operator == selector_pb2.TOLERATION_OPERATOR_EXISTS,
            selector_pb2.TaintEffect.Name(one.effect)[13:],
        )
        for one in found.tolerations
    ] == [
        ("", "", True, "UNSPECIFIED"),
        ("a", "1", False, "NO_SCHEDULE"),
        ("b", "2", False, "PREFER_NO_SCHEDULE"),
        ("c", "", True, "NO_EXECUTE"),
    ]


def term_with(expression: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


WHERE = f"Pod a/p: spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (term_with({"key": "a", "operator": "Within", "values": ["b"]}),
         f"{WHERE}.operator: 'Within' is unknown; "
         "allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt"),
        (term_with({"key": "a"}),
         f"{WHERE}.operator: is missing; allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt"),
        (term_with({"operator": "Exists"}), f"{WHERE}.key: is missing"),
        (term_with({"key": "a", "operator": "In"}),
         f"{WHERE}.values: 0 given for In; allowed: at least one value"),
        (term_with({"key": "a", "operator": "Exists", "values": ["b"]}),
         f"{WHERE}.values: 1 given for Exists; allowed: no values"),
        (term_with({"key": "a", "operator": "Lt", "values": ["1", "2"]}),
         f"{WHERE}.values: 2 given for Lt; allowed: exactly one value"),
        (term_with({"key": "a", "operator": "In", "values": "b"}),
         "Pod a/p: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
         ".nodeSelectorTerms[0].matchExpressions[0].values: expected array, got str"),
        ({"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}},
         f"Pod a/p: spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: is missing; "
         "allowed: a label of nodes"),
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "z", "labelSelector": {
            "matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}]}}},
         f"Pod a/p: spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]"
         ".operator: 'Gt' is unknown; allowed: In, NotIn, Exists, DoesNotExist"),
        ({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0}]},
         "Pod a/p: spec.topologySpreadConstraints[0].maxSkew: 0 given; allowed: 1 or more"),
        ({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1}]},
         "Pod a/p: spec.topologySpreadConstraints[0].whenUnsatisfiable: is missing; "
         "allowed: DoNotSchedule, ScheduleAnyway"),
        ({"tolerations": [{"operator": "Maybe"}]},
         "Pod a/p: spec.tolerations[0].operator: 'Maybe' is unknown; allowed: Equal, Exists"),
        ({"tolerations": [{"value": "x"}]},
         "Pod a/p: spec.tolerations[0].key: is missing; "
         "allowed: an empty key with operator Exists"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]},
         "Pod a/p: spec.tolerations[0].effect: 'Never' is unknown; "
         "allowed: NoSchedule, PreferNoSchedule, NoExecute"),
    ],
)  # fmt: skip
def test_bad_terms_are_named_to_the_field(spec: dict[str, Any], problem: str) -> None:
    assert problem_of(pod(spec)) == problem

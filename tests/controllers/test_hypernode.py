"""The HyperNode controller: counts of nodes, and discovery by labels."""

from typing import Any

import pytest

from pumice.controllers.hypernode.controller import (
    HyperNodeController,
)
from pumice.controllers.hypernode.counting import MOST_PATTERNS, NameMatcher, NodeCounter
from pumice.controllers.hypernode.discovery import labelled_hyper_nodes
from pumice.controllers.hypernode.reconcile import LabelDiscovery, NodeCount, reconcile
from pumice.controllers.hypernode.types import HyperNode, HyperNodeSpec, HyperNodeStatus, Member
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import CONFIG_MAPS
from pumice.controllers.runtime.acts import NOTHING, Create, Emit, Reference
from pumice.controllers.runtime.objects import Manifest, Metadata
from pumice.controllers.selectors import matches
from tests.adapters.fake_clock import until
from tests.adapters.kubernetes.fake_api import FakeApi
from tests.controllers.running import Loops

ABOUT = Reference(CONFIG_MAPS, "volcano-system", "conf", "uid")
HYPER_NODES = "hypernodes.topology.volcano.sh"
NODES = {"n1": {"rack": "1"}, "n2": {"rack": "1"}, "m1": {"rack": "2"}, "x": {}}
CONF = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      IB_Net:
      - nodeLabel: spine
      - nodeLabel: leaf
      - nodeLabel: kubernetes.io/hostname
"""


def hyper_node(name: str, *members: Member, counted: int | None = None) -> HyperNode:
    spec = HyperNodeSpec(1, "", list(members))
    return HyperNode(Metadata(name=name, uid=f"uid-{name}"), spec, HyperNodeStatus(counted))


def member(kind: str = "Node", **selector: Any) -> Member:
    return Member(kind, selector)


EXACT = member(exactMatch={"name": "gone"})
REGEX = member(regexMatch={"pattern": "^n"})
LABEL = member(labelMatch={"matchLabels": {"rack": "1"}})


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ([EXACT], {"gone"}),
        ([REGEX], {"n1", "n2"}),
        ([LABEL, EXACT, REGEX], {"n1", "n2", "gone"}),
        ([member(regexMatch={"pattern": "("})], set()),
        ([member(labelMatch={})], set()),
        ([member("HyperNode", exactMatch={"name": "low"})], {"m1"}),
        ([member("HyperNode", exactMatch={"name": "top"})], set()),
    ],
)
def test_nodes_of_a_hyper_node(members: list[Member], names: set[str]) -> None:
    low = hyper_node("low", member(exactMatch={"name": "m1"}))
    top = hyper_node("top", *members)
    assert NodeCounter(NODES, {"low": low, "top": top}).nodes_of(top) == names


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"^n[[:digit:]]\z", {"n1", "n2"}),
        (r"\Qm1\E", {"m1"}),
        (r"(?<letter>x)", {"x"}),
        (r"\x{6d}", {"m1"}),
        # Valid for Python only.
        (r"^n(?=1)", set()),
        (r"(n)\1", set()),
        (r"^(n++)", set()),
    ],
)
def test_a_pattern_means_what_it_means_in_go(pattern: str, names: set[str]) -> None:
    top = hyper_node("top", member(regexMatch={"pattern": pattern}))
    assert NodeCounter(NODES, {"top": top}).nodes_of(top) == names


def test_a_hostile_pattern_ends() -> None:
    """A backtracking matcher would not return within the time limit of a test."""
    names = {"a" * 200 + str(number): Manifest() for number in range(1000)}
    for pattern in ("(a+)+$", "(a|aa)+$", "(a|b)*a(a|b){400}b"):
        top = hyper_node("top", member(regexMatch={"pattern": pattern}))
        assert NodeCounter(names, {"top": top}).nodes_of(top) == set()


def test_hyper_nodes_that_many_paths_lead_to_are_looked_at_once() -> None:
    hyper_nodes = {}
    for level in range(60):
        below = [member("HyperNode", exactMatch={"name": f"{level + 1}-{n}"}) for n in range(2)]
        for number in range(2):
            name = f"{level}-{number}"
            hyper_nodes[name] = hyper_node(name, *below, member(exactMatch={"name": name}))
    assert len(NodeCounter({}, hyper_nodes).nodes_of(hyper_nodes["0-0"])) == 119


def test_the_names_of_a_pattern_follow_the_nodes_and_are_limited_in_number() -> None:
    matcher = NameMatcher(["n1", "m1"])
    assert matcher.matching("^n") == {"n1"}
    matcher.set_names(["n1", "n2"])
    assert matcher.matching("^n") == {"n1", "n2"}
    for number in range(MOST_PATTERNS + 1):
        matcher.matching(str(number))
    assert len(matcher._found) < 10


@pytest.mark.parametrize(
    ("operator", "values", "is_selected"),
    [("In", ["1"], True), ("In", ["2"], False), ("NotIn", ["2"], True), ("NotIn", ["1"], False),
     ("Exists", None, True), ("DoesNotExist", None, False), ("Odd", ["1"], False)],
)  # fmt: skip
def test_selectors(operator: str, values: list[str] | None, is_selected: bool) -> None:
    expression = {"key": "rack", "operator": operator, "values": values}
    assert matches({"matchExpressions": [expression]}, NODES["n1"]) == is_selected


def test_a_count_is_written_once() -> None:
    assert reconcile(NodeCount(hyper_node("a", counted=2), 2)) == NOTHING
    assert len(reconcile(NodeCount(hyper_node("a"), 0)).stages) == 1


def test_hyper_nodes_from_labels() -> None:
    nodes = {
        "a": {"spine": "s1", "leaf": "l1"},
        "b": {"spine": "s1", "leaf": "l1"},
        "c": {"spine": "s1", "leaf": "l2"},
        "no-leaf": {"spine": "s1"},
        "no-spine": {"leaf": "l3"},
    }
    ((*acts,),) = reconcile(LabelDiscovery(CONF, nodes, {})).stages
    made = [act.body for act in acts if isinstance(act, Create)]
    shape = sorted(
        (one["spec"]["tier"], one["spec"]["tierName"], len(one["spec"]["members"])) for one in made
    )
    assert shape == [(1, "leaf", 1), (1, "leaf", 1), (1, "leaf", 2), (2, "spine", 2)]
    assert all(one["metadata"]["name"].startswith("hypernode-ib-net-tier") for one in made)
    names = {one["metadata"]["name"] for one in made}
    (top,) = [one for one in made if one["spec"]["tier"] == 2]
    assert {m["selector"]["exactMatch"]["name"] for m in top["spec"]["members"]} < names


def test_discovery_that_is_off_or_wrong() -> None:
    assert reconcile(LabelDiscovery("", NODES, {})) == NOTHING
    assert reconcile(LabelDiscovery(CONF.replace("true", "false"), NODES, {})) == NOTHING
    for text in ("[", "networkTopologyDiscovery: [{source: label, enabled: true}]", "- 1"):
        ((event,),) = reconcile(LabelDiscovery(text, NODES, {}, ABOUT)).stages
        assert isinstance(event, Emit)
        assert "cannot be read" in event.message
        # It was told before.
        assert reconcile(LabelDiscovery(text, NODES, {})) == NOTHING


def test_a_source_that_has_no_effect_is_named_once() -> None:
    text = CONF + "- {source: odd, enabled: true}\n- {source: other, enabled: false}\n"
    ((event,),) = reconcile(LabelDiscovery(text, {}, {}, ABOUT)).stages
    assert isinstance(event, Emit)
    assert (event.warning, event.message) == (
        True,
        "networkTopologyDiscovery: source 'odd' is not supported; allowed: label, ufm",
    )
    assert reconcile(LabelDiscovery(text, {}, {})) == NOTHING


async def test_discovery_follows_the_nodes(fake_api: FakeApi, loops: Loops) -> None:
    fake_api.resources |= {HYPER_NODES}
    fake_api.with_status |= {HYPER_NODES}
    metadata = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
    fake_api.put("configmaps", {"metadata": metadata, "data": {"volcano-controller.conf": CONF}})
    labels = {"spine": "s", "leaf": "l"}
    for name in ("a", "b"):
        fake_api.put("nodes", {"metadata": {"name": name, "labels": labels}})
    loops.start(HyperNodeController(ControllerOptions()))

    def counts() -> list[int]:
        held = [body for key, body in fake_api.objects.items() if key[0] == HYPER_NODES]
        return sorted(body.get("status", {}).get("nodeCount", -1) for body in held)

    await until(lambda: counts() == [2, 2])
    fake_api.remove("nodes", "", "a")
    await until(lambda: counts() == [1, 1])
    fake_api.put("nodes", {"metadata": {"name": "b", "labels": {"leaf": "l"}}})
    await until(lambda: counts() == [1])


def test_every_value_of_a_large_cluster_has_a_hyper_node_of_its_own() -> None:
    """Short suffixes of thousands of values are not all different."""
    nodes = {
        f"n{number}": {"leaf": f"leaf-{number}", "spine": f"spine-{number % 2}"}
        for number in range(3000)
    }
    found = labelled_hyper_nodes({"ib": ["spine", "leaf", "host"]}, nodes)
    assert len(found) == 3002
    leaves = {name for name, body in found.items() if body["spec"]["tier"] == 1}
    spines = [body for body in found.values() if body["spec"]["tier"] == 2]
    below = [one["selector"]["exactMatch"]["name"] for s in spines for one in s["spec"]["members"]]
    assert set(below) == leaves
    short = [name for name in leaves if len(name) == len("hypernode-ib-tier1-12345")]
    assert 2900 < len(short) < 3000

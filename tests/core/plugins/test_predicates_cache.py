"""The equivalence cache, the arguments, and who is not looked at."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.errors import ConfigurationError
from pumice.core.model.pod import Pod
from pumice.core.registry import Registry
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.verdicts import UU, Verdict, allowed, verdicts

NOT_MATCHED: Verdict = [("node(s) didn't match Pod's node affinity/selector", UU)]
CACHED: Verdict = [("plugin equivalence cache predicates failed", UU)]


def made_from(name: str, template: str, *selector: tuple[str, str]) -> Pod:
    annotations = {"volcano.sh/template-uid": template} if template else {}
    return pod(name, "g", spec={"node_selector": selector}, annotations=annotations)


def opened_with(*pods: Pod, enabled: object = True) -> Opened:
    nodes = node("n1", labels={"disk": "ssd"}), node("n2")
    plugin = options("predicates", predicate__CacheEnable=enabled)
    return Opened(queue(), pod_group("g"), *nodes, *pods, plugins=[plugin])


SSD = ("disk", "ssd")


def test_the_second_pod_of_a_template_gets_the_verdict_of_the_first() -> None:
    opened = opened_with(made_from("a", "t", SSD), made_from("b", "t", SSD))
    assert verdicts(opened, "a") == {"n1": [], "n2": NOT_MATCHED}
    assert verdicts(opened, "b") == {"n1": [], "n2": CACHED}
    assert allowed(opened, "b") == ["n1"]


def test_even_a_pod_with_another_spec_gets_it() -> None:
    opened = opened_with(made_from("a", "t", SSD), made_from("b", "t"))
    assert verdicts(opened, "a")["n2"] == NOT_MATCHED
    assert verdicts(opened, "b") == {"n1": [], "n2": CACHED}
    other = opened_with(made_from("a", "t"), made_from("b", "t", SSD))
    assert verdicts(other, "a")["n2"] == []
    assert verdicts(other, "b")["n2"] == []


def test_the_first_pod_itself_is_a_hit_when_it_is_asked_about_again() -> None:
    opened = opened_with(made_from("a", "t", SSD))
    assert verdicts(opened, "a")["n2"] == NOT_MATCHED
    assert verdicts(opened, "a")["n2"] == CACHED


def test_pods_without_a_template_or_of_another_one_are_looked_at() -> None:
    opened = opened_with(
        made_from("a", "t", SSD), made_from("b", "", SSD), made_from("c", "u", SSD)
    )
    for name in ("a", "b", "b", "c"):
        assert verdicts(opened, name)["n2"] == NOT_MATCHED


def test_without_the_switch_every_pod_is_looked_at() -> None:
    opened = opened_with(made_from("a", "t", SSD), made_from("b", "t", SSD), enabled=False)
    for name in ("a", "b"):
        assert verdicts(opened, name)["n2"] == NOT_MATCHED


# Arguments.


def read(**arguments: Any) -> None:
    plugin = {"name": "predicates", "arguments": arguments}
    read_configuration(
        {"actions": "allocate", "tiers": [{"plugins": [plugin]}]}, Registry().catalog()
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (f"predicate.{name}Enable", value)
            for name in (
                "NodeAffinity",
                "NodePorts",
                "TaintToleration",
                "PodAffinity",
                "NodeVolumeLimits",
                "VolumeZone",
                "PodTopologySpread",
                "VolumeBinding",
                "Cache",
                "DynamicResourceAllocation",
            )
            for value in (True, "false")
        ),
        ("volumebinding.bindTimeoutSeconds", 600),
        ("volumebinding.weight", 2),
        ("volumebinding.shape", [{"utilization": 0, "score": 10}]),
        ("dynamicresources.filterTimeoutSeconds", 0),
    ],
)
def test_every_argument_of_the_reference_is_taken(key: str, value: object) -> None:
    read(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("predicate.NodeAffinityEnable", "perhaps"),
        ("predicate.CacheEnable", 1),
        ("volumebinding.bindTimeoutSeconds", "600"),
        ("volumebinding.weight", 1.5),
        ("volumebinding.shape", "flat"),
        ("dynamicresources.filterTimeoutSeconds", "10s"),
        ("predicate.NodeAfinityEnable", True),
    ],
)
def test_a_wrong_type_or_an_unknown_name_is_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigurationError):
        read(**{key: value})

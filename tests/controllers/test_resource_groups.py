"""Resource groups of Volcano's admission configuration, and the policies that follow from them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pumice.controllers.admission.commands import admission_group
from pumice.controllers.admission.groups import (
    MOST_GROUPS,
    ConfigurationError,
    ResourceGroup,
    resource_groups,
)
from pumice.controllers.admission.policies import policies

CONFIGURATION = """
resourceGroups:
- resourceGroup: management
  object:
    key: namespace
    value:
    - mng-ns-1
  schedulerName: default-scheduler
  tolerations:
  - {effect: NoSchedule, key: taint, operator: Exists, tolerationseconds: 5}
  labels:
    volcano.sh/nodetype: management
- resourceGroup: cpu
  object:
    key: annotation
    value:
    - "volcano.sh/resource-group: cpu"
  affinity: '{"nodeAffinity": {}}'
- resourceGroup: gpu
  labels:
    volcano.sh/nodetype: 5
"""


def test_groups_are_read_in_order() -> None:
    first, second, third = resource_groups(CONFIGURATION)
    toleration = {"effect": "NoSchedule", "key": "taint", "operator": "Exists"}
    assert first == ResourceGroup(
        "management",
        ("mng-ns-1",),
        (),
        "default-scheduler",
        (("volcano.sh/nodetype", "management"),),
        ({**toleration, "tolerationSeconds": 5},),
    )
    own = ("volcano.sh/resource-group", "cpu")
    assert second == ResourceGroup("cpu", annotations=(own,), affinity={"nodeAffinity": {}})
    assert third.annotations == (("volcano.sh/resource-group", "gpu"),)
    assert third.node_selector == (("volcano.sh/nodetype", "5"),)


def test_a_config_map_and_an_empty_file() -> None:
    body = {"kind": "ConfigMap", "data": {"volcano-admission.conf": CONFIGURATION}}
    assert resource_groups(yaml.safe_dump(body)) == resource_groups(CONFIGURATION)
    for text in ("", "#resourceGroups:\n", "resourceGroups:\n", "kind: ConfigMap\n"):
        assert resource_groups(text) == []


def one(**fields: Any) -> str:
    return yaml.safe_dump({"resourceGroups": [{"resourceGroup": "a", **fields}]})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "invalid YAML"),
        ("[]", "is not a mapping"),
        ("groups: []", "unknown field 'groups'; allowed: resourceGroups"),
        ("resourceGroups: {}", "resourceGroups is not a list"),
        ("resourceGroups: [5]", "is not a mapping"),
        ("resourceGroups: [{}]", r"resourceGroups\[0\].resourceGroup is missing"),
        (one(label={}), "unknown field 'label'"),
        (one(labels=["a"]), "labels is not a mapping"),
        (one(labels={"a": ["b"]}), "labels.a is not a text"),
        (one(object={"key": "label", "value": []}), "allowed: namespace, annotation"),
        (one(object={"key": "annotation", "value": ["plain"]}), "is not an annotation"),
        (one(object={"key": "annotation", "value": ["a: ["]}), "is not an annotation"),
        (one(tolerations=[{"kee": "a"}]), "allowed: key, operator, value, effect"),
        (one(tolerations=[{"tolerationSeconds": "a"}]), "a number of seconds"),
        (one(affinity="{"), "is not JSON"),
        (one(affinity="[]"), "is not a mapping"),
        (one(affinity='{"node": {}}'), "allowed: nodeAffinity, podAffinity, podAntiAffinity"),
        (
            yaml.safe_dump({"resourceGroups": [{"resourceGroup": "a"}] * 2}),
            "'a' is named twice",
        ),
        (
            yaml.safe_dump(
                {"resourceGroups": [{"resourceGroup": f"g{n}"} for n in range(MOST_GROUPS + 1)]}
            ),
            "101 resourceGroups; allowed: 100",
        ),
    ],
)
def test_configurations_that_cannot_be_used(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        resource_groups(text)


def test_a_group_excludes_the_pods_of_those_before_it() -> None:
    made = [one for one in policies(resource_groups(CONFIGURATION)) if "mutations" in one["spec"]]
    names = [one["metadata"]["name"].partition(".")[0] for one in made]
    assert names == ["management", "cpu", "gpu"]
    conditions = [[c["expression"] for c in one["spec"]["matchConditions"]] for one in made]
    assert [len(some) for some in conditions] == [1, 2, 2]
    assert "mng-ns-1" in conditions[2][1]
    assert '"cpu"' in conditions[2][1]


def test_groups_without_members_or_effect_make_no_policy() -> None:
    nobody = ResourceGroup("a", scheduler_name="volcano")
    nothing = ResourceGroup("b", ("ns",))
    assert policies([nobody, nothing]) == []


def test_names_that_lead_to_one_policy_are_refused() -> None:
    some = [ResourceGroup(name, ("ns",), scheduler_name="s") for name in ("A b", "a-b")]
    with pytest.raises(ConfigurationError, match="lead to one name"):
        policies(some)
    with pytest.raises(ConfigurationError, match="no letter and no digit"):
        policies([ResourceGroup("--", ("ns",), scheduler_name="s")])


def test_the_command_prints_objects_or_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "volcano-admission.conf"
    file.write_text(CONFIGURATION)
    ended = CliRunner().invoke(admission_group, ["resource-groups", str(file)])
    assert ended.exit_code == 0
    assert list(yaml.safe_load_all(ended.output)) == policies(resource_groups(CONFIGURATION))
    for text, problem in (("[", "invalid YAML"), ("", "no resource group that changes pods")):
        file.write_text(text)
        ended = CliRunner().invoke(admission_group, ["resource-groups", str(file)])
        assert ended.exit_code == 2
        assert problem in ended.output

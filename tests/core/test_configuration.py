"""The scheduler configuration of Volcano, read strictly."""

from __future__ import annotations

import pytest
import yaml

from pumice.core.configuration import (
    DEFAULT_CONFIGURATION,
    FLAG_DEFAULTS,
    Arguments,
    ArgumentType,
    Catalog,
    Configuration,
    Limit,
    PluginOptions,
    boolean,
    by_name,
    duration,
    ignored,
    integer,
    mapping,
    mappings,
    number,
    read_configuration,
    text,
    texts,
)
from pumice.core.errors import ConfigurationError
from pumice.core.registry import Registry


class Allocate(Arguments):
    error_cache = boolean("predicateErrorCacheEnable", "remembers", default=True)


class Preempt(Arguments):
    most = integer("maxCandidateNodesAbsolute", 100, "at most so many")


class Numbers(Arguments):
    of = by_name(integer("", 7, "a number"))


class Packer(Arguments):
    weight = integer(
        "weight", 1, "a weight", Limit(at_least=0, lenient=True, otherwise="scores turn round")
    )
    factor = number(
        "factor",
        1.2,
        "a factor",
        Limit(at_least=1, at_most=3, otherwise="Volcano would use 1.2 instead"),
    )
    fast = boolean("fast", "a switch", default=False)
    mode = text("mode", "pack", "a mode", Limit(choices=("spread", "pack")))
    patience = duration("patience", "1m", "a time", Limit(above=0))
    table = mapping("table", Numbers, "numbers by name")
    rows = mappings("rows", Numbers, "several tables")
    words = texts("words", "some words")
    colour = ignored("colour", "nobody sees it", ArgumentType.STRING)
    resources = by_name(integer("resources.", 3, "a weight", Limit(at_least=0)))
    old = ignored("old.*", "it was removed")


CATALOG = Catalog(
    {"enqueue": Arguments, "allocate": Allocate, "preempt": Preempt},
    {
        "gang": Arguments,
        "drf": Arguments,
        "proportion": Arguments,
        "capacity": Arguments,
        "packer": Packer,
    },
    {"broken": "cannot be imported from broken:Plugin: ImportError: no cheese"},
)


def read(text: str, catalog: Catalog = CATALOG) -> Configuration:
    return read_configuration(yaml.safe_load(text), catalog)


def problems(text: str, catalog: Catalog = CATALOG) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        read(text, catalog)
    return [str(problem) for problem in refused.value.problems if not problem.warning]


def warnings(text: str, catalog: Catalog = CATALOG) -> list[str]:
    found = read(text, catalog).warnings
    assert all(warning.warning for warning in found)
    return [str(warning) for warning in found]


def with_plugin(entry: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - {entry}\n"


def with_argument(argument: str) -> str:
    return with_plugin(f"{{name: packer, arguments: {{{argument}}}}}")


# The built-in default and the shipped file.

VOLCANO_DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def test_the_built_in_default_is_volcanos() -> None:
    configuration = read(VOLCANO_DEFAULT, Registry().catalog())
    assert configuration == DEFAULT_CONFIGURATION
    assert configuration.digest == DEFAULT_CONFIGURATION.digest
    assert configuration.warnings == ()


def test_the_file_of_volcanos_chart_is_read_without_a_word() -> None:
    configuration = read(
        """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
""",
        Registry().catalog(),
    )
    assert configuration.warnings == ()
    assert [p.name for p in configuration.tiers[1]][-1] == "binpack"
    assert not configuration.tiers[0][1].enabled("enablePreemptable")


# Actions.


def test_actions_run_in_the_order_of_the_text_and_spaces_do_not_count() -> None:
    assert read("actions: ' preempt ,allocate,  enqueue'").actions == (
        "preempt",
        "allocate",
        "enqueue",
    )


def test_an_action_listed_twice_runs_twice() -> None:
    assert read("actions: allocate, preempt, allocate").actions.count("allocate") == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tiers: []", "actions: must be one text such as"),
        ("actions: [allocate]", "actions: must be one text such as"),
        ("actions: ''", "actions: must name at least one action"),
        ("actions: allocate,", "actions: has an empty name between commas"),
        ("actions: Allocate", "unknown action 'Allocate'; did you mean 'allocate'?"),
        ("actions: alocate", "unknown action 'alocate'; did you mean 'allocate'?"),
        ("actions: zzz", "unknown action 'zzz'; known: allocate, enqueue, preempt"),
    ],
)
def test_actions_that_cannot_be_run_are_problems(text: str, problem: str) -> None:
    assert problem in problems(text)[0]


@pytest.mark.parametrize("text", ["", "7", "[]", "just a text"])
def test_a_file_that_is_no_mapping_is_a_problem(text: str) -> None:
    assert "must be a mapping with the keys actions and tiers" in problems(text)[0]


# Keys and plugins.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("actions: allocate\ntier: []", "tier: unknown key 'tier'; did you mean 'tiers'?"),
        ("actions: allocate\ntiers: {}", "tiers: must be a list of tiers"),
        ("actions: allocate\ntiers: [x]", "tiers[0]: must be a mapping with the key plugins"),
        (
            "actions: allocate\ntiers: [{plugin: []}]",
            "tiers[0].plugin: unknown key 'plugin'; did you mean 'plugins'?",
        ),
        ("actions: allocate\ntiers: [{plugins: 1}]", "tiers[0].plugins: must be a list"),
        (with_plugin("gang"), "tiers[0].plugins[0]: must be a mapping with the key name"),
        (with_plugin("{nam: gang}"), "tiers[0].plugins[0]: must be a mapping with the key name"),
        (
            with_plugin("name: gagn"),
            "tiers[0].plugins[0].name: unknown plugin 'gagn'; did you mean 'gang'?",
        ),
        (
            with_plugin("name: broken"),
            "plugin 'broken' is installed but cannot be imported from broken:Plugin",
        ),
        (
            with_plugin("{name: gang, enablePreemtable: no}"),
            "plugins[0].enablePreemtable: unknown key 'enablePreemtable'; "
            "did you mean 'enablePreemptable'?",
        ),
        (
            with_plugin("{name: gang, enableOverused: no}"),
            "unknown key 'enableOverused'; did you mean 'enabledOverused'?",
        ),
        (
            with_plugin("{name: gang, enablePreemptable: 'false'}"),
            "enablePreemptable: must be true or false, is 'false'; a quoted one is a text",
        ),
        (with_plugin("{name: gang, enableJobOrder: 1}"), "must be true or false, is 1"),
        (with_plugin("{name: gang, arguments: [1]}"), "must be a mapping of arguments"),
        (
            with_plugin("{name: gang, arguments: {weight: 1}}"),
            "unknown argument 'weight'; it takes none",
        ),
    ],
)
def test_what_volcano_ignores_is_a_problem_with_its_place(text: str, problem: str) -> None:
    assert problem in problems(text)[0]


def test_a_problem_carries_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read("actions: alocate")
    assert refused.value.problems[0].suggestion == "allocate"
    assert refused.value.problems[0].path == ("actions",)


def test_all_problems_are_found_at_once_and_warnings_come_last() -> None:
    text = "actions: alocate\nminimumFeasibleNodes: 1\ntiers:\n- plugins:\n  - name: gagn\nx: 1"
    with pytest.raises(ConfigurationError) as refused:
        read(text)
    assert [p.warning for p in refused.value.problems] == [False, False, False, True]
    assert "minimumFeasibleNodes" not in str(refused.value)


@pytest.mark.parametrize("word", ["false", "no", "off", "n", "False", "NO"])
def test_flags_are_booleans_of_yaml_1_1(word: str) -> None:
    configuration = read(with_plugin(f"{{name: gang, enableJobOrder: {word}}}"))
    assert configuration.tiers[0][0].flags == (("enableJobOrder", False),)


def test_a_flag_without_a_value_is_as_good_as_absent() -> None:
    assert read(with_plugin("{name: gang, enableJobOrder: }")).tiers[0][0].flags == ()


def test_flags_are_on_unless_they_are_the_two_that_are_off() -> None:
    options = PluginOptions("gang")
    off = {flag for flag in FLAG_DEFAULTS if not options.enabled(flag)}
    assert off == {"enableHierarchy", "enabledClusterOrder"}
    assert len(FLAG_DEFAULTS) == 25


def test_a_plugin_listed_twice_is_a_problem() -> None:
    text = "actions: allocate\ntiers:\n- plugins: [{name: gang}]\n- plugins: [{name: gang}]"
    assert problems(text) == [
        "tiers[1]: plugin 'gang' is listed twice, first in tiers[0]; "
        "each placement would count twice"
    ]


def test_hierarchical_drf_and_proportion_cannot_share_a_tier() -> None:
    drf, proportion = "{name: drf, enableHierarchy: true}", "{name: proportion}"
    one = f"actions: allocate\ntiers: [{{plugins: [{drf}, {proportion}]}}]"
    two = f"actions: allocate\ntiers: [{{plugins: [{drf}]}}, {{plugins: [{proportion}]}}]"
    assert "cannot share a tier" in problems(one)[0]
    assert read(two).tiers[0][0].enabled("enableHierarchy")


# What does nothing.


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            with_plugin("name: gang") + "percentageNodesToFind: 5",
            "percentageNodesToFind: has no effect: every node is looked at",
        ),
        (with_plugin("{name: gang, enableNamespaceOrder: true}"), "Volcano removed the order of"),
        (with_plugin("{name: gang, enableTargetJob: true}"), "no action asks for a target job"),
        (with_plugin("{name: gang, enableHierarchy: true}"), "only capacity, drf, nodegroup know"),
        (with_argument("colour: red"), "arguments.colour: has no effect: nobody sees it"),
        (with_argument("old.key: [any, thing]"), "has no effect: it was removed"),
        ("actions: allocate", "tiers: name no plugin"),
        ("actions: allocate\ntiers: [{plugins: }]", "tiers: name no plugin"),
        (
            "actions: allocate\ntiers: [{plugins: [{name: proportion}, {name: capacity}]}]",
            "proportion and capacity both divide the cluster",
        ),
    ],
)
def test_what_does_nothing_is_a_warning(text: str, warning: str) -> None:
    found = warnings(text)
    assert len(found) == 1
    assert warning in found[0]


def test_warnings_are_no_part_of_the_meaning() -> None:
    plain = read(with_plugin("name: gang"))
    noisy = read(with_plugin("name: gang") + "percentageNodesToFind: 5")
    assert plain == noisy
    assert plain.digest == noisy.digest


def test_the_digest_follows_the_meaning() -> None:
    def digest(text: str) -> str:
        return read(text).digest

    base = with_plugin("{name: packer, arguments: {weight: 1, fast: yes}}")
    same = with_plugin("{name: packer, arguments: {fast: 'true', weight: 1}}")
    other = with_plugin("{name: packer, arguments: {weight: 2, fast: yes}}")
    assert digest(base) == digest(same) != digest(other)

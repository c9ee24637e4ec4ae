"""The three generations of kube-batch's configuration give the same value as Volcano's."""

from __future__ import annotations

import pytest
import yaml

from pumice.core.configuration import (
    Arguments,
    Catalog,
    Configuration,
    boolean,
    integer,
    read_configuration,
)
from pumice.core.errors import ConfigurationError
from pumice.core.kubebatch import DEFAULT_CONFIGURATION
from pumice.core.kubebatch import read_configuration as read_kube_batch_configuration
from pumice.core.registry import Registry

NAMES = ("gang", "priority", "drf", "predicates", "proportion", "nodeorder")


class NodeOrder(Arguments):
    least = integer("leastrequested.weight", 1, "a weight")


class Predicates(Arguments):
    caches = boolean("predicate.CacheEnable", "a switch", default=False)


CATALOG = Catalog(
    dict.fromkeys(("allocate", "backfill", "preempt", "reclaim"), Arguments),
    {**dict.fromkeys(NAMES, Arguments), "nodeorder": NodeOrder, "predicates": Predicates},
    volcano=Registry().catalog().volcano,
)


def read(text: str) -> Configuration:
    return read_kube_batch_configuration(yaml.safe_load(text), CATALOG)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        read(text)
    return [str(problem) for problem in refused.value.problems if not problem.warning]


def enabled(configuration: Configuration, plugin: str) -> dict[str, bool]:
    options = next(o for tier in configuration.tiers for o in tier if o.name == plugin)
    flags = (
        "JobReady JobPipelined JobOrder TaskOrder Preemptable Reclaimable QueueOrder Predicate "
        "NodeOrder"
    )
    return {word: options.enabled(f"enable{word}") for word in flags.split()}


# Flat: v0.2 and v0.3.

V0_3_DEFAULT = """
actions: reclaim, allocate, backfill, preempt
plugins: gang, priority, drf, predicates, proportion
plugin.gang.jobready: "true"
plugin.gang.joborder: "true"
plugin.gang.preemptable: "true"
plugin.priority.joborder: "true"
plugin.priority.taskorder: "true"
plugin.drf.preemptable: "true"
plugin.drf.joborder: "true"
"""


def test_the_default_of_v0_3_is_read() -> None:
    configuration = read(V0_3_DEFAULT)
    assert configuration.actions == ("reclaim", "allocate", "backfill", "preempt")
    assert [[o.name for o in tier] for tier in configuration.tiers] == [
        ["gang", "priority", "drf", "predicates", "proportion"]
    ]
    assert configuration.warnings == ()


def test_a_flat_flag_is_off_unless_it_is_set_and_other_points_are_on() -> None:
    configuration = read(V0_3_DEFAULT)
    always = dict.fromkeys(("Reclaimable", "QueueOrder", "Predicate", "NodeOrder"), True)
    assert enabled(configuration, "gang") == {
        "JobReady": True,
        "JobPipelined": True,
        "JobOrder": True,
        "TaskOrder": False,
        "Preemptable": True,
        **always,
    }
    assert enabled(configuration, "predicates") == {
        **dict.fromkeys(("JobReady", "JobPipelined", "JobOrder", "TaskOrder"), False),
        "Preemptable": False,
        **always,
    }


def test_a_flat_file_may_leave_everything_out() -> None:
    configuration = read("{}")
    assert configuration.actions == ("allocate", "preempt")
    assert [o.name for o in configuration.tiers[0]] == ["gang", "priority", "drf"]
    assert not enabled(configuration, "gang")["JobReady"]


@pytest.mark.parametrize("text", ["T", "1", "true", "'True'"])
def test_a_flat_flag_is_a_boolean_as_go_reads_it(text: str) -> None:
    configuration = read(f"plugins: gang\nplugin.gang.jobready: {text}")
    assert enabled(configuration, "gang")["JobReady"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("7", "must be a mapping with actions and plugins, or with tiers"),
        ("actions: alocate", "actions: unknown action 'alocate'; did you mean 'allocate'?"),
        ("plugins: gagn", "plugins: unknown plugin 'gagn'; did you mean 'gang'?"),
        ("plugins: gang,", "plugins: has an empty name between commas"),
        ("plugins: gang, gang", "plugins: lists a plugin twice"),
        ("plugins: [gang]", "plugins: must be a text"),
        ("plugin.gang.jobreddy: 'true'", "unknown flag 'jobreddy'; did you mean 'jobready'?"),
        ("plugin.gang.jobready: maybe", "must be true or false, is 'maybe'"),
        (
            "plugins: drf\nplugin.gang.jobready: 'true'",
            "is about plugin 'gang', which is not listed under plugins",
        ),
        ("plugin.gang: 'true'", "unknown key 'plugin.gang'"),
        ("plugs: gang", "unknown key 'plugs'; did you mean 'plugins'?"),
    ],
)
def test_a_flat_map_that_does_not_fit_is_refused(text: str, problem: str) -> None:
    assert problem in problems(text)[0]


# v0.4.


def test_negative_flags_switch_off() -> None:
    configuration = read(
        """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: gang
    disableJobReady: true
    disablePreemptable: yes
    disableJobOrder: false
- plugins:
  - name: proportion
    disableQueueOrder: true
  - name: predicates
    disablePredicate: true
"""
    )
    gang = enabled(configuration, "gang")
    assert [word for word, on in gang.items() if not on] == [
        "JobReady",
        "JobPipelined",
        "Preemptable",
    ]
    assert not enabled(configuration, "proportion")["QueueOrder"]
    assert not enabled(configuration, "predicates")["Predicate"]


# v0.5.


def test_the_default_of_v0_5_is_built_in() -> None:
    text = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
    assert read(text) == DEFAULT_CONFIGURATION


def test_arguments_are_texts() -> None:
    configuration = read(
        """
actions: allocate
tiers:
- plugins:
  - name: nodeorder
    enableNodeOrder: true
    arguments: {leastrequested.weight: "2"}
  - name: predicates
    arguments: {predicate.CacheEnable: "true"}
"""
    )
    nodeorder, predicates = configuration.tiers[0]
    assert nodeorder.arguments == Arguments({"leastrequested.weight": 2})
    assert predicates.arguments == Arguments({"predicate.CacheEnable": True})


def test_an_empty_argument_is_as_good_as_absent() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: nodeorder, arguments: {ARG}}]}]"
    configuration = read(text.replace("{ARG}", "{leastrequested.weight: ''}"))
    assert configuration.tiers[0][0].arguments == Arguments()


def test_an_action_that_kube_batch_never_had_is_refused() -> None:
    text = "actions: enqueue, allocate\ntiers: [{plugins: [{name: gang}]}]"
    assert problems(text) == ["actions: action 'enqueue' is Volcano's; kube-batch had none"]


def plugins(*entries: str) -> str:
    return f"actions: allocate\ntiers: [{{plugins: [{', '.join(entries)}]}}]"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("actions: allocate\ntiers: 7", "tiers: must be a list of tiers"),
        ("actions: allocate\ntiers: [7]", "tiers[0]: must be a mapping with the key plugins"),
        ("tiers: []", "actions: must be one text such as"),
        ("actions: allocate,\ntiers: []", "actions: has an empty name between commas"),
        ("actions: allocate\ntiers: []\nmetrics: {}", "metrics: unknown key 'metrics'"),
        (
            "actions: allocate\ntiers: []\nplugins: gang",
            "plugins: belongs to a flat configuration, which has no tiers",
        ),
        (plugins("gang"), "tiers[0].plugins[0]: must be a mapping with the key name"),
        (plugins("{name: gagn}"), "plugins[0].name: unknown plugin 'gagn'; did you mean 'gang'?"),
        (plugins("{name: gang}", "{name: gang}"), "tiers[0]: plugin 'gang' is listed twice"),
        (
            plugins("{name: gang, disableJobReady: true, enableJobOrder: true}"),
            "'enableJobOrder' is of v0.5, other flags of this file are of v0.4; use one kind",
        ),
        (
            plugins("{name: gang, disableJobReady: 'true'}"),
            "disableJobReady: must be true or false, is 'true'",
        ),
        (
            plugins("{name: gang, disableJobRedy: true}"),
            "unknown key 'disableJobRedy'; did you mean 'disableJobReady'?",
        ),
        (
            plugins("{name: gang, disableJobReady: true, arguments: {a: b}}"),
            "negative flags are of v0.4, where plugins take no arguments",
        ),
        (
            plugins("{name: gang, enableJobEnqueued: true}"),
            "unknown key 'enableJobEnqueued'; did you mean",
        ),
        (
            plugins("{name: nodeorder, arguments: {leastrequested.weight: two}}"),
            "must be a whole number, is 'two'",
        ),
    ],
)
def test_a_tiered_file_that_does_not_fit_is_refused(text: str, problem: str) -> None:
    assert problem in problems(text)[0]


# Without the switch.


@pytest.mark.parametrize(
    "text", [V0_3_DEFAULT, plugins("{name: gang, disableJobReady: true}")], ids=["flat", "v0.4"]
)
def test_volcanos_reader_recognises_the_shape_and_names_the_switch(text: str) -> None:
    with pytest.raises(ConfigurationError, match="compat switch kube-batch"):
        read_configuration(yaml.safe_load(text), CATALOG)

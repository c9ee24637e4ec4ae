"""The blocks ``configurations`` and ``metrics`` of a scheduler configuration."""

from __future__ import annotations

import pytest

from pumice.core.configuration import Arguments, Catalog
from tests.core.test_configuration import CATALOG, problems, read, warnings

PLUGINS = "tiers: [{plugins: [{name: gang}]}]\n"
HEAD = f"actions: enqueue, allocate\n{PLUGINS}"
WITH_USAGE = Catalog(CATALOG.actions, {**CATALOG.plugins, "usage": Arguments})


def test_arguments_of_an_action_are_typed() -> None:
    text = HEAD + (
        "configurations:\n- {name: allocate, arguments: {predicateErrorCacheEnable: off}}"
    )
    configuration = read(text)
    assert configuration.arguments_of("allocate") == Arguments({"predicateErrorCacheEnable": False})
    assert configuration.arguments_of("enqueue") == Arguments()


def test_the_first_entry_of_a_name_counts() -> None:
    text = HEAD + (
        "configurations:\n"
        "- {name: allocate, arguments: {predicateErrorCacheEnable: false}}\n"
        "- {name: allocate, arguments: {predicateErrorCacheEnable: true}}\n"
    )
    arguments = read(text).arguments_of("allocate")
    assert arguments == Arguments({"predicateErrorCacheEnable": False})
    assert warnings(text) == [
        "configurations[1]: has no effect: the first entry of 'allocate' counts"
    ]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("{}", "configurations: must be a list of {name, arguments}"),
        ("[x]", "configurations[0]: must be a mapping with the keys name and arguments"),
        ("[{name: alocate}]", "configurations[0].name: unknown action 'alocate'; did you mean"),
        ("[{name: allocate, args: {}}]", "configurations[0].args: unknown key 'args'"),
        ("[{name: enqueue, arguments: {a: 1}}]", "unknown argument 'a'; it takes none"),
        (
            "[{name: allocate, arguments: {predicateErrorCacheEnable: 7}}]",
            "arguments.predicateErrorCacheEnable: must be true or false, is 7",
        ),
    ],
)
def test_a_bad_entry_is_a_problem(entries: str, problem: str) -> None:
    assert problem in problems(f"{HEAD}configurations: {entries}")[0]


def test_arguments_of_an_action_that_does_not_run_have_no_effect() -> None:
    text = f"{HEAD}configurations: [{{name: preempt}}]"
    assert warnings(text) == [
        "configurations[0].name: has no effect: 'preempt' is not among the actions"
    ]


# Metrics.


def test_metrics_are_a_map_of_texts() -> None:
    text = HEAD.replace("{name: gang}", "{name: gang}, {name: usage}") + (
        "metrics: {type: elasticsearch, address: 'http://host:9200', interval: 10s, "
        "tls.insecureSkipVerify: true, elasticsearch.index: 7}"
    )
    assert read(text, WITH_USAGE).metrics == (
        ("address", "http://host:9200"),
        ("elasticsearch.index", "7"),
        ("interval", "10s"),
        ("tls.insecureSkipVerify", "true"),
        ("type", "elasticsearch"),
    )
    assert warnings(text, WITH_USAGE) == []


def test_metrics_do_nothing_while_no_plugin_reads_them() -> None:
    assert warnings(HEAD + "metrics: {type: prometheus_adaptor}") == [
        "metrics: have no effect: neither rescheduling nor usage is configured"
    ]


@pytest.mark.parametrize("block", ["", "{}", "{type: }", "{type: ''}"])
def test_without_a_type_nothing_is_collected(block: str) -> None:
    assert warnings(f"{HEAD}metrics: {block}") == []


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("[]", "metrics: must be a mapping of texts"),
        ("{type: promethus}", "metrics.type: must be one of prometheus, prometheus_adaptor"),
        ("{type: prometheus}", "metrics: the source 'prometheus' needs an address"),
        ("{type: elasticsearch}", "metrics: the source 'elasticsearch' needs an address"),
        ("{adress: x}", "metrics.adress: unknown argument 'adress'; did you mean 'address'?"),
        ("{interval: 30}", "metrics.interval: must be a duration"),
        ("{interval: 0s}", "metrics.interval: must be above 0"),
        ("{tls.insecureSkipVerify: maybe}", "must be true or false, is 'maybe'"),
        ("{address: [a]}", "metrics.address: must be a text"),
    ],
)
def test_metrics_that_cannot_be_collected_are_problems(block: str, problem: str) -> None:
    assert problem in problems(f"{HEAD}metrics: {block}")[0]

"""What the built-in actions and plugins say about their arguments."""

from __future__ import annotations

import pytest

from pumice.core.configuration import ArgumentType, Catalog, typed_value
from pumice.core.registry import Registry
from tests.core.test_configuration import problems, read, warnings

CATALOG: Catalog = Registry().catalog()


def with_argument(plugin: str, argument: str) -> str:
    entry = f"{{name: {plugin}, arguments: {{{argument}}}}}"
    return f"actions: allocate\ntiers: [{{plugins: [{entry}]}}]"


def with_action_argument(action: str, argument: str) -> str:
    head = f"actions: {action}\ntiers: [{{plugins: [{{name: gang}}]}}]\n"
    return f"{head}configurations: [{{name: {action}, arguments: {{{argument}}}}}]"


@pytest.mark.parametrize(
    ("plugin", "argument", "problem"),
    [
        ("binpack", "binpack.cpu: -1", "Volcano would use 1 instead"),
        ("binpack", "binpack.memory: -1", "Volcano would use 1 instead"),
        ("binpack", "binpack.resources.nvidia.com/gpu: -1", "Volcano would use 1 instead"),
        ("binpack", "binpack.weight: '10'", "must be a whole number, is '10'"),
        ("overcommit", "overcommit-factor: 0.9", "Volcano would use 1.2 instead"),
        ("sla", "sla-waiting-time: 3600", "must be a duration such as 1h2m3s"),
        ("sla", "sla-waiting-time: 0s", "must be above 0"),
        ("sla", "sla-waiting-time: -1h", "must be above 0"),
        ("capacity", "ancestorReclaimLevel: -1", "Volcano would use 0 instead"),
        ("nodeorder", "leastrequsted.weight: 1", "did you mean 'leastrequested.weight'?"),
        ("predicates", "predicate.NodeAffinityEnabled: true", "'predicate.NodeAffinityEnable'?"),
        ("gang", "weight: 1", "it takes none"),
    ],
)
def test_what_volcano_replaces_or_ignores_is_a_problem(
    plugin: str, argument: str, problem: str
) -> None:
    assert problem in problems(with_argument(plugin, argument), CATALOG)[0]


@pytest.mark.parametrize(
    ("plugin", "argument", "warning"),
    [
        ("binpack", "binpack.weight: -1", "below zero it prefers the emptiest node"),
        ("nodeorder", "nodeaffinity.weight: -2", "a negative weight inverts the score"),
        (
            "predicates",
            "predicate.DynamicResourceAllocationEnable: true",
            "has no effect: Volcano does not read it either",
        ),
        ("predicates", "predicate.GPUSharingEnable: true", "moved it to the plugin deviceshare"),
        ("predicates", "predicate.GPUNumberEnable: true", "moved it to the plugin deviceshare"),
        ("predicates", "predicate.resources.nvidia.com/gpu.cpu: 4", "resource-strategy-fit"),
        ("predicates", "volumebinding.bindTimeoutSeconds: 60", "has no effect"),
    ],
)
def test_what_is_used_oddly_or_not_at_all_is_a_warning(
    plugin: str, argument: str, warning: str
) -> None:
    found = warnings(with_argument(plugin, argument), CATALOG)
    assert len(found) == 1
    assert warning in found[0]


def test_thresholds_of_pods_are_accepted_in_both_spellings() -> None:
    text = "strategies: [{name: lowNodeUtilization, params: {thresholds: {pod: 20, pods: 20}}}]"
    found = " ".join(warnings(with_argument("rescheduling", text), CATALOG))
    assert "thresholds.pod: has no effect" in found
    assert "thresholds.pods: has no effect" in found


def test_the_error_cache_of_allocate_is_that_of_the_gang_actions() -> None:
    text = with_action_argument("allocate", "predicateErrorCacheEnable: false")
    assert not warnings(text, CATALOG)


@pytest.mark.parametrize("action", ["backfill", "reclaim"])
def test_the_error_cache_is_accepted_and_changes_nothing(action: str) -> None:
    text = with_action_argument(action, "predicateErrorCacheEnable: false")
    assert "has no effect" in warnings(text, CATALOG)[0]


def test_the_arguments_of_preempt_are_volcanos() -> None:
    text = with_action_argument(
        "preempt",
        "predicateErrorCacheEnable: true, enableTopologyAwarePreemption: true, "
        "minCandidateNodesPercentage: 10, minCandidateNodesAbsolute: 1, "
        "maxCandidateNodesAbsolute: 100, topologyAwarePreemptWorkerNum: 16",
    )
    assert len(read(text, CATALOG).arguments_of("preempt").items()) == 6
    assert len(warnings(text, CATALOG)) == 1


def test_every_default_is_a_value_that_the_reader_accepts() -> None:
    waiting = [*CATALOG.actions.values(), *CATALOG.plugins.values()]
    while waiting:
        declared = waiting.pop().declared
        assert len({argument.name for argument in declared}) == len(declared)
        for argument in declared:
            waiting += [argument.members] if argument.members else []
            if argument.kind in (None, ArgumentType.MAP, ArgumentType.LIST):
                continue
            if argument.default in (None, "") or argument.name == "metricsPeriod":
                continue
            assert typed_value(argument.default, argument.kind) == argument.default
            assert argument.limit is None or argument.limit.why_not(argument.default) is None

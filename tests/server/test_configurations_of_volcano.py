"""Configurations that Volcano installs, and those that its end-to-end tests run with, are read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pumice.core.registry import Registry
from pumice.server import configuration as served
from pumice.v1.configuration_pb2 import Configuration

FIRST = ["priority", {"name": "gang", "enablePreemptable": False}, "conformance"]
FAIR = {"name": "drf", "enablePreemptable": False}
DEFAULT = ["overcommit", FAIR, "predicates", "proportion", "nodeorder", "binpack"]
CLAIMS: dict[str, Any] = {
    "name": "predicates",
    "arguments": {"predicate.DynamicResourceAllocationEnable": True},
}
ALL = "enqueue, allocate, backfill, reclaim, preempt"


def conf(actions: str, *tiers: list[Any], **more: Any) -> dict[str, Any]:
    named = [[{"name": p} if isinstance(p, str) else p for p in tier] for tier in tiers]
    return {"actions": actions, "tiers": [{"plugins": tier} for tier in named], **more}


def for_tests(queues: Any = "proportion", actions: str = ALL, **more: Any) -> dict[str, Any]:
    last = ["overcommit", FAIR, CLAIMS, queues, "nodeorder", "binpack", "network-topology-aware"]
    return conf(actions, [*FIRST, "sla"], last, **more)


# As Go writes them: arguments are texts.
QUOTA = {
    "name": "capacity",
    "arguments": {
        "capacity.DRAConsumableCapacityEnable": "true",
        "capacity.DynamicResourceAllocationEnable": "true",
    },
}
GANG = conf(
    "allocate, backfill, gangreclaim, gangpreempt",
    [*FIRST, "sla", {"name": "capacity", "enableHierarchy": False}],
    ["overcommit", FAIR, CLAIMS, "nodeorder", "binpack", "network-topology-aware"],
)
TOPOLOGY_AWARE = {"name": "preempt", "arguments": {"enableTopologyAwarePreemption": "true"}}
CONFIGURATIONS = {
    "installed": conf("enqueue, allocate, backfill", FIRST, DEFAULT),
    "tests": for_tests(),
    "tests with capacity": for_tests("capacity"),
    "tests of quotas on devices": for_tests(QUOTA),
    "tests without enqueue": for_tests(actions="allocate, backfill, reclaim, preempt"),
    "tests of gang eviction": GANG,
    "tests of preemption": for_tests(configurations=[TOPOLOGY_AWARE]),
    "tests with a tree": for_tests({"name": "capacity", "enableHierarchy": True}),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_it_is_read(name: str) -> None:
    message = Configuration(scheduler_conf=yaml.safe_dump(CONFIGURATIONS[name]))
    read = served.read(message, Registry())
    assert read.scheduler.actions
    # Volcano does not read this argument either.
    unread = [warning.path.rpartition("arguments.")[2] for warning in read.warnings]
    assert unread == [] or unread == [*CLAIMS["arguments"]]

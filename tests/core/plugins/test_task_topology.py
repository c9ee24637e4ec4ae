"""task-topology: buckets of roles that belong together or apart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.plugins.task_topology import (
    AFFINITY,
    ANTI_AFFINITY,
    TASK_ORDER,
    JobBuckets,
    TaskTopology,
)
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened


def member(role: str, number: int, cpu: float = 1, on: str = "", **fields: Any) -> ClusterObject:
    annotations = {"volcano.sh/task-spec": role}
    return pod(f"a-{role}-{number}", "a", cpu, on=on, role=role, annotations=annotations, **fields)


def group(size: int, annotations: dict[str, str]) -> ClusterObject:
    keys = {"near": AFFINITY, "away": ANTI_AFFINITY, "order": TASK_ORDER}
    return pod_group("a", size, annotations={keys[k]: v for k, v in annotations.items()})


def buckets(*members: ClusterObject, **annotations: str) -> list[list[str]] | None:
    session = Opened(queue(), node("n1"), node("n2"), group(1, annotations), *members, plugins=[])
    job = session.job("a")
    topology = TaskTopology.of(job)
    if topology is None:
        return None
    made = JobBuckets(job, topology)
    found: dict[int, list[str]] = {}
    for task in sorted(job.index, key=lambda t: t.name):
        bucket = made.bucket_of.get(task.uid)
        if bucket is not None:
            found.setdefault(bucket.index, []).append(task.name.removeprefix("a-"))
    return [found[index] for index in sorted(found)]


PS, WORKERS = [member("ps", i) for i in range(2)], [member("w", i) for i in range(4)]


def test_roles_that_attract_each_other_share_buckets() -> None:
    assert buckets(*PS, *WORKERS, near="ps,w", away="ps") == [
        ["ps-0", "w-0", "w-2"],
        ["ps-1", "w-1", "w-3"],
    ]


def test_a_role_that_repels_itself_is_alone() -> None:
    assert buckets(*PS, away="ps") == [["ps-0"], ["ps-1"]]


def test_roles_without_a_group_are_in_no_bucket() -> None:
    assert buckets(*PS, *WORKERS, near="ps") == [["ps-0", "ps-1"]]
    assert buckets(*PS, *WORKERS, order="w,ps") == []


def test_placed_tasks_make_the_buckets_of_their_nodes() -> None:
    placed = [member("ps", 0, on="n2"), member("ps", 1, on="n1")]
    assert buckets(*placed, member("w", 0), near="ps,w", away="ps") == [["ps-1", "w-0"], ["ps-0"]]


@pytest.mark.parametrize(
    "annotations",
    [{"near": "ps,x"}, {"near": "ps,ps"}, {"away": "w;w,x"}, {"order": "x"}, {"near": "ps, w"}],
)
def test_unknown_or_repeated_roles_make_it_void(annotations: dict[str, str]) -> None:
    assert buckets(*PS, *WORKERS, **annotations) is None


def test_empty_names_do_not_count() -> None:
    assert buckets(*PS, near="ps;,") == [["ps-0", "ps-1"]]


def test_jobs_without_annotations_cost_nothing() -> None:
    session = Opened(queue(), node("n1"), group(1, {}), *PS, plugins=["task-topology"])
    assert not session.hooks.task_order
    assert not session.hooks.task_score


def placed(
    nodes: int, *members: ClusterObject, size: int, cpu: float, **annotations: str
) -> dict[str, str]:
    weight = Arguments({"task-topology.weight": 10})
    tier = (
        *map(PluginOptions, ("gang", "predicates")),
        PluginOptions("task-topology", arguments=weight),
        PluginOptions("nodeorder"),
    )
    engine = Engine(Configuration(("allocate",), (tier,)))
    hosts = [node(f"n{i}", cpu) for i in range(nodes)]
    fill(engine, queue(), *hosts, group(size, annotations), *members)
    found = engine.schedule(NOW_NS).decisions
    return {d.name.removeprefix("a-"): d.node for d in found if isinstance(d, Bind)}


def test_a_bucket_goes_to_one_node() -> None:
    found = placed(4, *PS, *WORKERS, size=6, cpu=4, near="ps,w", away="ps")
    assert len(found) == 6
    assert found["ps-0"] == found["w-0"] == found["w-2"]
    assert found["ps-1"] == found["w-1"] == found["w-3"] != found["ps-0"]


def test_members_that_repel_each_other_are_spread() -> None:
    members = [member("w", i) for i in range(4)]
    found = placed(4, *members, size=4, cpu=8, away="w")
    assert sorted(Counter(found.values()).values()) == [1, 1, 1, 1]


def test_a_bucket_that_fits_no_node_is_placed_in_parts() -> None:
    members = [member("w", i) for i in range(5)]
    found = placed(3, *members, size=5, cpu=2, near="w")
    assert max(Counter(found.values()).values()) <= 2
    assert len(found) == 5


def test_the_bucket_with_more_waiting_tasks_comes_next() -> None:
    found = placed(4, *PS, *WORKERS, size=6, cpu=4, near="ps,w", away="ps")
    # A heap decides: a task that was first before the last placement is still taken.
    assert list(found) == ["ps-0", "w-0", "ps-1", "w-1", "w-3", "w-2"]

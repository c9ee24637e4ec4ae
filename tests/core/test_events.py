"""People are told what is new, and not the same thing session after session."""

from __future__ import annotations

from dataclasses import replace

from pumice.core.deltas import Deleted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase, SubGroupPolicy
from pumice.core.model.pod import Pod
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue

SECOND_NS = 10**9


def told(engine: Engine, second: int) -> list[tuple[str, str]]:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    return [(e.kind, e.message) for e in result.events if e.reason == "Unschedulable"]


def test_a_job_that_is_not_let_in_is_told_so_once() -> None:
    group = pod_group("big", phase=PodGroupPhase.PENDING, min_resources=(("cpu", 9000),))
    engine = fill(Engine(), node("n1", cpu=4), queue(), group)
    first = told(engine, 0)
    assert ("PodGroup", "resource in cluster is overused: overused cpu") in first
    assert told(engine, 1) == []
    assert told(engine, 2) == []


def test_it_is_told_again_when_the_reason_changes_or_comes_back() -> None:
    group = pod_group("big", phase=PodGroupPhase.PENDING, min_resources=(("cpu", 9000),))
    engine = fill(Engine(), node("n1", cpu=4), queue(), group)
    told(engine, 0)
    both = replace(group, min_resources=(("cpu", 9000), ("memory", 2**50)))
    fill(engine, both)
    assert ("PodGroup", "resource in cluster is overused: overused cpu, overused memory") in told(
        engine, 1
    )
    fill(engine, group)
    assert ("PodGroup", "resource in cluster is overused: overused cpu") in told(engine, 2)


def test_the_priority_of_a_sub_job_follows_its_tasks() -> None:
    policy = SubGroupPolicy("roles", match_label_keys=("role",), min_sub_groups=1)
    group = pod_group("job", sub_group_policies=(policy,))
    low = pod("low", "job", labels={"role": "a"}, task_priority=3)
    high = pod("high", "job", labels={"role": "a"}, task_priority=7)
    below = pod("below", "job", labels={"role": "b"}, task_priority=-5)
    engine = fill(Engine(), queue(), group, low, high, below)
    priorities = [s.priority for _, s in sorted(engine.cache.jobs["ns/job"].sub_jobs.items())]
    assert priorities == [7, 0]
    engine.apply([Deleted(Pod, high.uid)])
    priorities = [s.priority for _, s in sorted(engine.cache.jobs["ns/job"].sub_jobs.items())]
    assert priorities == [3, 0]

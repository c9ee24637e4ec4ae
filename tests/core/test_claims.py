"""A pod whose bind needs something that nobody provides is not bound: its job waits."""

from __future__ import annotations

import pytest

from pumice.core.model.pod import PodResourceClaim
from pumice.core.session.feasibility.plain import CLAIMS_NOT_ALLOCATED
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.kubebatch import older
from tests.world import make_engine

CLAIM = {"resource_claims": (PodResourceClaim("gpu", "gpu-claim"),)}


@pytest.mark.parametrize("plugins", [[["gang"]], []])
@pytest.mark.parametrize("cpu", [1, 0])
def test_a_pod_with_resource_claims_is_not_bound(plugins: list[list[str]], cpu: int) -> None:
    engine = make_engine("enqueue, allocate, backfill", plugins)
    claimer = pod("a-0", "a", cpu, 0, spec=CLAIM)
    fill(engine, node("n1"), queue(), pod_group("a"), claimer, pod_group("b"), pod("b-0", "b", cpu))
    result = engine.schedule(NOW_NS)
    assert [decision.name for decision in result.decisions] == ["b-0"]
    (wait,) = [w for w in result.waits if w.job == "ns/a"]
    assert CLAIMS_NOT_ALLOCATED in {c.reason for r in wait.reasons for c in r.nodes}


def test_nothing_is_evicted_for_a_pod_with_resource_claims() -> None:
    engine = make_engine("allocate, preempt, reclaim", [["priority", "gang"], ["predicates"]])
    running = pod("b-0", "b", 4, on="n1")
    claimer = pod("a-0", "a", 4, spec=CLAIM, task_priority=9)
    groups = (pod_group("a", priority_class_name="p9"), pod_group("b", 0))
    fill(engine, node("n1", 4), queue(), *groups, running, claimer)
    assert engine.schedule(NOW_NS).decisions == ()


def test_kube_batch_binds_none_either() -> None:
    groups = (pod_group("a"), pod_group("b"))
    pods = (pod("a-0", "a", spec=CLAIM), pod("b-0", "b"))
    result = fill(older.engine(), node("n1"), queue(), *groups, *pods).schedule(NOW_NS)
    assert [decision.name for decision in result.decisions] == ["b-0"]

"""overcommit: stops letting jobs in when too much was promised already."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.deltas import ClusterObject
from pumice.core.errors import ConfigurationError
from pumice.core.model.group import PodGroup, PodGroupPhase
from pumice.core.registry import Registry
from pumice.core.session.hooks import PERMIT, REJECT
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, minimum, options


def pending(name: str, cpu: float | None, **fields: Any) -> PodGroup:
    asked = None if cpu is None else minimum(cpu)
    return pod_group(name, phase=PodGroupPhase.PENDING, min_resources=asked, **fields)


def opened(*objects: ClusterObject, factor: float = 1.2) -> Opened:
    plugin = options("overcommit", **{"overcommit-factor": factor})
    return Opened(queue(), *objects, plugins=[plugin], actions=("enqueue",))


def vote(session: Opened, name: str) -> int:
    return session.hooks.job_enqueueable["overcommit"](session.job(name))


def enqueue(session: Opened, name: str) -> None:
    session.hooks.job_enqueued["overcommit"](session.job(name))


def test_the_worked_example() -> None:
    running = pod_group("j2", 1, phase=PodGroupPhase.RUNNING, min_resources=minimum(30))
    session = opened(
        node("n1", 100),
        pod("else", "", 45, on="n1"),
        pod_group("j1", min_resources=minimum(20)),
        running,
        pod("j2-0", "j2", 25, on="n1"),
        pending("j3", 25),
        pending("j4", 1),
    )
    # 120 - 70 used; 20 + 5 promised.
    assert vote(session, "j3") == PERMIT
    enqueue(session, "j3")
    assert vote(session, "j4") == REJECT


def test_a_job_without_minimum_is_permitted() -> None:
    assert vote(opened(node("n1", 1), pending("a", None)), "a") == PERMIT


def test_the_factor_inflates_the_cluster_and_has_a_default() -> None:
    jobs = [pending("exactly", 12), pending("above", 12.001)]
    assert vote(opened(node("n1", 10), *jobs), "exactly") == PERMIT
    assert vote(opened(node("n1", 10), *jobs), "above") == REJECT
    assert vote(opened(node("n1", 10), *jobs, factor=1.3), "above") == PERMIT


def test_a_factor_below_one_is_refused() -> None:
    entry = {"name": "overcommit", "arguments": {"overcommit-factor": 0.9}}
    data = {"actions": "enqueue", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError, match="overcommit-factor"):
        read_configuration(data, Registry().catalog())


def test_what_an_admitted_job_already_holds_counts_twice() -> None:
    admitted = pod_group("half", 2, min_resources=minimum(6))
    session = opened(
        node("n1", 10), admitted, pod("half-0", "half", 3, on="n1"), pending("a", 3.5), factor=1.0
    )
    # 10 - 3 used, 6 promised though 3 of them are held.
    assert vote(session, "a") == REJECT


def test_a_running_job_below_its_minimum_promises_nothing() -> None:
    running = pod_group("low", 2, phase=PodGroupPhase.RUNNING, min_resources=minimum(6))
    session = opened(
        node("n1", 10), running, pod("low-0", "low", 3, on="n1"), pending("a", 7), factor=1.0
    )
    assert vote(session, "a") == PERMIT


def test_gated_pods_are_not_promised_anything() -> None:
    gated = {"scheduling_gates": ("example.com/wait",)}
    session = opened(
        node("n1", 10),
        pod_group("held", 1, min_resources=minimum(6)),
        pod("held-0", "held", 6, spec=gated),
        pending("a", 10),
        factor=1.0,
    )
    assert vote(session, "a") == PERMIT


def test_a_resource_that_no_node_has_counts_as_zero() -> None:
    asks = pod_group("a", phase=PodGroupPhase.PENDING, min_resources=((GPU, 1000),))
    assert vote(opened(node("n1"), asks), "a") == REJECT


def test_a_cluster_used_beyond_its_size_lets_nobody_in() -> None:
    session = opened(node("n1", 1), pod("big", "", 50, on="n1"), pending("a", 0.001))
    assert vote(session, "a") == REJECT


def test_the_event_names_what_is_overused() -> None:
    asks = pod_group("a", phase=PodGroupPhase.PENDING, min_resources=minimum(100, 1000))
    session = opened(node("n1", 1, 1), asks)
    vote(session, "a")
    (event,) = session.session.events
    assert (event.reason, event.warning) == ("Unschedulable", False)
    assert event.message == "resource in cluster is overused: overused cpu, overused memory"

"""What a plugin guards is never exceeded: quotas, admitted resources, protected pods, loaded nodes.

The guards of queues, devices, cpus, budgets, node groups and windows are tested with their plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind, Evict, PodGateLifted, PodGroupStatusChanged, SessionResult
from pumice.core.deltas import ClusterObject, DataReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroup, PodGroupPhase, ResourceQuota
from pumice.core.model.pod import Pod, PodCondition
from pumice.core.plugins.cdp import COOLDOWN_TIME
from pumice.core.registry import Registry
from pumice.core.session.feasibility.node_usage import MAX_AGE_SECONDS
from tests.core.builders import NOW_NS, amounts, fill, node, pod, pod_group, priority_class, queue

SECOND_NS = 10**9
GATE = "scheduling.volcano.sh/queue-allocation-gate"
few: Callable[..., Any] = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def engine_with(
    actions: str, *plugins: str | dict[str, Any], gates: tuple[str, ...] = ()
) -> Engine:
    entries = [{"name": p} if isinstance(p, str) else p for p in plugins]
    data = {"actions": actions, "tiers": [{"plugins": entries}]}
    configuration = read_configuration(data, Registry().catalog())
    return Engine(configuration, CacheSettings(feature_gates=gates))


def admitted(results: list[SessionResult]) -> set[str]:
    """PodGroups that were let in."""
    return {
        change.name
        for result in results
        for change in result.statuses
        if isinstance(change, PodGroupStatusChanged)
        and change.status.phase is PodGroupPhase.INQUEUE
    }


def wanting(name: str, cpu: int) -> list[ClusterObject]:
    """A pending job that says what it needs at least."""
    needs = (("cpu", cpu * 1000),)
    group = pod_group(
        name, phase=PodGroupPhase.PENDING, min_resources=needs, min_resources_milli=needs
    )
    return [group, pod(f"{name}-0", name, cpu)]


@few
@given(
    asked=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    hard=st.integers(0, 8),
    used=st.integers(0, 4),
)
def test_no_quota_is_exceeded(asked: list[int], hard: int, used: int) -> None:
    engine = engine_with("enqueue", "gang", "resourcequota")
    held = ResourceQuota("uid-q", "ns", "q", (("cpu", hard * 1000),), (("cpu", used * 1000),))
    fill(engine, queue(), node("n1", 1000), held)
    for number, cpu in enumerate(asked):
        fill(engine, wanting(f"j{number}", cpu))
    # What is admitted in one session counts in it; the quota's status follows later.
    names = admitted([engine.schedule(NOW_NS)])
    total = sum(cpu for number, cpu in enumerate(asked) if f"j{number}" in names)
    assert total <= max(hard - used, 0)


@few
@given(
    asked=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    cpus=st.integers(1, 10),
    factor=st.sampled_from([1.0, 1.2, 2.0]),
)
def test_no_more_is_admitted_than_the_factor_allows(
    asked: list[int], cpus: int, factor: float
) -> None:
    arguments = {"overcommit-factor": factor}
    plugin = {"name": "overcommit", "arguments": arguments}
    engine = engine_with("enqueue", "gang", plugin)
    fill(engine, queue(), node("n1", cpus, 1000))
    for number, cpu in enumerate(asked):
        fill(engine, wanting(f"j{number}", cpu))
    names = admitted([engine.schedule(NOW_NS + s * SECOND_NS) for s in range(3)])
    total = sum(cpu for number, cpu in enumerate(asked) if f"j{number}" in names)
    assert total <= cpus * factor + 1e-6


@few
@given(
    protected=st.lists(st.integers(0, 300), min_size=1, max_size=6),
    wanted=st.integers(1, 6),
    later=st.integers(0, 300),
)
def test_protected_pods_are_not_evicted(protected: list[int], wanted: int, later: int) -> None:
    scheduled = PodCondition("PodScheduled", "True", transition_time_ns=NOW_NS)
    pods = [
        pod(f"low-{i}", "low", on="n1", labels={COOLDOWN_TIME: f"{s}s"}, conditions=(scheduled,))
        for i, s in enumerate(protected)
    ]
    engine = engine_with("preempt", "priority", "cdp", "predicates")
    high = pod_group("high", wanted, priority_class_name="high")
    fill(engine, queue(), node("n1", len(protected)), priority_class("high", 9))
    fill(engine, pod_group("low", 0), pods, high)
    fill(engine, [pod(f"high-{i}", "high") for i in range(wanted)])
    result = engine.schedule(NOW_NS + later * SECOND_NS)
    gone = {d.name for d in result.decisions if isinstance(d, Evict)}
    assert gone <= {f"low-{i}" for i, seconds in enumerate(protected) if seconds <= later}


@few
@given(
    loads=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.sampled_from([0, 60, 10**6])),
        min_size=1,
        max_size=5,
    ),
    count=st.integers(1, 6),
    cpu=st.sampled_from([0, 1]),
)
def test_nodes_that_are_known_to_be_loaded_take_nobody(
    loads: list[tuple[int, int, int]], count: int, cpu: int
) -> None:
    arguments = {"thresholds": {"cpu": 60, "mem": 70}}
    engine = engine_with("allocate, backfill", "gang", {"name": "usage", "arguments": arguments})
    fill(engine, queue(), [node(f"n{i}") for i in range(len(loads))])
    fill(engine, pod_group("a"), [pod(f"a-{i}", "a", cpu, cpu) for i in range(count)])
    now = NOW_NS / SECOND_NS
    for number, (load, memory, age) in enumerate(loads):
        figures = {"cpu": float(load), "memory": float(memory), "time": now - age}
        engine.apply([DataReported("usage", f"n{number}", figures)])
    used = {d.node for d in engine.schedule(NOW_NS).decisions if isinstance(d, Bind)}
    for number, (load, memory, age) in enumerate(loads):
        is_loaded = age <= MAX_AGE_SECONDS and (load > 60 or memory > 70)
        assert not is_loaded or f"n{number}" not in used


@few
@given(
    devices=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    jobs=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=8),
)
def test_cpus_for_idle_devices_stay_free(devices: list[int], jobs: list[tuple[int, int]]) -> None:
    """Two cores for each idle device, of 10; pods that ask for a device may use them."""
    gpu = "example.com/gpu"
    proportion = {f"{gpu}.cpu": 2, f"{gpu}.memory": 0}
    arguments = {
        "proportional": {"enable": True, "resources": gpu, "resourceProportion": proportion}
    }
    plugin = {"name": "resource-strategy-fit", "arguments": arguments}
    engine = engine_with("allocate", "gang", "predicates", plugin)
    fill(engine, queue())
    for number, count in enumerate(devices):
        made, more = node(f"n{number}", 10, 1000), ((gpu, count * 1000),)
        offered = (*made.allocatable, *more)
        fill(engine, replace(made, allocatable=offered, capacity=offered))
    taken = {f"n{number}": [0, 0] for number in range(len(devices))}
    for number, (asked, cpu) in enumerate(jobs):
        one = pod(f"j{number}-0", f"j{number}", cpu)
        requests = (*one.spec.requests, *(((gpu, asked * 1000),) if asked else ()))
        one = replace(one, spec=replace(one.spec, requests=requests))
        fill(engine, pod_group(f"j{number}"), one)
        for bind in engine.schedule(NOW_NS + number * SECOND_NS).decisions:
            assert isinstance(bind, Bind)
            which = int(bind.name[1:].partition("-")[0])
            taken[bind.node][0] += jobs[which][1]
            taken[bind.node][1] += jobs[which][0]
            cpus, used = taken[bind.node]
            if not jobs[which][0]:
                assert 10 - cpus >= 2 * (devices[int(bind.node[1:])] - used)


@few
@given(
    asked=st.lists(st.integers(1, 4), min_size=1, max_size=8),
    limit=st.integers(1, 8),
    has_gate=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_no_more_gates_are_lifted_than_the_queue_has_room_for(
    asked: list[int], limit: int, has_gate: list[bool]
) -> None:
    gates = ("SchedulingGatesQueueAdmission",)
    engine = engine_with("allocate", "gang", "capacity", "predicates", gates=gates)
    fill(engine, queue(capability=amounts(limit, 1000)), node("n1", 100, 1000))
    pods: dict[str, Pod] = {}
    for number, cpu in enumerate(asked):
        name, spec = f"j{number}", {"scheduling_gates": (GATE,)} if has_gate[number] else {}
        made = pod(f"{name}-0", name, cpu, 0, spec=spec, annotations={GATE: "true"})
        pods[made.uid] = made
        fill(engine, pod_group(name), made)
    lifted, running = set[str](), set[str]()
    for second in range(4):
        result = engine.schedule(NOW_NS + second * SECOND_NS)
        running |= {d.uid for d in result.decisions if isinstance(d, Bind)}
        for change in result.statuses:
            if isinstance(change, PodGateLifted) and second < 2:
                lifted.add(change.uid)
                free = replace(pods[change.uid].spec, scheduling_gates=())
                pods[change.uid] = replace(pods[change.uid], spec=free)
                engine.apply([Upserted(pods[change.uid])])
        held = lifted | running
        assert sum(dict(pods[uid].spec.requests)["cpu"] for uid in held) <= limit * 1000


def test_the_names_of_groups_are_those_of_jobs() -> None:
    """The helper above reads the names of PodGroups."""
    engine = engine_with("enqueue", "gang")
    fill(engine, queue(), node("n1"), wanting("a", 1))
    assert admitted([engine.schedule(NOW_NS)]) == {"a"}
    assert isinstance(engine.cache.jobs["ns/a"].group, PodGroup)

"""capacity: limits of queues on devices that are claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.cache.claimed_devices import class_of
from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind, Evict, QueueStatusChanged
from pumice.core.deltas import Upserted
from pumice.core.engine import Engine
from pumice.core.model.devices import (
    AllocatedDevice,
    Device,
    DeviceAllocation,
    DeviceCapacity,
    DeviceRequest,
    DeviceSubRequest,
)
from pumice.core.model.group import PodGroupPhase, Queue
from pumice.core.model.pod import PodResourceClaim
from pumice.core.registry import Registry
from pumice.server.explaining.reached_limits import with_limits
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, priority_class, queue
from tests.core.plugins.opened import Opened
from tests.core.plugins.test_predicates_claims import DRIVER, GPU, claim, shown, slice_of

COUNT, CORES = "deviceclass/gpu", "cores.deviceclass/gpu"
SECOND_NS = 10**9
PENDING: dict[str, Any] = {"phase": PodGroupPhase.PENDING, "min_resources": (("cpu", 100),)}


def engine_with(*objects: Any, actions: str = "allocate", **arguments: Any) -> Engine:
    plugins: list[dict[str, Any]] = [
        {"name": "priority"},
        {"name": "gang"},
        {"name": "predicates"},
        {"name": "capacity", "arguments": arguments, "enableHierarchy": True},
    ]
    data = {"actions": actions, "tiers": [{"plugins": plugins}]}
    engine = Engine(read_configuration(data, Registry().catalog()))
    devices = [
        Device(
            f"gpu-{i}", capacity={f"{DRIVER}/cores": DeviceCapacity(400_000)}, allows_sharing=True
        )
        for i in range(8)
    ]
    return fill(engine, queue("root"), GPU, node("n1", 64), slice_of("n1", *devices), *objects)


def limited(name: str = "default", **amounts: int) -> Queue:
    names = {"count": COUNT, "cores": CORES}
    return queue(name, capability=tuple((names[n], v * 1000) for n, v in amounts.items()))


def wish(count: int = 1, cores: int | None = None) -> DeviceRequest:
    capacity = () if cores is None else (("cores", cores * 1000),)
    return DeviceRequest("req", DeviceSubRequest("", "gpu", count=count, capacity=capacity))


def job(
    name: str, *claims: str, size: int = 1, minimum: int = 1, q: str = "default", **more: Any
) -> list[Any]:
    wanted = tuple(PodResourceClaim(f"c{i}", held) for i, held in enumerate(claims))
    on = more.pop("on", "")
    return [
        pod_group(name, minimum, queue_name=q, **more),
        *(
            pod(f"{name}-{i}", name, 0.1, 0.1, spec={"resource_claims": wanted}, on=on)
            for i in range(size)
        ),
    ]


def run(engine: Engine, second: int = 0) -> list[str]:
    return session(engine, second)[0]


def session(engine: Engine, second: int = 0) -> tuple[list[str], dict[str, dict[str, int]]]:
    """The pods that are bound, and devices in statuses of queues."""
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    assert not [d for d in result.decisions if isinstance(d, Evict)]
    statuses = {
        status.name: {n: a // 1000 for n, a in status.allocated if class_of(n)}
        for status in result.statuses
        if isinstance(status, QueueStatusChanged)
    }
    return sorted(d.name for d in result.decisions), statuses


def test_a_queue_takes_claims_up_to_its_number_of_devices() -> None:
    claims = [claim("a", wish(2)), claim("b", wish(1)), claim("c", wish(1))]
    engine = engine_with(limited(count=3), *claims, *job("a", "a"), *job("b", "b"), *job("c", "c"))
    assert run(engine) == ["a-0", "b-0"]
    assert run(engine, 1) == []


def test_what_is_over_the_limit_says_so_with_the_amounts() -> None:
    claims = [claim("a", wish(2)), claim("b", wish(2))]
    engine = engine_with(limited(count=3), *claims, *job("a", "a"), *job("b", "b"))
    run(engine)
    (wait,) = with_limits(engine, [w for w in engine.waits if w.job == "ns/b"], NOW_NS)
    limits = [limit for reason in wait.reasons for limit in reason.limits]
    assert [(x.queue, x.resource, x.asked, x.used, x.allowed) for x in limits] == [
        ("default", COUNT, 2000, 2000, 3000)
    ]


def test_a_claim_that_pods_share_counts_once() -> None:
    shared = claim("s", wish(1))
    engine = engine_with(limited(count=1), shared, *job("a", "s", size=2))
    (bind,) = engine.schedule(NOW_NS).decisions
    assert isinstance(bind, Bind)
    # The pods after the first wait until the claim is allocated.
    assert run(engine, 1) == []
    engine.apply([Upserted(shown(shared, bind))])
    bound, statuses = session(engine, 2)
    assert bound == ["a-1"]
    assert statuses["default"] == statuses["root"] == {COUNT: 1}
    fill(engine, claim("o", wish(1)), *job("b", "o"))
    assert run(engine, 4) == []


def test_a_simulated_eviction_frees_the_devices_of_its_queue() -> None:
    given = AllocatedDevice("req", DRIVER, "n1", "gpu-0")
    held = replace(claim("a", wish(1)), allocation=DeviceAllocation((given,), None, NOW_NS))
    opened = Opened(
        *(queue("root"), limited(count=1), GPU, node("n1", 64), held, claim("b", wish(1))),
        *(*job("a", "a", on="n1"), *job("b", "b")),
        plugins=["capacity"],
    )
    victim, task, own = opened.task("a-0"), opened.task("b-0"), opened.queue("default")
    simulation = opened.hooks.simulation["capacity"](task, 0)
    assert not simulation.is_allocatable(own, task)
    assert simulation.remove(victim) is None
    assert simulation.is_allocatable(own, task)
    assert simulation.add(victim) is None
    assert not simulation.is_allocatable(own, task)
    assert not opened.hooks.allocatable["capacity"](own, task), "the session does not change"


@pytest.mark.parametrize(
    ("limit", "fits"),
    [
        ({"count": 2, "cores": 500}, ["a-0"]),
        ({"cores": 500}, ["a-0"]),
        ({"cores": 600}, ["a-0", "b-0"]),
        # A capacity that the queue does not name cannot be had.
        ({"count": 2}, []),
        # A number of 0 is no limit.
        ({"count": 0, "cores": 600}, ["a-0", "b-0"]),
        # The queue says nothing about the class.
        ({}, ["a-0", "b-0"]),
    ],
)
def test_capacities_of_devices_have_limits_of_their_own(
    limit: dict[str, Any], fits: list[str]
) -> None:
    claims = [claim(name, wish(1, 300)) for name in "ab"]
    engine = engine_with(limited(**limit), *claims, *job("a", "a"), *job("b", "b"))
    assert run(engine) == fits


def test_each_switch_switches_its_limits_off() -> None:
    claims = [claim("a", wish(2, 300)), claim("b", wish(2, 300))]
    objects = [limited(count=3, cores=300), *claims, *job("a", "a"), *job("b", "b")]
    off: dict[str, Any] = {"capacity.DynamicResourceAllocationEnable": False}
    assert run(engine_with(*objects, **off)) == ["a-0", "b-0"]
    assert run(engine_with(*objects)) == []
    assert run(engine_with(*objects, **{"capacity.DRAConsumableCapacityEnable": "false"})) == [
        "a-0"
    ]


def test_the_limit_of_a_queue_above_counts_for_all_below_it() -> None:
    queues = [
        limited("team", count=2),
        queue("x", parent="team"),
        queue("y", parent="team", capability=((COUNT, 2000),)),
    ]
    claims = [claim(name, wish(1)) for name in "abc"]
    jobs = [*job("a", "a", q="x"), *job("b", "b", q="y"), *job("c", "c", q="x")]
    engine = engine_with(*queues, *claims, *jobs)
    bound, statuses = session(engine)
    assert len(bound) == 2
    assert statuses["team"] == {COUNT: 2}
    # In later sessions, too.
    assert run(engine, 1) == []


def test_jobs_are_let_in_up_to_the_limit_and_told() -> None:
    claims = [claim(name, wish(1)) for name in "ab"]
    jobs = [one for name in "ab" for one in job(name, name, **PENDING)]
    engine = engine_with(limited(count=1), *claims, *jobs, actions="enqueue, allocate")
    result = engine.schedule(NOW_NS)
    assert [d.name for d in result.decisions if isinstance(d, Bind)] == ["a-0"]
    told = [event.message for event in result.events if "quota" in event.message]
    assert told == ["queue resource quota insufficient: insufficient dra-resource-exceeded"]


def test_a_gang_that_shares_a_claim_is_let_in() -> None:
    shared = claim("s", wish(1))
    gang = job("a", "s", size=2, minimum=2, **PENDING)
    engine = engine_with(limited(count=1), shared, *gang, actions="enqueue")
    engine.schedule(NOW_NS)
    assert engine.cache.jobs["ns/a"].phase is PodGroupPhase.INQUEUE


def test_alternatives_and_all_devices_are_not_counted() -> None:
    either = DeviceRequest("r", None, (DeviceSubRequest("x", "gpu"), DeviceSubRequest("y", "gpu")))
    every = DeviceRequest("r", DeviceSubRequest("", "gpu", takes_all=True))
    engine = engine_with(limited(count=1), claim("a", either), claim("b", every))
    fill(engine, *job("a", "a"), *job("b", "b"))
    assert run(engine) == ["a-0", "b-0"]


@pytest.mark.parametrize(("count", "evicted"), [(2, ["a-0"]), (1, [])])
def test_a_victim_frees_its_part_of_the_limit(count: int, evicted: list[str]) -> None:
    # The node has one pod slot, and the claim of the new pod is allocated.
    claims = [claim("a", wish(2)), claim("b", wish(2))]
    allocation = DeviceAllocation((AllocatedDevice("req", DRIVER, "n1", "gpu-7"),))
    engine = engine_with(
        limited(count=count),
        node("n1", 64, pods=1),
        claims[0],
        replace(claims[1], allocation=allocation),
        priority_class("high", 9),
        *job("a", "a", on="n1", minimum=0),
        *job("b", "b", priority_class_name="high"),
        actions="allocate, preempt",
    )
    decisions = engine.schedule(NOW_NS).decisions
    assert [d.name for d in decisions if isinstance(d, Evict)] == evicted


@pytest.mark.parametrize(
    ("name", "class_"),
    [
        ("deviceclass/gpu", "gpu"),
        ("cores.deviceclass/gpu", "gpu"),
        (".deviceclass/gpu", ""),
        ("deviceclass/", ""),
        ("cores.deviceclass/", ""),
        ("nvidia.com/gpu", ""),
        ("deviceclasses/gpu", ""),
    ],
)
def test_names_of_resources_of_device_classes(name: str, class_: str) -> None:
    assert class_of(name) == class_


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from([None, 0, 100, 300]), st.sampled_from("xyz"),
            st.integers(0, 4), st.integers(1, 3),
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 6),
    st.integers(0, 900),
)  # fmt: skip
def test_no_queue_ever_has_more_devices_than_it_may(
    wishes: list[tuple[int, int | None, str, int, int]], most: int, cores: int
) -> None:
    queues = [
        limited("team", count=most, cores=cores),
        queue("x", parent="team", capability=((COUNT, 2000),)),
        queue("y", parent="team"),
        queue("z"),
    ]
    claims = {
        f"c{i}": claim(f"c{i}", wish(max(count, 1), amount))
        for i, (count, amount, *_) in enumerate(wishes)
    }
    engine = engine_with(
        *queues, *claims.values(), actions="enqueue, allocate, backfill, preempt, reclaim"
    )
    for i, (_, _, name, used, size) in enumerate(wishes):
        # Some claims are used by several jobs.
        wanted = f"c{used % len(wishes)}" if used else f"c{i}"
        fill(engine, *job(f"j{i}", wanted, size=size, minimum=min(size, 2), q=name))
    queue_of = {f"j{i}": wishes[i][2] for i in range(len(wishes))}
    users: dict[str, set[str]] = {"team": set(), "x": set()}
    for second in range(4):
        for decision in engine.schedule(NOW_NS + second * SECOND_NS).decisions:
            assert isinstance(decision, Bind)
            (choice,) = decision.claims
            name = queue_of[decision.name.partition("-")[0]]
            for level in {"x": ("x", "team"), "y": ("team",), "z": ()}[name]:
                users[level].add(choice.claim)
            if choice.allocation is not None:
                engine.apply([Upserted(shown(claims[choice.claim], decision))])
    wanted_of = {name: held.requests[0].exactly for name, held in claims.items()}
    for level, allowed in (("team", most), ("x", 2)):
        devices = [w for name in users[level] if (w := wanted_of[name]) is not None]
        assert not allowed or sum(w.count for w in devices) <= allowed
        if level == "team":
            assert sum(w.count * dict(w.capacity).get("cores", 0) for w in devices) <= cores * 1000

"""predicates: parts of devices that several claims share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.cache.device_catalog import consumed_capacity
from pumice.core.deltas import Upserted
from pumice.core.model.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceSubRequest,
    ResourceClaim,
)
from tests.core.builders import fill, node
from tests.core.plugins.test_predicates_claims import (
    DRIVER,
    claim,
    engine_with,
    exactly,
    reasons,
    run,
    shown,
    slice_of,
    using,
)

RANGE = CapacityPolicy(default=5000, minimum=5000, maximum=60000, step=5000)
VALUES = CapacityPolicy(default=1000, valid_values=(1000, 2000, 8000))


def device(name: str, value: int = 40, policy: CapacityPolicy | None = None, **more: Any) -> Device:
    capacity = {f"{DRIVER}/memory": DeviceCapacity(value * 1000, policy)}
    return Device(name, capacity=capacity, allows_sharing=True, **more)


def part(memory: int | None, count: int = 1) -> Any:
    capacity = () if memory is None else (("memory", memory * 1000),)
    return exactly("req", count, capacity=capacity)


@pytest.mark.parametrize(
    ("asked", "policy", "taken"),
    [
        # Without a policy: as much as is asked for, or all of it.
        (7000, None, 7000),
        (None, None, 40000),
        (None, RANGE, 5000),
        (1, RANGE, 5000),
        (5001, RANGE, 10000),
        (60000, RANGE, 60000),
        (60001, RANGE, None),
        (None, VALUES, 1000),
        (1500, VALUES, 2000),
        (8001, VALUES, None),
        (0, VALUES, 1000),
        (0, None, 0),
        # Nobody gives something back.
        (-1, None, None),
        (-1, RANGE, None),
        # A default that is no valid value is taken all the same.
        (None, CapacityPolicy(default=3000, valid_values=(1000,)), 3000),
        (7000, CapacityPolicy(default=1000), 7000),
    ],
)
def test_what_a_request_takes(
    asked: int | None, policy: CapacityPolicy | None, taken: int | None
) -> None:
    wanted = DeviceSubRequest(capacity=() if asked is None else (("memory", asked),))
    found = consumed_capacity(wanted, device("d", policy=policy), DRIVER)
    assert found == (None if taken is None else {f"{DRIVER}/memory": taken})


def test_a_capacity_that_the_device_does_not_have_cannot_be_had() -> None:
    wanted = DeviceSubRequest(capacity=(("cores", 1),))
    assert consumed_capacity(wanted, device("d"), DRIVER) is None


def test_claims_share_a_device_until_it_is_full() -> None:
    names = "abc"
    claims = [claim(name, part(20)) for name in names]
    jobs = [using(name, name) for name in names]
    engine = engine_with(node("n1"), slice_of("n1", device("gpu-0")), *claims, *jobs)
    binds = run(engine)
    assert sorted(binds) == ["a-0", "b-0"]
    given = [bind.claims[0].allocation for bind in binds.values()]
    results = [one.devices[0] for one in given if one is not None]
    assert {result.device for result in results} == {"gpu-0"}
    assert all(result.consumed_capacity == ((f"{DRIVER}/memory", 20000),) for result in results)
    assert len({result.share_id for result in results}) == 2
    assert "cannot allocate all claims" in reasons(engine, "c")
    # So it is when the cluster shows what was decided.
    engine.apply(
        [Upserted(shown(claims[0], binds["a-0"])), Upserted(shown(claims[1], binds["b-0"]))]
    )
    assert run(engine, 1) == {}


def test_a_request_takes_several_devices_and_no_device_twice() -> None:
    one = slice_of("n1", device("gpu-0"))
    engine = engine_with(node("n1"), one, claim("c", part(10, 2)), using("j", "c"))
    assert run(engine) == {}
    fill(engine, replace(one, devices=(device("gpu-0"), device("gpu-1")), generation=2))
    allocation = run(engine, 1)["j-0"].claims[0].allocation
    assert allocation is not None
    assert [result.device for result in allocation.devices] == ["gpu-0", "gpu-1"]


def test_a_device_that_is_not_shared_must_have_what_is_asked_for() -> None:
    whole = replace(device("gpu-0"), allows_sharing=False)
    claims = [claim("a", part(30)), claim("b", part(5)), claim("c", part(50))]
    jobs = [using(name, name) for name in "abc"]
    engine = engine_with(node("n1"), slice_of("n1", whole), *claims, *jobs)
    (bind,) = run(engine).values()
    allocation = bind.claims[0].allocation
    assert allocation is not None
    # It is taken as a whole.
    assert (allocation.devices[0].share_id, allocation.devices[0].consumed_capacity) == ("", ())


def test_those_who_share_a_device_take_its_counters_once() -> None:
    counters = (CounterSet("set", (("cores", 1000),)),)
    shared = [device(f"gpu-{i}", consumes=counters) for i in range(2)]
    claims = [claim(name, part(20)) for name in "abc"]
    jobs = [using(name, name) for name in "abc"]
    one = slice_of("n1", *shared, counters=counters)
    assert sorted(run(engine_with(node("n1"), one, *claims, *jobs))) == ["a-0", "b-0"]


def test_the_conditions_of_a_device_are_part_of_its_allocation() -> None:
    later = Device("gpu-0", binding_conditions=("ready",), binding_failure_conditions=("broken",))
    engine = engine_with(node("n1"), slice_of("n1", later), claim("c", exactly()), using("j", "c"))
    allocation = run(engine)["j-0"].claims[0].allocation
    assert allocation is not None
    (result,) = allocation.devices
    assert result.binding_conditions == ("ready",)
    assert result.binding_failure_conditions == ("broken",)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 2)), min_size=1, max_size=8),
    st.sampled_from([None, RANGE, VALUES]),
)
def test_no_device_is_ever_given_out_beyond_its_capacity(
    wishes: list[tuple[int, int]], policy: CapacityPolicy | None
) -> None:
    devices = [device(f"gpu-{i}", policy=policy) for i in range(2)]
    claims = {f"c{i}": claim(f"c{i}", part(size, count)) for i, (size, count) in enumerate(wishes)}
    objects = [node("n1"), slice_of("n1", *devices), *claims.values()]
    jobs = [using(name, name) for name in claims]
    engine = engine_with(*objects, *jobs)
    taken: dict[str, int] = {}
    for cycle in range(3):
        binds = run(engine, cycle)
        for bind in binds.values():
            (choice,) = bind.claims
            assert choice.allocation is not None
            for result in choice.allocation.devices:
                for _, amount in result.consumed_capacity:
                    taken[result.device] = taken.get(result.device, 0) + amount
            held: ResourceClaim = shown(claims[choice.claim], bind)
            engine.apply([Upserted(held)])
    assert all(amount <= 40000 for amount in taken.values())

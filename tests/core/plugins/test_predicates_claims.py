"""predicates: devices for the resource claims of pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.devices import (
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from pumice.core.model.pod import Pod, PodResourceClaim
from pumice.core.model.selectors import (
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue

SECOND_NS = 10**9
DRIVER = "gpu.example.com"
GPU = DeviceClass("uid-gpu", "gpu", (f'device.driver == "{DRIVER}"',))


def engine_with(*objects: Any) -> Engine:
    names = ("gang", "predicates", "nodeorder")
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in names]}]}
    engine = Engine(read_configuration(data, Registry().catalog()))
    return fill(engine, queue(), GPU, *objects)


def gpu(name: str, model: str = "a100", memory: int = 40, **fields: Any) -> Device:
    return Device(
        name,
        {f"{DRIVER}/model": model, f"{DRIVER}/numa": int(name[-1]) % 2},
        {f"{DRIVER}/memory": DeviceCapacity(memory * 1024**3 * 1000)},
        **fields,
    )


def slice_of(name: str, *devices: Device, **fields: Any) -> ResourceSlice:
    """The devices of one node, unless the fields say otherwise."""
    where = {"node_name": name} if not {"node_terms", "all_nodes"} & fields.keys() else {}
    values: dict[str, Any] = {"pool": name, "driver": DRIVER, "generation": 1, **where, **fields}
    return ResourceSlice(f"uid-slice-{name}", f"slice-{name}", devices=devices, **values)


def exactly(name: str = "req", count: int = 1, *selectors: str, **fields: Any) -> DeviceRequest:
    return DeviceRequest(name, DeviceSubRequest("", "gpu", selectors, count=count, **fields))


def claim(name: str, *requests: DeviceRequest, **fields: Any) -> ResourceClaim:
    return ResourceClaim(f"uid-claim-{name}", "ns", name, requests=requests, **fields)


def using(name: str, *claims: str, minimum: int = 1, size: int = 1) -> list[Any]:
    wanted = tuple(PodResourceClaim(f"c{i}", held) for i, held in enumerate(claims))
    spec = {"resource_claims": wanted}
    return [
        pod_group(name, minimum),
        *(pod(f"{name}-{i}", name, 0.1, 0.1, spec=spec) for i in range(size)),
    ]


def run(engine: Engine, second: int = 0) -> dict[str, Bind]:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    return {d.name: d for d in result.decisions if isinstance(d, Bind)}


def devices(bind: Bind) -> list[str]:
    return [
        f"{d.request}:{d.pool}/{d.device}"
        for choice in bind.claims
        if choice.allocation is not None
        for d in choice.allocation.devices
    ]


def reasons(engine: Engine, job: str) -> str:
    [wait] = [wait for wait in engine.waits if wait.job == f"ns/{job}"]
    return "; ".join(count.reason for reason in wait.reasons for count in reason.nodes)


def shown(held: ResourceClaim, bind: Bind) -> ResourceClaim:
    """The claim as the adapter writes it."""
    [choice] = [choice for choice in bind.claims if choice.claim == held.name]
    return replace(held, allocation=choice.allocation)


def test_a_bind_names_the_devices_of_its_claims() -> None:
    held = claim("c", exactly("req", 2))
    engine = engine_with(
        node("n1"), slice_of("n1", gpu("gpu-0"), gpu("gpu-1")), held, using("j", "c")
    )
    bind = run(engine)["j-0"]
    assert devices(bind) == ["req:n1/gpu-0", "req:n1/gpu-1"]
    [choice] = bind.claims
    assert (choice.claim, choice.claim_uid) == ("c", held.uid)
    assert choice.allocation is not None
    name = Requirement("metadata.name", Operator.IN, ("n1",))
    assert choice.allocation.node_terms == (NodeSelectorTerm((), (name,)),)


def test_a_device_is_given_out_once_before_and_after_it_is_shown() -> None:
    one, two = claim("one", exactly()), claim("two", exactly())
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), one, two)
    fill(engine, using("a", "one"), using("b", "two"))
    [bind] = run(engine).values()
    assert bind.name == "a-0"
    assert "cannot allocate all claims" in reasons(engine, "b")
    assert run(engine, 1) == {}
    engine.apply([OutcomeReported(bind.id, OutcomeCode.APPLIED)], NOW_NS)
    assert run(engine, 2) == {}
    engine.apply([Upserted(shown(one, bind))])
    assert run(engine, 3) == {}
    # The claim is released.
    engine.apply([Upserted(one)])
    engine.apply([Deleted(Pod, "uid-a-0")])
    assert sorted(run(engine, 4)) == ["b-0"]


def test_devices_of_a_failed_bind_are_free() -> None:
    one, two = claim("one", exactly()), claim("two", exactly())
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), one, two, using("a", "one"))
    [bind] = run(engine).values()
    engine.apply([OutcomeReported(bind.id, OutcomeCode.FAILED)], NOW_NS)
    engine.apply([Deleted(Pod, "uid-a-0")])
    fill(engine, using("b", "two"))
    assert sorted(run(engine, 1)) == ["b-0"]


def test_a_gang_that_does_not_fit_gives_its_devices_back() -> None:
    held = [claim(f"g{i}", exactly()) for i in range(3)]
    pods = [using("big", f"g{i}")[1] for i in range(3)]
    gang = [replace(p, uid=f"uid-big-{i}", name=f"big-{i}") for i, p in enumerate(pods)]
    engine = engine_with(
        node("n1"), slice_of("n1", gpu("gpu-0"), gpu("gpu-1")), held, pod_group("big", 3), gang
    )
    fill(engine, claim("s", exactly("req", 2)), using("small", "s"))
    assert sorted(run(engine)) == ["small-0"]


def test_unconfirmed_devices_survive_a_checkpoint() -> None:
    one, two = claim("one", exactly()), claim("two", exactly())
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), one, two, using("a", "one"))
    run(engine)
    other = engine_with()
    other.restore(engine.checkpoint())
    fill(other, using("b", "two"))
    assert run(other, 1) == {}


def test_an_earlier_request_leaves_what_a_later_one_needs() -> None:
    only = f'device.attributes["{DRIVER}"].model == "a100"'
    held = claim("c", exactly("any"), exactly("big", 1, only))
    engine = engine_with(
        node("n1"), slice_of("n1", gpu("gpu-0", "a100"), gpu("gpu-1", "t4")), held, using("j", "c")
    )
    assert devices(run(engine)["j-0"]) == ["any:n1/gpu-1", "big:n1/gpu-0"]


def test_the_first_alternative_that_can_be_had_is_taken_and_better_ones_are_preferred() -> None:
    alternatives = tuple(
        DeviceSubRequest(model, "gpu", (f'device.attributes["{DRIVER}"].model == "{model}"',))
        for model in ("h100", "a100")
    )
    held = claim("c", DeviceRequest("req", None, alternatives))
    nodes = [node("n1"), node("n2"), slice_of("n1", gpu("gpu-0", "a100"))]
    engine = engine_with(*nodes, slice_of("n2", gpu("gpu-0", "h100")), held, using("j", "c"))
    bind = run(engine)["j-0"]
    assert (bind.node, devices(bind)) == ("n2", ["req/h100:n2/gpu-0"])


def test_all_devices_or_none() -> None:
    held = claim("c", exactly("req", 1, takes_all=True))
    parts = [node("n1"), slice_of("n1", gpu("gpu-0"), gpu("gpu-1")), held]
    engine = engine_with(*parts, claim("d", exactly()), using("a", "d"))
    assert sorted(run(engine)) == ["a-0"]
    fill(engine, using("j", "c"))
    assert run(engine, 1) == {}
    other = engine_with(*parts, using("j", "c"))
    assert devices(run(other)["j-0"]) == ["req:n1/gpu-0", "req:n1/gpu-1"]


def test_admin_access_takes_nothing_away() -> None:
    held = claim("c", exactly("req", 1, admin_access=True))
    engine = engine_with(
        node("n1"), slice_of("n1", gpu("gpu-0")), held, claim("d", exactly()), using("a", "c")
    )
    fill(engine, using("b", "d"))
    assert sorted(run(engine)) == ["a-0", "b-0"]


@pytest.mark.parametrize(
    ("constraint", "found"),
    [
        (DeviceConstraint((), match_attribute=f"{DRIVER}/numa"), ["a:n1/gpu-0", "b:n1/gpu-2"]),
        (DeviceConstraint((), distinct_attribute=f"{DRIVER}/numa"), ["a:n1/gpu-0", "b:n1/gpu-1"]),
        (DeviceConstraint(("a",), match_attribute=f"{DRIVER}/numa"), ["a:n1/gpu-0", "b:n1/gpu-1"]),
        (DeviceConstraint((), match_attribute=f"{DRIVER}/none"), None),
    ],
)
def test_constraints_span_requests(constraint: DeviceConstraint, found: list[str] | None) -> None:
    held = claim("c", exactly("a"), exactly("b"), constraints=(constraint,))
    gpus = [gpu(f"gpu-{i}") for i in range(3)]
    engine = engine_with(node("n1"), slice_of("n1", *gpus), held, using("j", "c"))
    assert [devices(bind) for bind in run(engine).values()] == ([found] if found else [])


def test_taints_of_devices_need_tolerations() -> None:
    taint = DeviceTaint(Taint("broken", "", TaintEffect.NO_SCHEDULE))
    bad = slice_of("n1", gpu("gpu-0", taints=(taint,)))
    engine = engine_with(node("n1"), bad, claim("c", exactly()), using("j", "c"))
    assert run(engine) == {}
    tolerant = exactly(tolerations=(Toleration("broken", exists=True),))
    fill(engine, claim("d", tolerant), using("k", "d"))
    assert sorted(run(engine, 1)) == ["k-0"]


def test_devices_share_counters() -> None:
    counters = (CounterSet("mem", (("bytes", 100),)),)
    parts = [gpu(f"gpu-{i}", consumes=(CounterSet("mem", (("bytes", 60),)),)) for i in range(2)]
    held = slice_of("n1", *parts, counters=counters)
    engine = engine_with(node("n1"), held, claim("c", exactly()), claim("d", exactly()))
    fill(engine, using("a", "c"), using("b", "d"))
    assert sorted(run(engine)) == ["a-0"]


def test_only_the_newest_complete_generation_of_a_pool_counts() -> None:
    old = slice_of("n1", gpu("gpu-0"))
    new = replace(old, uid="uid-2", name="slice-2", generation=2, slice_count=2)
    engine = engine_with(node("n1"), old, new, claim("c", exactly()), using("j", "c"))
    assert run(engine) == {}
    fill(engine, replace(new, uid="uid-3", name="slice-3", devices=(gpu("gpu-9"),)))
    assert devices(run(engine, 1)["j-0"]) == ["req:n1/gpu-0"]


def test_devices_of_the_network_are_reached_from_several_nodes() -> None:
    zone = (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),)
    net = slice_of("net", gpu("gpu-0"), gpu("gpu-1"), node_terms=zone)
    nodes = [node("n1"), node("n2", labels={"zone": "a"})]
    engine = engine_with(*nodes, net, claim("c", exactly()), using("j", "c"))
    bind = run(engine)["j-0"]
    assert bind.node == "n2"
    assert bind.claims[0].allocation is not None
    assert bind.claims[0].allocation.node_terms == zone
    # A pod that shares the claim goes to where it can be used.
    engine.apply([Upserted(shown(claim("c", exactly()), bind))])
    fill(engine, using("k", "c"))
    other = run(engine, 1)["k-0"]
    assert (other.node, other.claims[0].allocation) == ("n2", None)


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        ([], 'resourceclaim "c" not found'),
        ([claim("c", exactly(), terminating=True)], "is being deleted"),
        ([claim("c", DeviceRequest("r", DeviceSubRequest("", "none")))], "does not exist"),
        ([claim("c", exactly("r", 1, "device.x == "))], "cannot be evaluated"),
        ([claim("c", exactly("r", 1, 'device.driver.matches("(")'))], "cannot be evaluated"),
        ([claim("c", exactly("r", 1, 'device.driver.find("a")'))], "cannot be evaluated"),
        (
            [claim("c", exactly("r", 1, f'device.attributes["{DRIVER}"].x == 1'))],
            "no such key: x",
        ),
        ([claim("c", exactly("r", 1, capacity=(("a/b", 1),)))], "cannot allocate all claims"),
        ([claim("c", exactly("r", 2))], "cannot allocate all claims"),
        ([claim("c", exactly("r", 33))], "cannot allocate all claims"),
        ([claim("c", DeviceRequest("r"))], "has neither exactly nor firstAvailable"),
    ],
)
def test_a_claim_that_cannot_be_allocated_says_why(objects: list[Any], problem: str) -> None:
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), *objects, using("j", "c"))
    assert run(engine) == {}
    assert problem in reasons(engine, "j")


def test_a_claim_from_a_template_is_waited_for() -> None:
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), using("j", ""))
    assert run(engine) == {}
    assert 'waiting for the resourceclaim of "c0"' in reasons(engine, "j")


def test_a_shared_claim_is_allocated_for_one_pod_at_a_time() -> None:
    held = claim("c", exactly())
    engine = engine_with(node("n1"), slice_of("n1", gpu("gpu-0")), held, using("j", "c", size=2))
    [bind] = run(engine).values()
    assert run(engine, 1) == {}
    assert "resource claim ns/c is in the process of being allocated" in reasons(engine, "j")
    engine.apply([Upserted(shown(held, bind))])
    assert sorted(run(engine, 2)) == ["j-1"]


def test_the_search_is_bounded() -> None:
    gpus = [gpu(f"gpu-{i}") for i in range(30)]
    unlike = DeviceConstraint((), match_attribute=f"{DRIVER}/none")
    held = claim("c", exactly("a", 15), exactly("b", 16))
    engine = engine_with(node("n1"), slice_of("n1", *gpus), held, using("j", "c"))
    assert run(engine) == {}
    assert "too many steps" in reasons(engine, "j")
    fill(engine, claim("d", exactly("a", 15), constraints=(unlike,)), using("k", "d"))
    assert run(engine, 1) == {}


MODELS = st.sampled_from(["a100", "t4"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(st.lists(MODELS, max_size=4), min_size=1, max_size=3),
    jobs=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["", "a100", "t4"])), min_size=1, max_size=7
    ),
    shows=st.booleans(),
)
def test_no_device_is_given_out_twice(
    nodes: Sequence[Sequence[str]], jobs: list[tuple[int, str]], shows: bool
) -> None:
    objects: list[Any] = []
    for number, models in enumerate(nodes):
        name = f"n{number}"
        gpus = [gpu(f"gpu-{i}", model) for i, model in enumerate(models)]
        objects += [node(name), slice_of(name, *gpus)]
    engine = engine_with(*objects)
    given: list[str] = []
    for number, (count, model) in enumerate(jobs):
        selectors = (f'device.attributes["{DRIVER}"].model == "{model}"',) if model else ()
        held = claim(f"c{number}", exactly("req", count, *selectors))
        fill(engine, held, using(f"j{number}", f"c{number}"))
        for bind in run(engine, number).values():
            found = devices(bind)
            own = next(c for c in engine.cache.devices.claims if c.name == bind.claims[0].claim)
            assert len(found) == jobs[int(bind.name[1:-2])][0]
            assert all(f":{bind.node}/" in device for device in found)
            given += [device.partition(":")[2] for device in found]
            if shows:
                engine.apply([Upserted(shown(own, bind))])
        assert len(set(given)) == len(given)

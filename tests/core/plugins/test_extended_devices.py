"""predicates: devices for extended resources that stand for a device class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.core.cache.devices import claim_name
from pumice.core.configuration import read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.devices import (
    CapacityPolicy,
    ClaimChoice,
    Device,
    DeviceAllocation,
    DeviceCapacity,
    DeviceClass,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from pumice.core.model.pod import ContainerResources, Pod, PodPhase, PodResourceClaim
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Requirement, Taint, TaintEffect
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, priority_class, queue

SECOND_NS = 10**9
DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
GPU = DeviceClass("uid-gpu", "gpu", (f'device.driver == "{DRIVER}"',), RESOURCE)
PLUGINS = ("gang", "predicates", "nodeorder")


def engine_with(
    *objects: Any, plugins: tuple[str, ...] = PLUGINS, actions: str = "allocate"
) -> Engine:
    data = {"actions": actions, "tiers": [{"plugins": [{"name": name} for name in plugins]}]}
    engine = Engine(read_configuration(data, Registry().catalog()))
    return fill(engine, queue(), *objects)


def slice_of(name: str, count: int, **fields: Any) -> ResourceSlice:
    shared = {"node_terms", "all_nodes"} & fields.keys()
    values: dict[str, Any] = {"pool": name, "driver": DRIVER, "generation": 1, **fields}
    values.setdefault("node_name", "" if shared else name)
    devices = values.pop("devices", tuple(Device(f"gpu-{i}") for i in range(count)))
    return ResourceSlice(f"uid-slice-{name}", f"slice-{name}", devices=devices, **values)


def asking(name: str, *counts: int, resource: str = RESOURCE, **fields: Any) -> list[Any]:
    """A gang; each pod has one container and asks for a number of devices."""
    made: list[Any] = [pod_group(name, len(counts), **fields)]
    for number, count in enumerate(counts):
        amounts = ((resource, count * 1000),)
        spec = {"containers": (ContainerResources(limits=amounts, name="main"),)}
        held = pod(f"{name}-{number}", name, 0.1, 0.1, spec=spec)
        requests = tuple(sorted((*held.spec.requests, *amounts)))
        made.append(replace(held, spec=replace(held.spec, requests=requests)))
    return made


def run(engine: Engine, second: int = 0) -> dict[str, Bind]:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    return {d.name: d for d in result.decisions if isinstance(d, Bind)}


def choice_of(bind: Bind) -> ClaimChoice:
    [choice] = [choice for choice in bind.claims if choice.requests]
    return choice


def devices(bind: Bind) -> list[str]:
    allocation = choice_of(bind).allocation
    assert allocation is not None
    return [f"{d.request}:{d.pool}/{d.device}" for d in allocation.devices]


def reasons(engine: Engine, job: str) -> str:
    [wait] = [wait for wait in engine.waits if wait.job == f"ns/{job}"]
    return "; ".join(count.reason for reason in wait.reasons for count in reason.nodes)


def shown(bind: Bind) -> ResourceClaim:
    """The claim as the adapter makes it."""
    choice = choice_of(bind)
    return ResourceClaim(
        f"uid-{choice.claim}",
        bind.namespace,
        choice.claim,
        owner_uid=bind.uid,
        requests=choice.requests,
        allocation=choice.allocation,
    )


def test_a_pod_gets_devices_of_the_class_and_a_claim_that_names_them() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 3), asking("j", 2))
    bind = run(engine)["j-0"]
    choice = choice_of(bind)
    assert devices(bind) == [f"container-0-request-0:n1/gpu-{i}" for i in (0, 1)]
    assert choice.claim_uid == ""
    assert choice.claim.startswith("j-0-extended-resources-")
    [request] = choice.requests
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count) == ("gpu", 2)
    [mapping] = choice.mappings
    assert (mapping.container, mapping.resource, mapping.request) == (
        "main",
        RESOURCE,
        request.name,
    )
    assert run(engine, 1) == {}


def test_the_implicit_name_of_a_class_works_without_an_explicit_one() -> None:
    bare = replace(GPU, extended_resource_name="")
    engine = engine_with(bare, node("n1"), slice_of("n1", 2), asking("j", 1, resource=IMPLICIT))
    assert devices(run(engine)["j-0"]) == ["container-0-request-0:n1/gpu-0"]


def test_devices_are_given_out_once_before_and_after_claims_show_them() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 2), asking("a", 2))
    bind = run(engine)["a-0"]
    fill(engine, asking("b", 1))
    assert run(engine, 1) == {}
    engine.apply([OutcomeReported(bind.id, OutcomeCode.APPLIED)], NOW_NS)
    engine.apply([Upserted(shown(bind))])
    assert run(engine, 2) == {}
    assert reasons(engine, "b") == f"Insufficient {RESOURCE}"
    engine.apply([Deleted(Pod, "uid-a-0"), Deleted(ResourceClaim, shown(bind).uid)])
    assert devices(run(engine, 3)["b-0"]) == ["container-0-request-0:n1/gpu-0"]


def test_a_gang_waits_until_all_its_devices_are_there() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 2), asking("j", 1, 1, 1))
    assert run(engine) == {}
    fill(engine, node("n2"), slice_of("n2", 1))
    binds = run(engine, 1)
    given = [device for bind in binds.values() for device in devices(bind)]
    assert len(binds) == len(set(given)) == 3


def test_a_node_with_a_device_plugin_gives_what_it_reports_and_no_devices() -> None:
    bare = node("n1")
    plugin = replace(bare, allocatable=(*bare.allocatable, (RESOURCE, 2000)))
    engine = engine_with(GPU, plugin, slice_of("n1", 4), asking("a", 2), asking("b", 1))
    binds = run(engine)
    assert list(binds) == ["a-0"]
    assert binds["a-0"].claims == ()
    fill(engine, node("n2"), slice_of("n2", 1))
    assert devices(run(engine, 1)["b-0"]) == ["container-0-request-0:n2/gpu-0"]


def test_a_wait_names_the_class_where_no_node_has_devices() -> None:
    engine = engine_with(GPU, node("n1"), asking("j", 1))
    assert run(engine) == {}
    assert reasons(engine, "j") == f"Insufficient {RESOURCE}: no node has devices of class gpu"
    engine = engine_with(node("n1"), slice_of("n1", 4), asking("j", 1))
    assert run(engine) == {}
    assert reasons(engine, "j") == f"Insufficient {RESOURCE}"


def test_a_pod_whose_containers_are_not_known_is_not_placed_without_devices() -> None:
    group, waiting = asking("j", 1)
    bare = replace(waiting, spec=replace(waiting.spec, containers=()))
    engine = engine_with(GPU, node("n1"), slice_of("n1", 1), group, bare)
    assert run(engine) == {}
    [wait] = engine.waits
    assert "not known which container" in str(wait.reasons)


def test_claims_of_pods_take_from_the_same_devices() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 2))
    first = asking("a", 1)
    fill(engine, first)
    bind = run(engine)["a-0"]
    allocation = choice_of(bind).allocation
    assert allocation is not None
    other = DeviceAllocation((replace(allocation.devices[0], device="gpu-1"),))
    fill(engine, ResourceClaim("uid-c", "ns", "c", allocation=other), asking("b", 1))
    assert run(engine, 1) == {}
    assert "cannot allocate all claims" in reasons(engine, "b")


def test_a_pod_has_claims_of_its_own_and_extended_resources() -> None:
    held = ResourceClaim("uid-c", "ns", "c")
    group, waiting = asking("j", 1)
    spec = replace(waiting.spec, resource_claims=(PodResourceClaim("c", "c"),))
    engine = engine_with(GPU, node("n1"), slice_of("n1", 2), held, group)
    fill(engine, replace(waiting, spec=spec))
    bind = run(engine)["j-0"]
    assert [choice.claim for choice in bind.claims] == ["c", claim_name(waiting)]


def test_a_failed_bind_frees_the_devices() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 1), asking("a", 1))
    bind = run(engine)["a-0"]
    engine.apply([OutcomeReported(bind.id, OutcomeCode.FAILED)], NOW_NS)
    again = run(engine, 3600)["a-0"]
    assert devices(again) == devices(bind)


def test_a_claim_that_an_earlier_attempt_left_does_not_stand_in_its_pods_way() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 1), asking("a", 1))
    bind = run(engine)["a-0"]
    fresh = engine_with(GPU, node("n1"), slice_of("n1", 1), asking("a", 1), shown(bind))
    assert devices(run(fresh)["a-0"]) == devices(bind)
    foreign = replace(shown(bind), owner_uid="somebody")
    fresh = engine_with(GPU, node("n1"), slice_of("n1", 1), asking("a", 1), foreign)
    assert run(fresh) == {}


def test_the_newest_class_has_a_name_that_two_classes_give() -> None:
    old = DeviceClass("uid-old", "a-class", ("false",), RESOURCE, 1)
    engine = engine_with(
        old, replace(GPU, creation_time_ns=2), node("n1"), slice_of("n1", 1), asking("j", 1)
    )
    [request] = choice_of(run(engine)["j-0"]).requests
    assert request.exactly is not None
    assert request.exactly.device_class_name == "gpu"


def test_devices_that_several_nodes_reach_go_to_one_pod() -> None:
    zone = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),))
    shared = slice_of("net", 1, node_terms=(zone,))
    engine = engine_with(GPU, node("n1", labels={"zone": "b"}), node("n2", labels={"zone": "a"}))
    fill(engine, node("n3", labels={"zone": "a"}), shared, asking("a", 1), asking("b", 1))
    binds = run(engine)
    assert [bind.node for bind in binds.values()] == ["n2"]
    assert "cannot allocate all claims" in reasons(engine, "b")


def test_tainted_devices_do_not_count() -> None:
    mark = DeviceTaint(Taint("broken", "", TaintEffect.NO_SCHEDULE))
    bad = slice_of("n1", 0, devices=(Device("gpu-0", taints=(mark,)),))
    engine = engine_with(GPU, node("n1"), bad, asking("j", 1))
    assert run(engine) == {}


@pytest.mark.parametrize(("share", "pods"), [(10, 4), (20, 2), (0, 5)])
def test_a_device_that_pods_share_has_room_for_several(share: int, pods: int) -> None:
    capacity = DeviceCapacity(40_000, CapacityPolicy(default=share * 1000))
    device = Device("gpu-0", capacity={f"{DRIVER}/memory": capacity}, allows_sharing=True)
    engine = engine_with(GPU, node("n1"), slice_of("n1", 0, devices=(device,)))
    fill(engine, *(asking(f"j{i}", 1) for i in range(5)))
    assert len(run(engine)) == pods


def test_init_containers_use_the_devices_of_later_ones() -> None:
    def container(name: str, count: int, **fields: Any) -> ContainerResources:
        return ContainerResources(limits=((RESOURCE, count * 1000),), name=name, **fields)

    containers = (
        container("main", 1),
        container("init-a", 4, init=True),
        container("sidecar", 2, init=True, sidecar=True),
        container("init-b", 3, init=True),
    )
    group, waiting = asking("j", 5)
    spec = replace(waiting.spec, containers=containers)
    engine = engine_with(GPU, node("n1"), slice_of("n1", 5), group, replace(waiting, spec=spec))
    choice = choice_of(run(engine)["j-0"])
    counts = {r.name: r.exactly.count for r in choice.requests if r.exactly is not None}
    main, sidecar, init = (f"container-{i}-request-0" for i in (3, 1, 2))
    assert counts == {main: 1, sidecar: 2, init: 2}
    assert [(m.container, m.request) for m in choice.mappings] == [
        ("sidecar", sidecar),
        ("main", main),
        ("init-a", sidecar),
        ("init-a", main),
        ("init-b", main),
        ("init-a", init),
        ("init-b", init),
    ]


def test_without_predicates_such_pods_wait() -> None:
    engine = engine_with(
        GPU, node("n1"), slice_of("n1", 1), asking("j", 1), plugins=("gang", "nodeorder")
    )
    assert run(engine) == {}


def test_devices_that_come_and_go_are_noticed() -> None:
    engine = engine_with(GPU, node("n1"), asking("j", 1))
    assert run(engine) == {}
    fill(engine, slice_of("n1", 1))
    engine.apply([Deleted(ResourceSlice, "uid-slice-n1")])
    assert run(engine, 1) == {}
    fill(engine, slice_of("n1", 1))
    engine.apply([Deleted(DeviceClass, GPU.uid)])
    assert run(engine, 2) == {}
    fill(engine, GPU)
    assert list(run(engine, 3)) == ["j-0"]


def test_a_pod_of_higher_priority_evicts_one_that_has_the_devices() -> None:
    plugins = ("priority", "conformance", "predicates", "nodeorder")
    low, high = priority_class("low", 1), priority_class("high", 9)
    engine = engine_with(
        GPU, low, high, node("n1"), slice_of("n1", 1), plugins=plugins, actions="allocate, preempt"
    )
    fill(engine, asking("small", 1, priority_class_name="low"))
    bind = run(engine)["small-0"]
    [_, victim] = asking("small", 1)
    running = replace(victim, node_name="n1", phase=PodPhase.RUNNING)
    engine.apply([OutcomeReported(bind.id, OutcomeCode.APPLIED)], NOW_NS)
    fill(engine, shown(bind), running, asking("big", 1, priority_class_name="high"))
    evicted = [d.name for d in engine.schedule(NOW_NS + SECOND_NS).decisions]
    assert evicted == ["small-0"]
    fill(engine, replace(running, terminating=True))
    assert run(engine, 2) == {}
    engine.apply([Deleted(Pod, running.uid)])
    # The claim goes after its pod.
    assert run(engine, 3) == {}
    engine.apply([Deleted(ResourceClaim, shown(bind).uid)])
    assert devices(run(engine, 4)["big-0"]) == devices(bind)


def test_queues_share_devices_like_any_resource() -> None:
    engine = engine_with(GPU, node("n1"), slice_of("n1", 2), plugins=(*PLUGINS, "proportion"))
    fill(engine, queue("other"), asking("a", 1), asking("b", 1), asking("c", 1))
    assert len(run(engine)) == 2
    limited = queue("small", capability=((RESOURCE, 1000),))
    engine = engine_with(
        GPU, node("n1"), slice_of("n1", 2), limited, plugins=(*PLUGINS, "capacity")
    )
    fill(engine, asking("a", 1, queue_name="small"), asking("b", 1, queue_name="small"))
    assert len(run(engine)) == 1


def test_a_long_name_of_a_pod_is_cut() -> None:
    name = claim_name(Pod("uid", "ns", "p" * 253))
    assert len(name) == 253


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=5),
)
def test_no_device_is_given_out_twice(supply: list[int], gangs: list[list[int]]) -> None:
    engine = engine_with(GPU)
    for number, count in enumerate(supply):
        fill(engine, node(f"n{number}"), slice_of(f"n{number}", count))
    for number, counts in enumerate(gangs):
        fill(engine, asking(f"j{number}", *counts))
    binds = run(engine)
    given_out = []
    for bind in binds.values():
        allocation = choice_of(bind).allocation
        assert allocation is not None
        assert {device.pool for device in allocation.devices} == {bind.node}
        given_out += [device.id for device in allocation.devices]
    assert len(given_out) == len(set(given_out)) <= sum(supply)
    for number, counts in enumerate(gangs):
        placed = sum(1 for name in binds if name.startswith(f"j{number}-"))
        assert placed in (0, len(counts))

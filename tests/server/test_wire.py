"""The wire and the engine's values say the same."""

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.errors import ObjectError
from pumice.core.model.group import PodGroup, Queue, Workload
from pumice.core.model.pod import (
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodPhase,
    PodSpec,
    SpreadConstraint,
    WeightedNodeTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    TaintEffect,
    Toleration,
)
from pumice.core.model.storage import PersistentVolume, PersistentVolumeClaim, VolumePhase
from pumice.server import wire
from pumice.v1 import object_pb2, selector_pb2, storage_pb2
from tests.server.samples import OBJECTS, POD, SPEC

FIELDS = object_pb2.ClusterObject.DESCRIPTOR.fields


def round_trip(value: Any, reader: wire.ObjectReader | None = None) -> Any:
    sent = wire.write_object(value).SerializeToString()
    return (reader or wire.ObjectReader()).read(object_pb2.ClusterObject.FromString(sent))


def silent_fields(value: Any, path: str = "") -> list[str]:
    """Fields of a sample, nested ones too, that hold what an absent field would mean."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        silent = []
        for field in (held for held in dataclasses.fields(value) if held.init):
            held, where = getattr(value, field.name), f"{path}.{field.name}"
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            silent += [where] if held == default else silent_fields(held, where)
        return silent
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return silent_fields(value[0], f"{path}[0]")
    return []


@pytest.mark.parametrize("field", OBJECTS)
def test_every_kind_survives_the_wire(field: str) -> None:
    assert wire.write_object(OBJECTS[field]).WhichOneof("object") == field
    assert round_trip(OBJECTS[field]) == OBJECTS[field]


def test_there_is_a_sample_of_every_kind_that_the_engine_holds() -> None:
    assert {field.name for field in FIELDS} == set(OBJECTS)


@pytest.mark.parametrize("field", OBJECTS)
def test_the_samples_leave_no_field_at_its_default(field: str) -> None:
    assert set(silent_fields(OBJECTS[field])) <= {
        # Exactly one of a member's three ways to choose is set.
        ".members[0].name_pattern",
        ".members[0].label_selector",
        # An empty selector stands for every namespace.
        ".spec.required_affinity[0].namespace_selector.requirements",
        ".spec.preferred_affinity[0].term.namespace_selector.requirements",
        ".spec.preferred_anti_affinity[0].term.namespace_selector.requirements",
    }


@pytest.mark.parametrize("field", OBJECTS)
def test_messages_and_values_have_the_same_fields(field: str) -> None:
    message = object_pb2.ClusterObject.DESCRIPTOR.fields_by_name[field].message_type
    assert message is not None
    # Which kind of workload it is, is said by the field that holds it.
    named = {held.name for held in message.fields} | ({"kind"} if "Work" in message.name else set())
    if field == "numa_topology":
        named = named - {"cpu_manager_policy", "topology_manager_policy"} | {"policies"}
    if field == "resource_slice":
        # The pool is spelled out, and lists of terms are no selectors.
        named = named - {"node_selector", "per_device_node_selection", "shared_counters"}
        named |= {"generation", "slice_count", "node_terms", "per_device", "counters"}
    # Times are counted in nanoseconds.
    values = {held.name.removesuffix("_ns") for held in dataclasses.fields(OBJECTS[field])}
    assert named == values


def test_a_field_of_an_object_has_the_number_of_its_kind() -> None:
    kinds = {f"KIND_{field.name.upper()}": field.number for field in FIELDS}
    assert kinds | {"KIND_UNSPECIFIED": 0} == dict(object_pb2.Kind.items())


def test_enums_that_are_read_by_number_have_equal_numbers() -> None:
    assert {f"OPERATOR_{o.name}": o.value for o in Operator}.items() <= set(
        selector_pb2.Operator.items()
    )
    assert [effect.value for effect in TaintEffect] == selector_pb2.TaintEffect.values()
    assert [phase.value for phase in VolumePhase] == storage_pb2.VolumePhase.values()


def test_absent_differs_from_empty() -> None:
    assert round_trip(Queue("u", "q", capability=())).capability == ()
    assert round_trip(Queue("u", "q")).capability is None
    assert round_trip(PodGroup("u", "a", "g", min_resources=())).min_resources == ()
    assert round_trip(PodGroup("u", "a", "g")).min_resources is None
    assert round_trip(PodGroup("u", "a", "g", sla_waiting_time_ns=0)).sla_waiting_time_ns == 0
    assert round_trip(PersistentVolume("u", "v", node_terms=())).node_terms == ()
    assert round_trip(PersistentVolume("u", "v")).node_terms is None
    claim = PersistentVolumeClaim("u", "a", "c", storage_class_name="")
    assert round_trip(claim).storage_class_name == ""
    for terms in (None, (), (NodeSelectorTerm(),)):
        pod = Pod("u", "a", "p", PodSpec(required_node_terms=terms))
        assert round_trip(pod).spec.required_node_terms == terms
    for selector in (None, LabelSelector()):
        assert round_trip(Workload("u", "Service", "a", "s", selector)).selector == selector


def test_a_field_left_out_means_what_the_engine_defaults_to() -> None:
    message = object_pb2.ClusterObject()
    message.pod.uid, message.pod.namespace, message.pod.name = "u", "a", "p"
    message.pod.spec.spread_constraints.add(topology_key="zone", max_skew=1)
    constraint = SpreadConstraint("zone", 1, required=False)
    assert wire.ObjectReader().read(message) == Pod(
        "u", "a", "p", PodSpec(spread_constraints=(constraint,))
    )


def test_maps_are_read_in_the_order_of_their_names() -> None:
    one = object_pb2.ClusterObject()
    one.node.uid, one.node.name = "u", "n"
    for name in ("pods", "cpu", "memory"):
        one.node.allocatable[name] = 1
    node = wire.ObjectReader().read(one)
    assert node is not None
    assert getattr(node, "allocatable", None) == (("cpu", 1), ("memory", 1), ("pods", 1))


def test_pods_with_the_same_spec_share_one_object() -> None:
    reader = wire.ObjectReader()
    other = dataclasses.replace(POD, uid="pod-2", name="job-worker-1")
    assert round_trip(POD, reader).spec is round_trip(other, reader).spec


def test_equal_specs_are_one_object_whatever_the_order_of_their_maps() -> None:
    specs = wire.SpecTable()
    first, second = wire.write_object(POD).pod.spec, wire.write_object(POD).pod.spec
    second.ClearField("requests")
    for name, amount in reversed(SPEC.requests):
        second.requests[name] = amount
    assert specs.read(first) is specs.read(second)


def test_the_table_of_specs_is_bounded() -> None:
    specs = wire.SpecTable(limit=10)
    for count in range(100):
        spec = dataclasses.replace(SPEC, container_count=count + 1)
        message = wire.write_object(dataclasses.replace(POD, spec=spec)).pod.spec
        assert specs.read(message) == spec
        assert len(specs) <= 10


def test_a_huge_spec_is_read_but_not_kept() -> None:
    specs = wire.SpecTable()
    spec = dataclasses.replace(SPEC, images=("x" * 200_000,))
    message = wire.write_object(dataclasses.replace(POD, spec=spec)).pod.spec
    assert specs.read(message) == spec
    assert len(specs) == 0


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
maybe_words = st.just("") | words
maps = st.dictionaries(words, maybe_words, max_size=3)
times = st.integers(0, 2**62)
small = st.integers(-(2**31), 2**31 - 1)
amounts = st.dictionaries(words, st.integers(0, 2**53 - 1), max_size=4).map(
    lambda held: tuple(sorted(held.items()))
)
requirements = st.lists(
    st.builds(
        Requirement,
        words,
        st.sampled_from(Operator),
        st.lists(maybe_words, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
selectors = st.none() | st.builds(LabelSelector, requirements)
node_terms = st.builds(NodeSelectorTerm, requirements, requirements)
pod_terms = st.builds(
    PodAffinityTerm, words, selectors, st.lists(maybe_words, max_size=2).map(tuple), selectors
)
pod_specs = st.builds(
    PodSpec,
    requests=amounts,
    non_zero_milli_cpu=st.integers(0, 2**53 - 1),
    node_selector=maps.map(lambda held: tuple(sorted(held.items()))),
    required_node_terms=st.none() | st.lists(node_terms, max_size=2).map(tuple),
    preferred_node_terms=st.lists(st.builds(WeightedNodeTerm, small, node_terms), max_size=2).map(
        tuple
    ),
    required_anti_affinity=st.lists(pod_terms, max_size=2).map(tuple),
    tolerations=st.lists(
        st.builds(
            Toleration, maybe_words, maybe_words, st.booleans(), st.sampled_from(TaintEffect)
        ),
        max_size=2,
    ).map(tuple),
    spread_constraints=st.lists(
        st.builds(
            SpreadConstraint,
            words,
            st.integers(1, 9),
            st.booleans(),
            selectors,
            st.integers(1, 9),
            st.booleans(),
            st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    container_count=st.integers(0, 99),
    images=st.lists(maybe_words, max_size=2).map(tuple),
    scheduling_gates=st.lists(maybe_words, max_size=2).map(tuple),
    never_preempts=st.booleans(),
)
statuses = st.sampled_from(("", "True", "False", "Unknown"))
pods = st.builds(
    Pod,
    uid=words,
    namespace=words,
    name=words,
    spec=pod_specs,
    creation_time_ns=times,
    labels=maps,
    annotations=maps,
    phase=st.sampled_from(PodPhase),
    terminating=st.booleans(),
    node_name=maybe_words,
    conditions=st.lists(
        st.builds(PodCondition, words, statuses, maybe_words, maybe_words, times), max_size=2
    ).map(tuple),
    group_name=maybe_words,
    role=maybe_words,
    priority=small,
    task_priority=small,
    preemptable=st.booleans(),
)
SHARED = wire.ObjectReader()


@settings(deadline=None, max_examples=150)
@given(pods)
def test_any_pod_survives_the_wire(pod: Pod) -> None:
    assert round_trip(pod, SHARED) == pod


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200))
def test_random_bytes_are_read_refused_or_no_message_at_all(data: bytes) -> None:
    message = object_pb2.ClusterObject()
    try:
        message.pod.MergeFromString(data)
        assert isinstance(SHARED.read(message), Pod)
    except (DecodeError, ObjectError):
        return


def test_the_wire_is_read_the_same_under_any_hash_seed() -> None:
    program = (
        "from tests.server.samples import OBJECTS\nfrom pumice.server import wire\n"
        "from pumice.v1.object_pb2 import ClusterObject as Sent\n"
        "for value in OBJECTS.values():\n"
        "    sent = wire.write_object(value).SerializeToString()\n"
        "    print(wire.ObjectReader().read(Sent.FromString(sent)))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1

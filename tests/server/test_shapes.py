"""Pods read in bulk are the pods that are read one by one."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.deltas import PodsUpserted, Upserted
from pumice.core.model.pod import Pod, PodCondition, PodPhase, PodSpec
from pumice.core.registry import Registry
from pumice.server import wire
from pumice.server.ops import NumberedOp, NumberedPods, OpReader
from pumice.server.state import ClusterState
from pumice.server.wire.shapes import PodReader
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2, pod_pb2
from tests.server.samples import OBJECTS, POD

TEXTS = st.sampled_from(("", "a", "b"))
# Without a time; without a fraction of a second; with one; before 1970.
TIMES = st.sampled_from((0, 10**9, 1, 2 * 10**9 + 5, -1))
MAPS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("ab"), max_size=3)
CONDITIONS = st.builds(
    PodCondition,
    TEXTS,
    st.sampled_from(("", "True", "False")),
    reason=TEXTS,
    transition_time_ns=TIMES,
)
PODS = st.builds(
    Pod,
    uid=st.sampled_from(("", "1", "2")),
    namespace=TEXTS,
    name=TEXTS,
    spec=st.builds(PodSpec, scheduler_name=TEXTS, never_preempts=st.booleans()),
    creation_time_ns=TIMES,
    labels=MAPS,
    annotations=MAPS,
    phase=st.sampled_from(PodPhase),
    terminating=st.booleans(),
    node_name=TEXTS,
    nominated_node_name=TEXTS,
    conditions=st.lists(CONDITIONS, max_size=2).map(tuple),
    start_time_ns=TIMES,
    group_name=TEXTS,
    role=TEXTS,
    priority=st.integers(-1, 1),
    task_priority=st.integers(0, 1),
    preemptable=st.booleans(),
    revocable_zone=TEXTS,
    controller_uid=TEXTS,
    controller_kind=TEXTS,
    controller_name=TEXTS,
)


def upsert(item: object_pb2.ClusterObject, revision: int = 1) -> delta_pb2.Op:
    return delta_pb2.Op(upsert=wire.write_upsert(item, revision))


def batch_of(*ops: delta_pb2.Op, first_seq: int = 1) -> delta_pb2.DeltaBatch:
    return delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops)


def each(ops: list[NumberedOp]) -> list[NumberedOp]:
    return [one for op in ops for one in op.each()]


def told(ops: list[NumberedOp]) -> list[Any]:
    return [(op.seq, op.kind, op.uid, op.revision, op.delta, str(op.error)) for op in each(ops)]


def pods_in(ops: list[NumberedOp]) -> list[Pod]:
    held = [op.delta.object for op in each(ops) if isinstance(op.delta, Upserted)]
    return [item for item in held if isinstance(item, Pod)]


@given(st.lists(PODS, max_size=8))
@settings(max_examples=200, deadline=None)
def test_a_batch_is_read_as_its_ops_are(pods: list[Pod]) -> None:
    ops = [upsert(wire.write_object(pod), number) for number, pod in enumerate(pods)]
    in_bulk, reader = OpReader(few_ops=0), OpReader()
    one_by_one = told(list(reader.read_ops(1, ops)))
    assert told(in_bulk.read_batch(batch_of(*ops))) == one_by_one
    assert told(reader.read_batch(batch_of(*ops))) == one_by_one
    # And again, when every shape is known.
    assert told(in_bulk.read_batch(batch_of(*ops))) == one_by_one


@pytest.mark.parametrize("field", [field.name for field in fields(Pod)])
def test_every_field_of_a_pod_is_told_apart(field: str) -> None:
    bare = Pod("u", "ns", "p")
    other = replace(bare, **{field: getattr(POD, field)})
    reader = OpReader(few_ops=0)
    ops = reader.read_batch(batch_of(*(upsert(wire.write_object(p)) for p in (bare, other, bare))))
    assert [op.delta for op in each(ops)] == [Upserted(bare), Upserted(other), Upserted(bare)]


def test_an_absent_field_is_not_one_that_says_no() -> None:
    bare = pod_pb2.Pod(uid="u", namespace="ns", name="p")
    no = pod_pb2.Pod(uid="u", namespace="ns", name="p", preemptable=False, task_priority=0)
    ops = [upsert(object_pb2.ClusterObject(pod=pod)) for pod in (bare, no)]
    read = pods_in(OpReader(few_ops=0).read_batch(batch_of(*ops)))
    assert [(p.preemptable, p.task_priority) for p in read] == [(True, 1), (False, 0)]


def test_other_ops_of_a_batch_are_read_as_ever() -> None:
    ops = [upsert(wire.write_object(item)) for item in OBJECTS.values()]
    ops.append(delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=object_pb2.KIND_POD, uid="u")))
    ops.append(delta_pb2.Op(configuration=configuration_pb2.Configuration()))
    ops.append(delta_pb2.Op())
    read, expected = (
        OpReader(few_ops=0).read_batch(batch_of(*ops)),
        list(OpReader().read_ops(1, ops)),
    )
    assert told(read) == told(expected)
    assert read[-2].configuration == configuration_pb2.Configuration()


@pytest.mark.parametrize("few_ops", [0, 3])
def test_pods_of_one_shape_share_what_is_alike(few_ops: int) -> None:
    labels = {"app": "web"}
    pods = [replace(POD, uid=uid, name=f"p-{uid}", labels=dict(labels)) for uid in "ab"]
    ops = [upsert(wire.write_object(pod)) for pod in pods]
    one, two = pods_in(OpReader(few_ops).read_batch(batch_of(*ops)))
    assert one.labels is two.labels
    assert one.spec is two.spec


def test_shapes_do_not_pile_up() -> None:
    reader = PodReader(limit=3)
    roles = [str(number) for number in range(10)] + ["x" * PodReader.LARGEST_KEY_BYTES]
    for role in roles:
        pods = reader.read_batch(batch_of(upsert(wire.write_object(replace(POD, role=role))))).pods
        assert [pod.role for pod in pods] == [role]
        assert 0 < len(reader) <= 3


def test_a_pod_without_a_name_is_refused_also_when_its_shape_is_known() -> None:
    good = wire.write_object(POD)
    bad = wire.write_object(replace(POD, name=""))
    first, second = each(OpReader(few_ops=0).read_batch(batch_of(upsert(good), upsert(bad))))
    assert first.error is None
    assert second.error is not None
    assert (second.error.field, second.error.problem) == (
        "name",
        "is empty; every object needs one",
    )


def test_what_the_engine_refuses_of_many_is_named_by_its_own_number() -> None:
    state = ClusterState(Registry())
    absurd = replace(POD, uid="absurd", spec=PodSpec(requests=(("cpu", -1),)))
    pods = [replace(POD, uid="a"), absurd, replace(POD, uid="b")]
    told_together = NumberedPods(
        7, object_pb2.KIND_POD, delta=PodsUpserted(pods), pods=pods, revisions=[1, 2, 3]
    )
    (rejected,), _ = state.apply([told_together], 0)
    assert (rejected.seq, rejected.uid, rejected.field) == (8, "absurd", "requests[cpu]")
    assert list(state.quarantined) == [(object_pb2.KIND_POD, "absurd")]
    assert state.applied_seq == 9
    assert state.sums.uids(object_pb2.KIND_POD) == ["a", "absurd", "b"]

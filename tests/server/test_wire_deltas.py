"""What comes in over the wire: ops become deltas, malformed ones are set aside by name."""

from typing import Any

import pytest

from pumice.core.deltas import Deleted, Delta, OutcomeCode, OutcomeReported, Upserted
from pumice.core.errors import ObjectError
from pumice.core.model.group import Queue, Workload
from pumice.core.model.pod import Pod
from pumice.core.model.topology import HyperNode, HyperNodeMember
from pumice.server import wire
from pumice.server.ops import NumberedOp, OpReader
from pumice.v1 import decision_pb2, delta_pb2, object_pb2
from tests.server.samples import OBJECTS, POD

REFUSED: dict[str, tuple[str, str, Any]] = {
    "no uid": ("pod", "uid", lambda m: m.ClearField("uid")),
    "no name": ("node", "name", lambda m: m.ClearField("name")),
    "no namespace": ("pod_group", "namespace", lambda m: m.ClearField("namespace")),
    "negative request": (
        "pod",
        "spec.requests[cpu]",
        lambda m: m.spec.requests.update({"cpu": -1}),
    ),
    "request too large": (
        "pod",
        "spec.requests[cpu]",
        lambda m: m.spec.requests.update({"cpu": 2**53}),
    ),
    "nameless resource": ("pod", "spec.requests", lambda m: m.spec.requests.update({"": 1})),
    "allocatable too large": (
        "node",
        "allocatable[memory]",
        lambda m: m.allocatable.update({"memory": 2**53}),
    ),
    "negative capability": (
        "queue",
        "capability[cpu]",
        lambda m: m.capability.amounts.update({"cpu": -5}),
    ),
    "negative quota": ("resource_quota", "hard_milli[x]", lambda m: m.hard_milli.update({"x": -5})),
    "unknown phase": ("pod", "phase", lambda m: setattr(m, "phase", 77)),
    "unknown group phase": ("pod_group", "status.phase", lambda m: setattr(m.status, "phase", 9)),
    "unknown queue state": ("queue", "state", lambda m: setattr(m, "state", 9)),
    "unknown volume phase": ("persistent_volume", "phase", lambda m: setattr(m, "phase", 9)),
    "weight of zero": ("queue", "weight", lambda m: setattr(m, "weight", 0)),
    "negative minimum": ("pod_group", "min_member", lambda m: setattr(m, "min_member", -1)),
    "taint without effect": (
        "node",
        "taints[0].effect",
        lambda m: m.taints[0].ClearField("effect"),
    ),
    "requirement without operator": (
        "pod",
        "spec.required_affinity[0].selector.requirements[1].operator",
        lambda m: m.spec.required_affinity[0].selector.requirements[1].ClearField("operator"),
    ),
    "requirement without key": (
        "service",
        "selector.requirements[0].key",
        lambda m: m.selector.requirements[0].ClearField("key"),
    ),
    "port out of range": (
        "pod",
        "spec.host_ports[0].port",
        lambda m: setattr(m.spec.host_ports[0], "port", 65536),
    ),
    "spread without key": (
        "pod",
        "spec.spread_constraints[0].topology_key",
        lambda m: m.spec.spread_constraints[0].ClearField("topology_key"),
    ),
    "skew of zero": (
        "pod",
        "spec.spread_constraints[0].max_skew",
        lambda m: m.spec.spread_constraints[0].ClearField("max_skew"),
    ),
    "driver limit below none": (
        "csi_node",
        "driver_limits[other]",
        lambda m: m.driver_limits.update({"other": -2}),
    ),
    "two ways to choose": (
        "hyper_node",
        "members[0]",
        lambda m: setattr(m.members[0], "name_pattern", "n"),
    ),
    "negative image": (
        "node",
        "images[0].size_bytes",
        lambda m: setattr(m.images[0], "size_bytes", -1),
    ),
}


def read_upsert(upsert: delta_pb2.Upsert) -> None:
    wire.check_upsert(upsert)
    wire.ObjectReader().read(upsert.object)


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_object_is_refused_by_kind_key_and_field(case: str) -> None:
    field, where, spoil = REFUSED[case]
    message = wire.write_object(OBJECTS[field])
    spoil(getattr(message, field))
    upsert = wire.write_upsert(message, 1)
    with pytest.raises(ObjectError) as caught:
        read_upsert(upsert)
    error = caught.value
    assert error.field == where
    assert error.kind == wire.kind_word(object_pb2.Kind.Value(f"KIND_{field.upper()}"))
    rejected = NumberedOp(17, upsert.kind, upsert.uid).rejected(error)
    assert (rejected.seq, rejected.field, rejected.reason) == (17, where, error.problem)
    assert object_pb2.Kind.Name(rejected.kind) == f"KIND_{field.upper()}"
    assert rejected.uid == getattr(message, field).uid
    assert rejected.key


def test_a_refusal_says_what_is_allowed() -> None:
    message = wire.write_object(POD)
    message.pod.spec.requests["cpu"] = 2**53
    with pytest.raises(
        ObjectError, match=r"^Pod team-a/job-worker-0: spec\.requests\[cpu\]: "
    ) as e:
        wire.ObjectReader().read(message)
    assert str(2**53 - 1) in e.value.problem


def test_limits_of_queues_and_quotas_may_be_larger_than_a_node_can_be() -> None:
    queue = Queue("u", "q", capability=(("ephemeral-storage", 2**60),))
    assert wire.ObjectReader().read(wire.write_object(queue)) == queue


def test_a_hyper_node_member_must_choose_somehow() -> None:
    with pytest.raises(ObjectError, match="set exactly one"):
        wire.ObjectReader().read(
            wire.write_object(HyperNode("u", "h", members=(HyperNodeMember(),)))
        )


def test_kinds_and_fields_from_the_future_are_ignored() -> None:
    reader = wire.ObjectReader()
    # Field 900 and field 901 with one byte of content each.
    unknown = object_pb2.ClusterObject.FromString(bytes([0xA2, 0x38, 1, 0]))
    assert reader.read(unknown) is None
    sent = wire.write_object(OBJECTS["queue"]).queue.SerializeToString() + bytes([0xAA, 0x38, 1, 0])
    message = object_pb2.ClusterObject()
    message.queue.ParseFromString(sent)
    assert reader.read(message) == OBJECTS["queue"]


def read_delta(op: delta_pb2.Op) -> Delta | None:
    (read,) = OpReader().read_ops(1, [op])
    return read.delta


def test_ops_become_deltas() -> None:
    upsert = wire.write_upsert(wire.write_object(POD), 4)
    assert read_delta(delta_pb2.Op(upsert=upsert)) == Upserted(POD)
    gone = object_pb2.ObjectRef(kind=object_pb2.KIND_POD, uid="pod-1")
    assert read_delta(delta_pb2.Op(tombstone=gone)) == Deleted(Pod, "pod-1")
    for code in OutcomeCode:
        number = decision_pb2.OutcomeCode.Value(f"OUTCOME_CODE_{code.name}")
        outcome = decision_pb2.Outcome(decision_id="d-1", code=number, reason="because")
        expected = OutcomeReported("d-1", code, "because")
        assert read_delta(delta_pb2.Op(outcome=outcome)) == expected


def test_every_workload_is_deleted_as_a_workload() -> None:
    for kind in ("SERVICE", "REPLICA_SET", "REPLICATION_CONTROLLER", "STATEFUL_SET"):
        ref = object_pb2.ObjectRef(kind=object_pb2.Kind.Value(f"KIND_{kind}"), uid="w")
        assert wire.read_tombstone(ref) == Deleted(Workload, "w")


def test_ops_that_are_not_the_engines_are_no_deltas() -> None:
    assert read_delta(delta_pb2.Op()) is None
    op = delta_pb2.Op()
    op.configuration.default_queue = "red"
    assert read_delta(op) is None


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        (decision_pb2.Outcome(code=decision_pb2.OUTCOME_CODE_GONE), "decision_id"),
        (decision_pb2.Outcome(decision_id="d-1"), "code"),
    ],
)
def test_a_malformed_outcome_is_refused(outcome: decision_pb2.Outcome, field: str) -> None:
    with pytest.raises(ObjectError) as caught:
        wire.read_outcome(outcome)
    assert caught.value.field == field


def test_a_tombstone_needs_a_uid() -> None:
    ref = object_pb2.ObjectRef(kind=object_pb2.KIND_NODE)
    with pytest.raises(ObjectError, match="Node"):
        wire.read_tombstone(ref)

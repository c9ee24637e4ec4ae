"""What the engine decides and says, as it leaves over the wire."""

import dataclasses

import pytest

from pumice.core.decisions import (
    Bind,
    Decision,
    Event,
    Evict,
    Gang,
    PluginFault,
    PodConditionChanged,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
    VolumeChoice,
    Wait,
)
from pumice.core.model.reasons import NodeCount, Reason, ReasonCode
from pumice.server import wire
from pumice.v1 import decision_pb2, object_pb2, reason_pb2
from tests.server.samples import POD_GROUP

GANG = Gang("s7/team-a/job", "team-a/job", "pg-1", "0f3a", 2)
BIND = Bind(
    id="s7-0",
    namespace="team-a",
    name="job-worker-0",
    uid="pod-1",
    node="n1",
    gang=GANG,
    annotations=(("volcano.sh/x", "y"),),
    volumes=(VolumeChoice("data", "pv"),),
)
EVICT = Evict("s7-1", "team-b", "low-0", "pod-9", "n2", "preempt", "team-a/job", GANG)
LONE = dataclasses.replace(BIND, id="s7-2", gang=None)


def result(*decisions: Decision) -> SessionResult:
    return SessionResult(session=7, now_ns=1, decisions=decisions)


@pytest.mark.parametrize("decision", [BIND, EVICT, LONE])
def test_a_decision_survives_the_wire(decision: Decision) -> None:
    sent = wire.write_decision(decision).SerializeToString()
    message = decision_pb2.Decision.FromString(sent)
    assert wire.read_decision(message, {GANG.id: GANG}) == decision


def test_a_gang_survives_the_wire() -> None:
    assert wire.read_gang(wire.write_gang(GANG)) == GANG


def test_an_order_from_the_future_is_no_decision() -> None:
    assert wire.read_decision(decision_pb2.Decision(id="x"), {}) is None


def test_a_message_names_each_of_its_gangs_once() -> None:
    gangs, decisions = wire.write_decisions([BIND, EVICT, LONE])
    assert [gang.id for gang in gangs] == [GANG.id]
    assert [decision.gang_id for decision in decisions] == [GANG.id, GANG.id, ""]


def test_a_session_that_decided_nothing_sends_nothing() -> None:
    assert list(wire.decision_batches(result(), epoch=1, based_on_seq=2)) == []
    assert list(wire.status_batches(result(), epoch=1)) == []


def test_a_gang_too_large_for_a_message_spans_several_and_each_names_it() -> None:
    gang = dataclasses.replace(GANG, size=100)
    binds = [dataclasses.replace(BIND, id=f"s7-{n}", gang=gang) for n in range(100)]
    batches = list(wire.decision_batches(result(*binds), epoch=3, based_on_seq=5, batch_bytes=1000))
    assert len(batches) > 5
    assert [d.id for batch in batches for d in batch.decisions] == [bind.id for bind in binds]
    for batch in batches:
        assert (batch.session, batch.epoch, batch.based_on_seq) == (7, 3, 5)
        assert [(held.id, held.size) for held in batch.gangs] == [(gang.id, 100)]
        assert batch.ByteSize() < 2000


def test_statuses_and_events_leave_whole() -> None:
    said = SessionResult(
        session=7,
        now_ns=1,
        statuses=(
            PodGroupStatusChanged("team-a", "job", "pg-1", POD_GROUP.status),
            QueueStatusChanged("red", "q-1", (("cpu", 5),)),
            PodConditionChanged("team-a", "p", "pod-1", "Unschedulable", "no room", "n3"),
        ),
        events=(Event("PodGroup", "team-a", "job", "pg-1", True, "Unschedulable", "2/3"),),
    )
    (batch,) = wire.status_batches(said, epoch=3)
    group, queue, pod = batch.changes
    assert (batch.session, batch.epoch) == (7, 3)
    assert group.pod_group.uid == "pg-1"
    assert group.pod_group.status == wire.write_object(POD_GROUP).pod_group.status
    assert (queue.queue.name, dict(queue.queue.allocated)) == ("red", {"cpu": 5})
    assert (pod.pod.reason, pod.pod.nominated_node_name) == ("Unschedulable", "n3")
    (event,) = batch.events
    assert (event.kind, event.warning, event.message) == (object_pb2.KIND_POD_GROUP, True, "2/3")


def test_many_statuses_span_several_messages() -> None:
    changes = tuple(QueueStatusChanged(f"q{n}", f"u{n}", ()) for n in range(50))
    said = SessionResult(session=1, now_ns=1, statuses=changes)
    batches = list(wire.status_batches(said, epoch=1, batch_bytes=100))
    assert len(batches) > 3
    assert [c.queue.name for b in batches for c in b.changes] == [c.name for c in changes]


@pytest.mark.parametrize("code", ReasonCode)
def test_every_reason_has_a_number(code: ReasonCode) -> None:
    reason = wire.write_reason(Reason("gang", code))
    assert reason_pb2.ReasonCode.Name(reason.code) == f"REASON_CODE_{code.name}"


def test_a_wait_carries_its_reasons() -> None:
    nodes = (NodeCount("Insufficient cpu", 4),)
    reason = Reason("predicates", ReasonCode.NO_NODE_FITS, "p-0", 1, 3, ("cpu",), nodes)
    wait = wire.write_wait(Wait("team-a/job", (reason,)))
    (held,) = wait.reasons
    assert (wait.job, held.author, held.task, held.have, held.need) == (
        "team-a/job",
        "predicates",
        "p-0",
        1,
        3,
    )
    assert list(held.subjects) == ["cpu"]
    assert [(n.reason, n.node_count) for n in held.nodes] == [("Insufficient cpu", 4)]


def test_a_fault_says_whose_it_is() -> None:
    fault = wire.write_fault(PluginFault("gang", "job_ready", "team-a/job", "ValueError: x"))
    assert (fault.author, fault.where, fault.job, fault.error) == (
        "gang",
        "job_ready",
        "team-a/job",
        "ValueError: x",
    )

"""A core and adapters of other versions: what one does not know, the other may say."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from pumice.client.details import read_status_details
from pumice.server import wire
from pumice.server.digests import hash64
from pumice.server.wire import READ_KINDS
from pumice.v1 import (
    cluster_service_pb2,
    delta_pb2,
    node_pb2,
    object_pb2,
    pod_pb2,
    selector_pb2,
)
from tests.server.running import (
    RunningCore,
    ScriptedAdapter,
    configuration,
    gang,
    group,
    node,
    pod,
    queue,
    running_core,
)

NEW_KIND = object_pb2.Kind.ValueType(99)
EMPTY = [queue(), node("n1")]


@pytest_asyncio.fixture
async def core(tmp_path: Path) -> AsyncIterator[RunningCore]:
    async with running_core(tmp_path) as running:
        yield running


def unknown_field(number: int, content: bytes = b"\x01") -> bytes:
    """A length-delimited field that no message here has."""
    tag = number << 3 | 2
    head = bytearray()
    while tag > 0x7F:
        head.append(tag & 0x7F | 0x80)
        tag >>= 7
    head.append(tag)
    return bytes(head) + bytes([len(content)]) + content


def newer_object(uid: str, revision: int) -> delta_pb2.Op:
    """An object of a kind that this core does not know, as a newer adapter sends it."""
    held = object_pb2.ClusterObject.FromString(unknown_field(99, b"\x0a\x01x"))
    upsert = delta_pb2.Upsert(kind=NEW_KIND, uid=uid, revision=revision, object=held)
    return delta_pb2.Op(upsert=upsert)


def digests(adapter: ScriptedAdapter, *revisions: tuple[str, int]) -> list[delta_pb2.KindDigest]:
    """What a newer adapter holds: also objects of the new kind."""
    total = sum(int.from_bytes(hash64(uid, revision), "big") for uid, revision in revisions)
    new = delta_pb2.KindDigest(kind=NEW_KIND, count=len(revisions), sum=total % 2**64)
    return [*adapter.sums.write(), new]


async def test_welcome_names_the_kinds_that_are_read(core: RunningCore) -> None:
    welcome = await core.adapter().connect()
    assert set(welcome.kinds) == READ_KINDS
    assert welcome.core_version


async def test_a_kind_that_the_core_does_not_know_is_ignored_also_in_digests(
    core: RunningCore,
) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.send(snapshot_begin=cluster_service_pb2.SnapshotBegin(first_seq=1))
    await adapter.tell(*EMPTY, configuration(), newer_object("x1", 7), newer_object("x2", 8))
    told = digests(adapter, ("x1", 7), ("x2", 8))
    end = cluster_service_pb2.SnapshotEnd(seq=adapter.seq, digests=told)
    await adapter.send(snapshot_end=end)
    ack = await adapter.acknowledged()
    assert not ack.rejected
    # Changes and a tombstone of the kind, and a digest that counts it.
    ref = object_pb2.ObjectRef(kind=NEW_KIND, uid="x2")
    await adapter.tell(newer_object("x1", 9), delta_pb2.Op(tombstone=ref), *gang("job", 1))
    digest = cluster_service_pb2.Digest(seq=adapter.seq, digests=digests(adapter, ("x1", 9)))
    await adapter.send(digest=digest)
    core.clock.advance(1)
    assert [d.bind.node for d in await adapter.decisions()] == ["n1"]
    assert core.metric("pumice_drift_total") == core.metric("pumice_drift_alarm") == 0
    assert not [kept for kept in adapter._kept if kept.HasField("resync")]


async def test_a_newer_adapter_resumes_although_its_digests_have_more_kinds(
    core: RunningCore,
) -> None:
    adapter = core.adapter()
    await adapter.connect()
    await adapter.snapshot(EMPTY, configuration(), newer_object("x1", 7))
    adapter.cut()
    again = core.adapter(last_acknowledged_seq=adapter.seq, digests=digests(adapter, ("x1", 7)))
    welcome = await again.connect()
    assert welcome.mode == cluster_service_pb2.WELCOME_MODE_RESUME


async def test_a_resync_snapshot_of_an_unknown_kind_takes_nothing_away(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)])
    await adapter.decisions()
    await adapter.snapshot([], newer_object("x1", 1), kinds=[NEW_KIND])
    await adapter.digest()
    await adapter.tell(*gang("other", 1))
    core.clock.advance(1)
    assert len(await adapter.decisions()) == 1
    assert core.metric("pumice_drift_total") == 0


async def test_an_older_adapter_that_never_names_a_kind_is_served(core: RunningCore) -> None:
    """A kind that is absent in digests is empty."""
    adapter = await core.served(EMPTY)
    told = [d for d in adapter.sums.write() if d.count]
    assert {d.kind for d in told} < READ_KINDS
    await adapter.send(digest=cluster_service_pb2.Digest(seq=adapter.seq, digests=told))
    await adapter.tell(*gang("job", 1))
    core.clock.advance(1)
    assert len(await adapter.decisions()) == 1


async def test_unknown_messages_ops_and_fields_are_ignored(core: RunningCore) -> None:
    adapter = await core.served(EMPTY)
    message = cluster_service_pb2.ConnectRequest.FromString(unknown_field(90))
    await adapter._call.write(message)
    op = delta_pb2.Op.FromString(unknown_field(91))
    held = node("n2")
    held.node.MergeFromString(unknown_field(92))
    ack = await adapter.tell(op, held)
    assert (ack.applied_seq, len(ack.rejected)) == (adapter.seq, 0)
    await adapter.tell(*gang("job", 8))
    core.clock.advance(1)
    assert {d.bind.node for d in await adapter.decisions()} == {"n1", "n2"}


MISMATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "no uid": ({"uid": ""}, "uid"),
    "other uid": ({"uid": "other"}, "uid"),
    "other kind": ({"kind": object_pb2.KIND_POD}, "kind"),
    "no object": ({"object": object_pb2.ClusterObject()}, "kind"),
}


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("case", MISMATCHES)
async def test_kind_and_uid_must_be_those_of_the_object(
    core: RunningCore, case: str, many: bool
) -> None:
    """Read one by one or, in a batch with pods, in bulk."""
    changes, field = MISMATCHES[case]
    kind = object_pb2.KIND_POD if case != "other kind" else object_pb2.KIND_QUEUE
    item = pod("job", 9) if kind == object_pb2.KIND_POD else queue("q2")
    upsert = wire.write_upsert(item, 5)
    if case == "other kind":
        changes = {"kind": object_pb2.KIND_POD}
    for name, value in changes.items():
        if name == "object":
            upsert.object.CopyFrom(value)
        else:
            setattr(upsert, name, value)
    adapter = await core.served([*EMPTY, group("job", 1)])
    pods = [pod("job", number) for number in range(8)] if many else []
    ack = await adapter.tell(*pods, delta_pb2.Op(upsert=upsert))
    (rejected,) = ack.rejected
    assert (rejected.seq, rejected.field) == (adapter.seq, field)
    assert core.server._clusters.find("c1").served.state.engine.cache.tasks.keys() >= {
        f"pod-job-{number}" for number in range(len(pods))
    }


def spoiled(path: str, number: int = 77) -> object_pb2.ClusterObject:
    held = pod("job", 0)
    spec = held.pod.spec
    spec.tolerations.add(key="a", operator=selector_pb2.TOLERATION_OPERATOR_EXISTS)
    spec.tolerations.add(key="b")
    spec.host_ports.add(port=80)
    term = spec.required_node_terms.terms.add()
    term.label_requirements.add(key="disk", operator=selector_pb2.OPERATOR_EXISTS)
    anti = spec.required_anti_affinity.add(topology_key="zone")
    anti.selector.requirements.add(key="app", operator=selector_pb2.OPERATOR_EXISTS)
    held.pod.conditions.add(type="PodScheduled")
    if path == "phase":
        held.pod.phase = pod_pb2.PodPhase.ValueType(number)
    elif path == "spec.tolerations[1].operator":
        spec.tolerations[1].operator = selector_pb2.TolerationOperator.ValueType(number)
    elif path == "spec.tolerations[1].effect":
        spec.tolerations[1].effect = selector_pb2.TaintEffect.ValueType(number)
    elif path == "spec.host_ports[0].protocol":
        spec.host_ports[0].protocol = pod_pb2.PortProtocol.ValueType(number)
    elif path == "conditions[0].status":
        held.pod.conditions[0].status = number  # type: ignore[assignment]
    elif path == "spec.numa_policy":
        spec.numa_policy = number  # type: ignore[assignment]
    elif path.startswith("spec.required_node_terms"):
        term.label_requirements[0].operator = selector_pb2.Operator.ValueType(number)
    else:
        anti.selector.requirements[0].operator = selector_pb2.Operator.ValueType(number)
    return held


PATHS = [
    "phase",
    "spec.tolerations[1].operator",
    "spec.tolerations[1].effect",
    "spec.host_ports[0].protocol",
    "conditions[0].status",
    "spec.numa_policy",
    "spec.required_node_terms.terms[0].label_requirements[0].operator",
    "spec.required_anti_affinity[0].selector.requirements[0].operator",
]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_an_unknown_value_in_a_pod_is_named_and_the_pod_is_in_use(
    core: RunningCore, path: str, many: bool
) -> None:
    adapter = await core.served([*EMPTY, group("job", 1)])
    others = [pod("job", number) for number in range(1, 9)] if many else []
    ack = await adapter.tell(*others, spoiled(path))
    assert not ack.rejected
    (warning,) = ack.warnings
    assert (warning.field, warning.key, warning.seq) == (path, "team/job-0", adapter.seq)
    assert warning.message.startswith("77 is not known to this core")
    held = core.server._clusters.find("c1").served.state.engine.cache.tasks["pod-job-0"].pod
    tolerated = 1 if "tolerations" in path else 2
    assert len(held.spec.tolerations) == tolerated
    if "operator" in path and "tolerations" not in path:
        # A pod that is not understood fits no node.
        assert held.spec.required_node_terms == ()
    assert held.phase.name == ("UNKNOWN" if path == "phase" else "PENDING")


async def test_an_unknown_taint_has_no_effect_and_the_node_is_in_use(core: RunningCore) -> None:
    adapter = await core.served([queue()])
    held = node("n1")
    held.node.taints.add(key="x", effect=selector_pb2.TaintEffect.ValueType(9))
    ack = await adapter.tell(held, *gang("job", 1))
    (warning,) = ack.warnings
    assert warning.field == "taints[0].effect"
    assert warning.message == "9 is not known to this core; the taint has no effect"
    core.clock.advance(1)
    assert len(await adapter.decisions()) == 1


async def test_unknown_capabilities_and_outcomes_do_no_harm(core: RunningCore) -> None:
    adapter = await core.served([*EMPTY, *gang("job", 1)], capabilities=[1, 77])
    (decision,) = await adapter.decisions()
    op = delta_pb2.Op()
    op.outcome.decision_id = decision.id
    op.outcome.code = 42  # type: ignore[assignment]
    ack = await adapter.tell(op)
    assert [bad.field for bad in ack.rejected] == ["code"]
    await adapter.tell(*gang("other", 1))
    core.clock.advance(1)
    assert len(await adapter.decisions()) == 1


# Bytes that are no message at all.


async def raw(core: RunningCore, method: str, data: bytes, *, stream: bool = False) -> Any:
    channel = core.channel()
    if stream:
        call: Any = channel.stream_stream(method)()
        await call.write(data)
    else:
        unary: Any = channel.unary_unary(method)
        call = unary(data)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if stream else call)
    return caught.value


@pytest.mark.parametrize(
    ("method", "stream"),
    [
        ("/pumice.v1.ClusterService/Connect", True),
        ("/pumice.v1.InspectionService/ListJobs", False),
        ("/pumice.v1.SchedulingService/Schedule", False),
        ("/pumice.v1.AdministrationService/ForgetCluster", False),
    ],
)
async def test_malformed_bytes_are_an_invalid_argument_without_a_traceback(
    core: RunningCore, method: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    other = await core.served(EMPTY)
    with caplog.at_level(logging.DEBUG):
        for data in (b"\xff", b"\x0a\x05ab", unknown_field(1, b"\xff\xff")):
            error = await raw(core, method, data, stream=stream)
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            detail = read_status_details(error.trailing_metadata())
            assert detail.reason == "MALFORMED_MESSAGE"
    assert not [record for record in caplog.records if record.exc_info]
    # The stream of another adapter is not harmed.
    await other.tell(node("n2"))


async def test_malformed_bytes_later_in_a_stream_end_it_with_the_reason(core: RunningCore) -> None:
    call: Any = core.channel().stream_stream("/pumice.v1.ClusterService/Connect")()
    hello = core.adapter().hello
    await call.write(cluster_service_pb2.ConnectRequest(hello=hello).SerializeToString())
    assert cluster_service_pb2.ConnectResponse.FromString(await call.read()).HasField("welcome")
    await call.write(b"\xff\xff\xff")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(call.read(), 20)
    detail = read_status_details(caught.value.trailing_metadata())
    assert detail.reason == "MALFORMED_MESSAGE"


NUMBERS: dict[str, dict[str, Any]] = {
    "batch": {"delta_batch": delta_pb2.DeltaBatch(first_seq=2**63 - 1, ops=[delta_pb2.Op()])},
    "begin": {"snapshot_begin": cluster_service_pb2.SnapshotBegin(first_seq=2**63 - 1)},
    "just over": {"snapshot_begin": cluster_service_pb2.SnapshotBegin(first_seq=2**53)},
}


@pytest.mark.parametrize("case", NUMBERS)
async def test_a_sequence_number_that_is_too_large_is_refused_as_a_value(
    core: RunningCore, case: str
) -> None:
    adapter = await core.served(EMPTY) if case == "batch" else core.adapter()
    if case != "batch":
        await adapter.connect()
    await adapter.send(**NUMBERS[case])
    code, metadata = await adapter.ended_with()
    detail = read_status_details(metadata)
    assert (code, detail.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "SEQUENCE_NUMBER_INVALID",
    )
    assert detail.violations[0][0] == "first_seq"
    # The state survives.
    clusters = core.server._clusters
    assert core.metric("pumice_state_lost_total") == 0
    assert clusters.find("c1").name == "c1"


async def test_numbers_up_to_the_largest_are_taken_and_no_further(core: RunningCore) -> None:
    adapter = core.adapter()
    await adapter.connect()
    adapter.seq = 2**53 - 5
    await adapter.snapshot(EMPTY, configuration())
    assert adapter.seq == 2**53 - 2
    await adapter.send(
        delta_batch=delta_pb2.DeltaBatch(first_seq=adapter.seq + 1, ops=[delta_pb2.Op()] * 3)
    )
    code, metadata = await adapter.ended_with()
    assert read_status_details(metadata).reason == "SEQUENCE_NUMBER_INVALID"
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_time_out_of_range_sets_the_object_aside_and_nothing_else(
    core: RunningCore,
) -> None:
    adapter = await core.served([*EMPTY, group("job", 1)])
    late = pod("job", 0)
    late.pod.creation_time.seconds = 2**62
    odd = pod("job", 1)
    odd.pod.start_time.nanos = -5
    early = node("n7")
    early.node.creation_time.seconds = -(2**62)
    good = [pod("job", number) for number in range(2, 8)]
    ack = await adapter.tell(late, odd, *good, early)
    assert [bad.field for bad in ack.rejected] == ["creation_time", "start_time", "creation_time"]
    assert core.metric("pumice_state_lost_total") == 0
    core.clock.advance(1)
    assert {d.bind.name for d in await adapter.decisions()} <= {f"job-{n}" for n in range(2, 8)}


def test_the_reader_leaves_what_it_is_given_as_it_is() -> None:
    """A recording holds what came, not what was made of it."""
    held = object_pb2.ClusterObject(node=node_pb2.Node(uid="u", name="n"))
    held.node.taints.add(key="x", effect=selector_pb2.TaintEffect.ValueType(9))
    before = held.SerializeToString()
    unknown: list[Any] = []
    assert wire.ObjectReader().read(held, unknown) is not None
    assert held.SerializeToString() == before
    assert [value.field for value in unknown] == ["taints[0].effect"]

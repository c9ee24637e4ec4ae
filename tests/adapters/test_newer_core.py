"""A core that is newer than the adapter: what the adapter does not know it ignores or refuses."""

import pytest

from pumice.adapters.kubernetes.statuses import group_status
from pumice.v1.cluster_service_pb2 import Ack, ConnectResponse, GoAwayReason, Resync, StatusBatch
from pumice.v1.decision_pb2 import OUTCOME_CODE_FAILED, Decision
from pumice.v1.group_pb2 import PodGroupPhase, PodGroupStatus
from pumice.v1.object_pb2 import KIND_POD, Kind, ObjectRef, ObjectWarning
from pumice.v1.status_pb2 import StatusChange
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import serve
from tests.adapters.fake_world import node, pod

# Field 90, of one byte.
UNKNOWN = bytes([0xD2, 0x05, 1, 0])
NEW_KIND = Kind.ValueType(99)


async def test_unknown_messages_orders_statuses_and_kinds_do_no_harm(stage: Stage) -> None:
    stage.world.store.put(node("n1"))
    stage.world.store.put(pod("a"))
    adapter = stage.adapter()
    stage.start(adapter)
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    served.stream.outgoing.put_nowait(ConnectResponse.FromString(UNKNOWN))
    await until(lambda: adapter.metrics.counted("unknown_messages") == 1)
    # A status of a kind that is not known here is ignored.
    served.stream.say_status(StatusBatch(changes=[StatusChange.FromString(UNKNOWN)]))
    # An order that is not known here is answered.
    order = Decision.FromString(UNKNOWN)
    order.id = "d1"
    served.stream.decide([order])
    await served.until(lambda: [o.decision_id for o in served.model.outcomes] == ["d1"])
    assert served.model.outcomes[0].code == OUTCOME_CODE_FAILED
    assert "is unknown to this adapter" in served.model.outcomes[0].reason
    # The stream goes on.
    stage.world.store.put(pod("b"))
    await served.until(lambda: (KIND_POD, "uid-b") in served.model.objects)


async def test_a_resync_of_an_unknown_kind_is_an_empty_snapshot(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    adapter = stage.adapter()
    stage.start(adapter)
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    ref = ObjectRef(kind=NEW_KIND, uid="x")
    served.stream.resync(Resync(kinds=[NEW_KIND], objects=[ref], reason="newer"))
    stage.world.store.put(pod("b"))
    await served.until(lambda: (KIND_POD, "uid-b") in served.model.objects)
    assert (KIND_POD, "uid-a") in served.model.objects


async def test_a_farewell_for_an_unknown_reason_is_followed_by_another_stream(
    stage: Stage,
) -> None:
    stage.start(stage.adapter())
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    await served.close()
    served.stream.go_away(GoAwayReason.ValueType(99))
    assert (await stage.core.accept()).hello.incarnation == "life-1"


def test_a_phase_that_is_unknown_is_not_written() -> None:
    status = PodGroupStatus(phase=PodGroupPhase.ValueType(77), running=2)
    assert "phase" not in group_status(status)


async def test_warnings_are_counted_and_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = stage.adapter()
    stage.start(adapter)
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    warning = ObjectWarning(kind=KIND_POD, uid="u", key="ns/p", field="phase", message="is new")
    served.stream.send(ack=Ack(applied_seq=served.model.applied_seq, credit=9, warnings=[warning]))
    await until(lambda: adapter.metrics.counted("unknown_values", kind="pod") == 1)
    assert "pod ns/p: phase is new" in caplog.text

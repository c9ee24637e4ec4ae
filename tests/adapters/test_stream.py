"""Streams over real sockets: greeting, snapshot, resume, credit, resync, going away."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.adapters.runtime.digests import digests_of
from pumice.adapters.runtime.errors import FencedError, RefusedError, ReplacedError
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.cluster_service_pb2 import (
    GO_AWAY_REASON_FENCED,
    GO_AWAY_REASON_REPLACED,
    GO_AWAY_REASON_SHUTTING_DOWN,
    GO_AWAY_REASON_TOO_SLOW,
    WELCOME_MODE_RESUME,
    WELCOME_MODE_SNAPSHOT,
    Ack,
    Limits,
    Resync,
    Welcome,
)
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ObjectRef, RejectedObject
from tests.adapters.conftest import Stage
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import ServedStream, serve
from tests.adapters.fake_world import bind, node, pod


async def first_stream(stage: Stage, **served: Any) -> ServedStream:
    stage.start(stage.adapter())
    stream = serve(await stage.core.accept(), **served)
    await stream.snapshot_done()
    return stream


async def test_a_new_adapter_says_who_it_is_and_sends_everything(stage: Stage) -> None:
    stage.world.store.put(node("n1"))
    stage.world.store.put(pod("a"))
    stage.start(stage.adapter())
    stream = await stage.core.accept()
    hello = stream.hello
    assert (hello.cluster, hello.adapter_id, hello.incarnation) == ("cluster", "adapter", "life-1")
    assert hello.epoch > 0
    assert (hello.min_protocol, hello.max_protocol) == (1, 1)
    assert hello.last_acknowledged_seq == 0
    assert not hello.digests
    assert not hello.held_decision_ids
    served = serve(stream)
    await served.snapshot_done()
    assert {uid for _, uid in served.model.objects} == {"uid-n1", "uid-a"}
    assert served.model.configurations[0].default_queue == "default"
    assert served.model.applied_seq == 3
    stage.world.store.put(pod("b"))
    await served.until(lambda: (KIND_POD, "uid-b") in served.model.objects)


async def test_a_broken_stream_is_resumed_with_what_was_not_acknowledged(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    adapter = stage.adapter()
    stage.start(adapter)
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    await until(lambda: adapter.is_idle)
    acknowledged = first.model.applied_seq
    first.acks = False
    stage.world.store.put(pod("b"))
    await first.until(lambda: first.model.applied_seq == acknowledged + 1)
    await first.close()
    first.stream.end(grpc.StatusCode.UNAVAILABLE, "gone")
    stage.world.store.put(pod("c"))
    stream = await stage.core.accept()
    assert stream.hello.incarnation == "life-1"
    assert stream.hello.last_acknowledged_seq == acknowledged
    known = [(k, u, held[0]) for (k, u), held in first.model.objects.items() if u != "uid-b"]
    assert list(stream.hello.digests) == digests_of(known)
    # A core that has not applied what was not acknowledged gets it again.
    old = CoreModel(acknowledged)
    old.objects = {key: held for key, held in first.model.objects.items() if key[1] != "uid-b"}
    second = serve(stream, old, resume=True)
    await second.until(lambda: {u for _, u in old.objects} == {"uid-a", "uid-b", "uid-c"})
    assert old.snapshots == 0


async def test_a_core_that_starts_anew_gets_a_snapshot_under_further_numbers(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    first = await first_stream(stage)
    await first.close()
    first.stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = await stage.core.accept()
    assert stream.hello.incarnation == "life-1"
    second = serve(stream)
    await second.snapshot_done()
    assert second.model.applied_seq == 4
    assert second.model.objects.keys() == first.model.objects.keys()


async def test_a_resume_that_cannot_be_served_makes_a_new_incarnation(stage: Stage) -> None:
    first = await first_stream(stage)
    await first.close()
    first.stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = await stage.core.accept()
    stream.send(welcome=Welcome(mode=WELCOME_MODE_RESUME, resume_after_seq=700))
    third = await stage.core.accept()
    assert third.hello.incarnation == "life-2"
    assert third.hello.last_acknowledged_seq == 0


async def test_a_gap_that_the_core_sees_makes_a_new_incarnation(stage: Stage) -> None:
    first = await first_stream(stage)
    await first.close()
    first.stream.end(grpc.StatusCode.ABORTED, "gap", "SEQUENCE_GAP")
    stream = await stage.core.accept()
    assert stream.hello.incarnation == "life-2"
    served = serve(stream)
    await served.snapshot_done()
    assert served.model.applied_seq == 1


async def test_a_stream_cut_inside_a_snapshot_begins_anew(stage: Stage) -> None:
    for number in range(10):
        stage.world.store.put(pod(f"p{number}"))
    stage.start(stage.adapter())
    # Credit for four of eleven ops, and no Ack.
    first = serve(await stage.core.accept(), credit=4, acks=False)
    await first.until(lambda: first.model.applied_seq == 4)
    await first.close()
    first.stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = await stage.core.accept()
    assert stream.hello.incarnation == "life-2"
    second = serve(stream)
    await second.snapshot_done()
    assert len(second.model.objects) == 10


async def test_a_restarted_adapter_is_a_new_incarnation_with_numbers_from_1(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    task = stage.start(stage.adapter())
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    epoch = first.stream.hello.epoch
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await first.close()
    stage.start(stage.adapter())
    stream = await stage.core.accept()
    assert stream.hello.incarnation == "life-2"
    assert stream.hello.epoch >= epoch
    second = serve(stream)
    await second.snapshot_done()
    assert second.model.applied_seq == 2


async def test_no_more_ops_are_sent_than_there_is_credit_for(stage: Stage) -> None:
    stream = await first_stream(stage, credit=5)
    stream.acks = False
    base = stream.model.applied_seq
    stream.ack()
    for number in range(20):
        stage.world.store.put(pod(f"p{number}"))
    await stream.until(lambda: stream.model.applied_seq == base + 5)
    await asyncio.sleep(0.02)
    assert stream.model.applied_seq == base + 5
    stream.credit = 2
    stream.ack()
    await stream.until(lambda: stream.model.applied_seq == base + 7)
    stream.credit = 100
    stream.ack()
    await stream.until(lambda: stream.model.applied_seq == base + 20)


async def test_under_back_pressure_only_the_newest_versions_are_sent(stage: Stage) -> None:
    stream = await first_stream(stage, credit=1)
    stream.acks = False
    base = stream.model.applied_seq
    stream.ack()
    stage.world.store.put(pod("first"))
    await stream.until(lambda: stream.model.applied_seq == base + 1)
    for version in range(50):
        for name in ("a", "b"):
            stage.world.store.put(pod(name, node=f"n{version}"))
    stage.world.store.put(pod("c"))
    stage.world.store.remove(KIND_POD, "uid-c")
    await asyncio.sleep(0.02)
    stream.credit = 1000
    stream.ack()
    await stream.until(lambda: (KIND_POD, "uid-b") in stream.model.objects)
    assert stream.model.applied_seq == base + 3
    assert stream.model.objects[KIND_POD, "uid-a"][1].pod.node_name == "n49"


async def test_batches_keep_to_the_size_that_the_core_wants(stage: Stage) -> None:
    for number in range(100):
        stage.world.store.put(pod(f"p{number:03d}"))
    stream = await first_stream(stage, batch_bytes=500)
    assert sum(stream.batches) == 101
    assert max(stream.batches) < 20


async def test_a_core_gets_the_kinds_it_asks_for_again(stage: Stage) -> None:
    stage.world.store.put(node("n1"))
    stage.world.store.put(pod("a"))
    stream = await first_stream(stage)
    stream.model.objects.pop((KIND_NODE, "uid-n1"))
    stream.stream.resync(Resync(kinds=[KIND_NODE], reason="drift"))
    await stream.snapshot_done(2)
    assert {uid for _, uid in stream.model.objects} == {"uid-n1", "uid-a"}


async def test_a_core_gets_the_objects_it_asks_for_read_afresh(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    stream = await first_stream(stage)
    base = stream.model.applied_seq
    refs = [ObjectRef(kind=KIND_POD, uid=uid) for uid in ("uid-a", "never-there")]
    stream.stream.resync(Resync(objects=refs))
    await stream.until(lambda: stream.model.applied_seq == base + 2)
    assert stage.world.called("read") == ["a"]
    assert {uid for _, uid in stream.model.objects} == {"uid-a"}


async def test_digests_come_now_and_then_and_are_right(stage: Stage) -> None:
    stage.world.store.put(pod("a"))
    stage.start(stage.adapter())
    stream = await stage.core.accept()
    limits = Limits(max_message_bytes=1 << 22, batch_bytes=1 << 16, credit=100)
    limits.digest_interval.FromMilliseconds(5)
    stream.send(welcome=Welcome(mode=WELCOME_MODE_SNAPSHOT, limits=limits))
    served = ServedStream(stream, CoreModel(), credit=100, acks=True)
    await served.until(lambda: len(served.model.digests) >= 2)
    stage.world.store.put(pod("a", node="n1"))
    count = len(served.model.digests)
    await served.until(lambda: len(served.model.digests) >= count + 2)


async def test_a_digest_interval_below_zero_is_not_used(stage: Stage) -> None:
    stage.start(stage.adapter())
    stream = await stage.core.accept()
    limits = Limits(digest_interval=Duration(seconds=-1))
    stream.send(welcome=Welcome(mode=WELCOME_MODE_SNAPSHOT, limits=limits))
    served = ServedStream(stream, CoreModel(), credit=100, acks=True)
    await served.snapshot_done()
    await asyncio.sleep(0.05)
    assert not served.model.digests


async def test_rejected_objects_are_counted_and_the_stream_goes_on(stage: Stage) -> None:
    adapter = stage.adapter()
    stage.start(adapter)
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    served.ack(rejected=[RejectedObject(seq=1, kind=KIND_POD, uid="u", reason="bad")])
    await until(lambda: adapter.metrics.counted("rejected_objects", kind="pod") == 1)
    stage.world.store.put(pod("b"))
    await served.until(lambda: (KIND_POD, "uid-b") in served.model.objects)


@pytest.mark.parametrize("reason", [GO_AWAY_REASON_SHUTTING_DOWN, GO_AWAY_REASON_TOO_SLOW])
async def test_an_adapter_told_to_go_comes_back(stage: Stage, reason: int) -> None:
    first = await first_stream(stage)
    await first.close()
    first.stream.go_away(reason)  # type: ignore[arg-type]
    assert (await stage.core.accept()).hello.incarnation == "life-1"


async def test_going_away_drops_what_is_queued_and_the_core_sees_so(stage: Stage) -> None:
    gate = asyncio.Event()

    async def slow() -> ApplyResult:
        await gate.wait()
        return ApplyResult(ApplyCode.DONE)

    for name in "abc":
        stage.world.store.put(pod(name))
    stage.world.answers["a"] = [slow]
    stage.start(stage.adapter(calls_in_flight=1))
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    first.stream.decide([bind("a"), bind("b"), bind("c")])
    await until(lambda: stage.world.called("bind") == ["a"])
    await first.close()
    first.stream.go_away(GO_AWAY_REASON_SHUTTING_DOWN)
    stream = await stage.core.accept()
    assert list(stream.hello.held_decision_ids) == ["d-a"]
    gate.set()
    second = serve(stream, CoreModel(first.model.applied_seq), resume=True)
    await second.until(lambda: second.model.outcomes)
    assert [outcome.decision_id for outcome in second.model.outcomes] == ["d-a"]
    assert stage.world.called("bind") == ["a"]


async def test_a_replaced_adapter_does_not_come_back(stage: Stage) -> None:
    task = stage.start(stage.adapter())
    first = serve(await stage.core.accept())
    await first.snapshot_done()
    first.stream.go_away(GO_AWAY_REASON_REPLACED)
    with pytest.raises(ReplacedError):
        await task
    await first.close()


async def test_a_fenced_adapter_needs_a_higher_epoch(stage: Stage) -> None:
    class Lease:
        """A leader that is elected again."""

        epoch = 5

        async def current(self) -> int:
            return self.epoch

        async def renew(self, above: int) -> int:
            self.epoch = above + 1
            return self.epoch

        def may_act(self) -> bool:
            return True

    stage.start(stage.adapter(epochs=Lease()))
    first = serve(await stage.core.accept())
    assert (first.stream.hello.epoch, first.stream.hello.incarnation) == (5, "life-1")
    await first.snapshot_done()
    await first.close()
    first.stream.go_away(GO_AWAY_REASON_FENCED)
    second = await stage.core.accept()
    assert (second.hello.epoch, second.hello.incarnation) == (6, "life-2")
    second.end(grpc.StatusCode.FAILED_PRECONDITION, "epoch 6 is below 9", "EPOCH_STALE")
    third = await stage.core.accept()
    assert third.hello.epoch == 7
    third.end(grpc.StatusCode.ALREADY_EXISTS, "taken")
    assert (await stage.core.accept()).hello.epoch == 8


async def test_a_process_that_is_fenced_ends(stage: Stage) -> None:
    task = stage.start(stage.adapter())
    (await stage.core.accept()).end(grpc.StatusCode.FAILED_PRECONDITION, "old epoch", "EPOCH_STALE")
    with pytest.raises(FencedError):
        await task


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
    ],
)
async def test_a_refusal_that_time_does_not_heal_ends_the_adapter(
    stage: Stage, code: grpc.StatusCode
) -> None:
    task = stage.start(stage.adapter())
    (await stage.core.accept()).end(code, "no")
    with pytest.raises(RefusedError, match=code.name):
        await task


async def test_an_adapter_waits_patiently_for_a_core_that_does_not_answer(stage: Stage) -> None:
    adapter = stage.adapter(welcome_timeout_seconds=0.01)
    stage.start(adapter)
    for _ in range(3):
        await stage.core.accept()
    served = serve(await stage.core.accept())
    await served.snapshot_done()


async def test_a_world_that_ends_is_told_to_the_end(stage: Stage) -> None:
    task = stage.start(stage.adapter())
    served = serve(await stage.core.accept())
    await served.snapshot_done()
    stage.world.store.put(pod("last"))
    stage.world.store.close()
    await task
    assert (KIND_POD, "uid-last") in served.model.objects
    await served.close()


async def test_messages_of_the_future_are_ignored(stage: Stage) -> None:
    stream = await first_stream(stage)
    stream.stream.send()
    stream.stream.send(ack=Ack(applied_seq=stream.model.applied_seq, credit=100))
    stage.world.store.put(pod("a"))
    await stream.until(lambda: stream.model.objects)


async def test_an_adapter_that_is_to_end_ends_also_when_its_stream_is_cut_meanwhile(
    stage: Stage,
) -> None:
    adapter = stage.adapter()
    task = stage.start(adapter)
    await serve(await stage.core.accept()).snapshot_done()
    adapter.cut()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=30)
    assert done == {task}
    assert task.cancelled()

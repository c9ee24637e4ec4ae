"""Decisions over real sockets: gangs whole or not at all, nothing twice, every outcome told."""

import asyncio

import grpc

from pumice.adapters.runtime.apply import shown_code
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.v1.cluster_service_pb2 import Resync, StatusBatch
from pumice.v1.decision_pb2 import Decision
from pumice.v1.group_pb2 import PodGroupStatus
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from pumice.v1.status_pb2 import Event, PodGroupStatusChange, StatusChange
from tests.adapters.conftest import Stage
from tests.adapters.core_model import CoreModel
from tests.adapters.fake_clock import until
from tests.adapters.fake_core import ServedStream, serve
from tests.adapters.fake_world import bind, evict, gang, group, pod

NAMES = ("a", "b", "c")
GANG = [bind(name, gang_id="g1") for name in NAMES]


async def begin(stage: Stage) -> tuple[AdapterRuntime, ServedStream]:
    stage.world.store.put(group())
    for name in NAMES:
        stage.world.store.put(pod(name))
    adapter = stage.adapter(calls_in_flight=1)
    stage.start(adapter)
    stream = serve(await stage.core.accept())
    await stream.snapshot_done()
    return adapter, stream


def codes(stream: ServedStream) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for outcome in stream.model.outcomes:
        told.setdefault(outcome.decision_id, []).append(shown_code(outcome.code))
    return told


async def test_a_gang_in_several_messages_is_applied_when_it_is_whole(stage: Stage) -> None:
    adapter, stream = await begin(stage)
    for part in GANG[:2]:
        stream.stream.decide([part], [gang(3)])
    await until(lambda: adapter.metrics.counted("decisions") == 2)
    assert stage.world.calls == []
    stream.stream.decide(GANG[2:], [gang(3)])
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert stage.world.called("bind") == ["a", "b", "c"]
    assert codes(stream) == {f"d-{name}": ["applied"] for name in NAMES}
    # The outcome may be told before the watch shows the pod.
    pods = [(KIND_POD, f"uid-{name}") for name in NAMES]
    await stream.until(
        lambda: all(stream.model.objects[key][1].pod.node_name == "n1" for key in pods)
    )
    await until(lambda: adapter.is_idle)


async def test_a_stream_cut_inside_a_gang_leaves_nothing_of_it(stage: Stage) -> None:
    adapter, stream = await begin(stage)
    stream.stream.decide([*GANG[:2], evict("c", gang_id="g1")], [gang(4)])
    await until(lambda: adapter.metrics.counted("decisions") == 3)
    await stream.close()
    stream.stream.end(grpc.StatusCode.UNAVAILABLE)
    again = await stage.core.accept()
    assert not again.hello.held_decision_ids
    resumed = serve(again, CoreModel(stream.model.applied_seq), resume=True)
    again.decide(GANG[2:], [gang(4)])
    await until(lambda: adapter.metrics.counted("decisions") == 4)
    assert stage.world.calls == []
    # The core decides anew, under new ids.
    again.decide([bind("a")])
    await resumed.until(lambda: codes(resumed) == {"d-a": ["applied"]})


async def test_a_gang_is_refused_whole_when_its_group_changed(stage: Stage) -> None:
    adapter, stream = await begin(stage)
    stage.world.store.put(group(spec_hash="h2"))
    await stream.until(
        lambda: stream.model.objects[KIND_POD_GROUP, "uid-job"][1].pod_group.spec_hash == "h2"
    )
    stream.stream.decide(GANG, [gang(3)])
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert codes(stream) == {f"d-{name}": ["failed"] for name in NAMES}
    assert "gang refused" in stream.model.outcomes[0].reason
    assert stage.world.calls == []
    assert adapter.metrics.counted("refused_gangs") == 1


async def test_a_gang_is_refused_whole_when_its_group_is_another_one(stage: Stage) -> None:
    _, stream = await begin(stage)
    stage.world.store.remove(KIND_POD_GROUP, "uid-job")
    stage.world.store.put(group(uid="new"))
    await stream.until(lambda: (KIND_POD_GROUP, "new") in stream.model.objects)
    stream.stream.decide(GANG, [gang(3)])
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert codes(stream) == {f"d-{name}": ["failed"] for name in NAMES}


async def test_a_status_write_between_decision_and_bind_refuses_nothing(stage: Stage) -> None:
    _, stream = await begin(stage)
    written = PodGroupStatusChange(
        namespace="ns", name="job", uid="uid-job", status=PodGroupStatus(running=1)
    )
    stream.stream.decide(GANG[:2], [gang(3)])
    stream.stream.say_status(StatusBatch(changes=[StatusChange(pod_group=written)]))
    await stream.until(
        lambda: stream.model.objects[KIND_POD_GROUP, "uid-job"][1].pod_group.status.running == 1
    )
    stream.stream.decide(GANG[2:], [gang(3)])
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert codes(stream) == {f"d-{name}": ["applied"] for name in NAMES}


async def test_a_decision_that_comes_twice_is_made_once(stage: Stage) -> None:
    adapter, stream = await begin(stage)
    stream.stream.decide([bind("a"), bind("a")])
    await until(lambda: stage.world.called("bind") == ["a"] and adapter.is_idle)
    stream.stream.decide([bind("a")])
    stream.stream.decide([bind("b")])
    await stream.until(lambda: len(stream.model.outcomes) == 2)
    assert stage.world.called("bind") == ["a", "b"]
    assert adapter.metrics.counted("duplicate_decisions") == 2


async def test_a_batch_of_another_epoch_is_ignored(stage: Stage) -> None:
    _, stream = await begin(stage)
    stream.stream.decide([bind("a")], epoch=stream.stream.hello.epoch - 1)
    stream.stream.decide([bind("b")])
    await stream.until(lambda: stream.model.outcomes)
    assert stage.world.called("bind") == ["b"]


async def test_decisions_go_on_while_the_stream_is_away_and_are_held(stage: Stage) -> None:
    adapter, stream = await begin(stage)
    gate = asyncio.Event()

    async def slow() -> ApplyResult:
        await gate.wait()
        stage.world.place("uid-a", "n1")
        return ApplyResult(ApplyCode.DONE)

    stage.world.answers["a"] = [slow]
    stream.stream.decide(GANG, [gang(3)])
    await until(lambda: stage.world.called("bind") == ["a"])
    adapter.cut()
    await stream.close()
    again = await stage.core.accept()
    assert list(again.hello.held_decision_ids) == ["d-a", "d-b", "d-c"]
    gate.set()
    resumed = serve(again, CoreModel(stream.model.applied_seq), resume=True)
    await resumed.until(lambda: len(resumed.model.outcomes) == 3)
    assert codes(resumed) == {f"d-{name}": ["applied"] for name in NAMES}
    await until(lambda: adapter.is_idle)


async def test_before_a_snapshot_queued_decisions_are_dropped_and_calls_finished(
    stage: Stage,
) -> None:
    _, stream = await begin(stage)
    gate = asyncio.Event()

    async def slow() -> ApplyResult:
        await gate.wait()
        stage.world.place("uid-a", "n1")
        return ApplyResult(ApplyCode.DONE)

    stage.world.answers["a"] = [slow]
    stream.stream.decide([bind("a"), bind("b"), bind("c")])
    await until(lambda: stage.world.called("bind") == ["a"])
    await stream.close()
    stream.stream.end(grpc.StatusCode.UNAVAILABLE)
    fresh = serve(await stage.core.accept())
    await asyncio.sleep(0.01)
    assert fresh.model.snapshots == 0
    gate.set()
    await fresh.snapshot_done()
    # The call that was in flight is part of what the snapshot says; nothing else happened.
    assert fresh.model.objects[KIND_POD, "uid-a"][1].pod.node_name == "n1"
    assert stage.world.called("bind") == ["a"]
    assert fresh.model.outcomes == []
    fresh.stream.decide([Decision(id="anew", bind=bind("b").bind)])
    await fresh.until(lambda: codes(fresh) == {"anew": ["applied"]})


async def test_a_snapshot_does_not_wait_for_a_call_for_ever(stage: Stage) -> None:
    _, stream = await begin(stage)
    never = asyncio.Event()

    async def stuck() -> ApplyResult:
        await never.wait()
        return ApplyResult(ApplyCode.DONE)

    stage.world.answers["a"] = [stuck]
    stream.stream.decide([bind("a")])
    await until(lambda: stage.world.called("bind") == ["a"])
    await stream.close()
    stream.stream.end(grpc.StatusCode.UNAVAILABLE)
    fresh = serve(await stage.core.accept())
    await fresh.snapshot_done()


async def test_decisions_that_a_resync_overtakes_are_reported_as_failed(stage: Stage) -> None:
    _, stream = await begin(stage)
    seen = stream.model.applied_seq
    stream.stream.decide(GANG[:2], [gang(3)])
    stream.stream.resync(Resync(kinds=[KIND_POD]))
    await stream.snapshot_done(2)
    # Of a session that ran before the snapshot.
    stream.stream.decide(GANG[2:], [gang(3)], based_on_seq=seen)
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert codes(stream) == {f"d-{name}": ["failed"] for name in NAMES}
    assert stage.world.calls == []
    stream.stream.decide([Decision(id="anew", bind=bind("a").bind)])
    await stream.until(lambda: codes(stream).get("anew") == ["applied"])


async def test_a_conflict_is_reported_and_the_pod_told_afresh(stage: Stage) -> None:
    _, stream = await begin(stage)
    stage.world.answers["a"] = [ApplyResult(ApplyCode.PLACED, node="n9")]
    stream.stream.decide([bind("a")])
    await stream.until(lambda: codes(stream) == {"d-a": ["conflict"]})
    await until(lambda: stage.world.called("read") == ["a"])


async def test_a_pod_that_is_gone_is_told_as_gone(stage: Stage) -> None:
    _, stream = await begin(stage)
    stage.world.answers["a"] = [ApplyResult(ApplyCode.NOT_FOUND)]
    # The watch has not told so yet.
    stage.world.store._objects.pop((KIND_POD, "uid-a"))
    stage.world.store._names.pop((KIND_POD, "ns", "a"))
    stream.stream.decide([bind("a")])
    await stream.until(lambda: codes(stream) == {"d-a": ["gone"]})
    await stream.until(lambda: (KIND_POD, "uid-a") not in stream.model.objects)


async def test_a_bind_that_keeps_failing_is_given_up_and_others_are_not_held_up(
    stage: Stage,
) -> None:
    _, stream = await begin(stage)
    stage.world.answers["a"] = [ApplyResult(ApplyCode.SERVER_ERROR)] * 100
    stream.stream.decide([bind("a"), bind("b")])
    await stream.until(lambda: len(stream.model.outcomes) == 3)
    assert codes(stream) == {"d-a": ["retrying", "failed"], "d-b": ["applied"]}
    assert stage.world.called("bind").count("a") == 5


async def test_events_are_written_even_if_the_core_goes(stage: Stage) -> None:
    _, stream = await begin(stage)
    event = Event(kind=KIND_POD_GROUP, namespace="ns", name="job", uid="uid-job", message="hello")
    stage.world.answers["event job"] = [ApplyResult(ApplyCode.SERVER_ERROR)]
    stream.stream.say_status(StatusBatch(events=[event]))
    await until(lambda: stage.world.called("event") == ["hello"])
    await stream.close()
    stream.stream.end(grpc.StatusCode.UNAVAILABLE)
    await until(lambda: stage.world.called("event") == ["hello", "hello"])

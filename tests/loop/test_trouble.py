"""Core and adapter together, when either of them, the wire or the cluster is in trouble."""

import asyncio
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from pumice.adapters.runtime.world import ApplyCode, ApplyResult
from pumice.server.limits import Limits
from pumice.v1.cluster_service_pb2 import ConnectResponse
from pumice.v1.decision_pb2 import Bind
from pumice.v1.group_pb2 import POD_GROUP_PHASE_INQUEUE, POD_GROUP_PHASE_RUNNING
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP, ClusterObject
from tests.adapters.fake_world import FakeWorld
from tests.loop.stage import Stage, until
from tests.server.running import gang, node, queue

REFUSED = ApplyResult(ApplyCode.FORBIDDEN, "not allowed")


class GatedWorld(FakeWorld):
    """Binds wait at a gate; some are refused for ever."""

    def __init__(self, *objects: ClusterObject) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_the_gate: list[str] = []
        self.refused: frozenset[str] = frozenset()
        for held in (queue(), *objects):
            self.store.put(held)

    async def bind(self, order: Bind) -> ApplyResult:
        self.at_the_gate.append(order.name)
        await self.gate.wait()
        if order.name in self.refused:
            self.calls.append(("refused bind", order.name))
            return REFUSED
        return await super().bind(order)

    def placed(self, job: str) -> list[str]:
        pods = (held.pod for held in self.store.of_kind(KIND_POD))
        return sorted(pod.name for pod in pods if pod.group_name == job and pod.node_name)


def members(job: str, size: int) -> list[str]:
    return sorted(f"{job}-{number}" for number in range(size))


@pytest.mark.parametrize("the_binds_end", ["while no core is there", "under the next core"])
async def test_a_core_that_restarts_with_binds_in_flight_binds_nothing_twice(
    stage: Stage, the_binds_end: str
) -> None:
    world = GatedWorld(node("n1", 8000), *gang("job", 4))
    world.gate.clear()
    runtime = stage.start_adapter(world)
    await until(lambda: len(world.at_the_gate) == 4, "all four binds are in flight")
    await stage.core.crash()
    if the_binds_end == "while no core is there":
        world.gate.set()
        await until(lambda: world.placed("job"), "the binds end without a core")
    await stage.start_core()
    world.gate.set()
    await until(lambda: stage.core.metric("pumice_sessions_total"), "the new core has a session")
    assert await stage.agrees_with(runtime)
    assert sorted(world.called("bind")) == world.placed("job") == members("job", 4)
    assert stage.core.metric("pumice_binds_total") == 0


async def test_a_wire_cut_inside_a_gang_leaves_it_whole_in_the_end(folder: Path) -> None:
    # So small that a gang of twenty takes many messages.
    async with Stage(folder, Limits(batch_bytes=200)) as stage:
        world = GatedWorld(node("n1", 20_000), *gang("job", 20))
        parts = 0

        def lets_pass(response: ConnectResponse) -> bool:
            nonlocal parts
            parts += response.HasField("decision_batch")
            return not (response.HasField("decision_batch") and parts == 2)

        stage.wire.lets_pass = lets_pass
        runtime = stage.start_adapter(world)
        await until(lambda: parts == 2, "the wire is cut in the middle of the gang")
        assert world.called("bind") == []
        await until(lambda: len(world.placed("job")) == 20, "the gang is bound")
        assert sorted(world.called("bind")) == members("job", 20)
        assert await stage.agrees_with(runtime)


def change_group(world: FakeWorld, job: str, *, spec_hash: str = "") -> None:
    copied = world.store.copy(KIND_POD_GROUP, f"group-{job}")
    assert copied is not None
    copied.pod_group.status.phase = POD_GROUP_PHASE_RUNNING
    copied.pod_group.status.running += 1
    if spec_hash:
        copied.pod_group.spec_hash = spec_hash
    world.store.put(copied)


@pytest.mark.parametrize(("spec_hash", "refusals"), [("", 0), ("another spec", 2)])
async def test_only_a_changed_spec_refuses_a_gang_that_was_decided(
    stage: Stage, spec_hash: str, refusals: int
) -> None:
    world = GatedWorld(node("n1", 8000), *gang("first", 1), *gang("second", 2))
    world.gate.clear()
    # One call at a time: the second gang has been decided and waits for its turn.
    runtime = stage.start_adapter(world, calls_in_flight=1)
    counted = runtime.metrics.counted
    await until(lambda: counted("decisions") == 3, "both gangs are decided")
    await until(lambda: len(world.at_the_gate) == 1, "the first bind is in flight")
    before = counted("events", kind="pod_group")
    change_group(world, "second", spec_hash=spec_hash)
    await until(lambda: counted("events", kind="pod_group") > before, "the write was seen")
    world.gate.set()
    await until(lambda: len(world.placed("second")) == 2, "the second gang is bound")
    assert counted("outcomes", code="failed") == refusals
    assert sorted(world.called("bind")) == ["first-0", "second-0", "second-1"]
    assert await stage.agrees_with(runtime)


async def test_a_job_whose_binds_are_refused_for_ever_starves_nobody(stage: Stage) -> None:
    # There is room for one of them; the doomed one comes first by its name.
    world = GatedWorld(node("n1", 4000), *gang("doomed", 2, 2000), *gang("patient", 2, 2000))
    world.refused = frozenset(members("doomed", 2))
    runtime = stage.start_adapter(world)
    await until(lambda: len(world.placed("patient")) == 2, "the other job has its turn")
    assert world.placed("doomed") == []
    assert len(world.called("refused bind")) >= 2
    assert await stage.agrees_with(runtime)


async def test_the_member_that_failed_for_good_is_placed_again(stage: Stage) -> None:
    world = GatedWorld(node("n1", 8000), *gang("job", 3))
    world.answers["job-1"] = [REFUSED, REFUSED]
    runtime = stage.start_adapter(world)
    await until(lambda: world.placed("job") == members("job", 3), "the gang is whole")
    binds = world.called("bind")
    assert [binds.count(name) for name in members("job", 3)] == [1, 3, 1]
    assert world.called("evict") == []
    assert await stage.agrees_with(runtime)


async def test_a_gang_that_stays_short_goes_when_its_deadline_has_passed(stage: Stage) -> None:
    world = GatedWorld(node("n1", 8000), *gang("job", 3))
    world.refused = frozenset({"job-1"})
    world.configuration.gang_bind_deadline.CopyFrom(Duration(seconds=1))
    stage.start_adapter(world)
    await until(lambda: len(world.called("evict")) == 2, "the bound members are evicted")
    assert sorted(world.called("evict")) == ["job-0", "job-2"]


async def test_an_adapter_that_reads_too_slowly_loses_its_stream_and_no_pod(folder: Path) -> None:
    limits = Limits(outgoing_bytes=20_000, go_away_ns=50_000_000)
    async with Stage(folder, limits) as stage:
        world = GatedWorld(*(node(f"n{number:03}") for number in range(300)))
        runtime = stage.start_adapter(world)
        await until(lambda: stage.core.metric("pumice_snapshots_total"), "the core knows the nodes")
        # Nothing is read any more, while there is more and more to say.
        stage.wire.holds_back = lambda: bool(stage.core.metric("pumice_streams"))
        names: list[str] = []
        while stage.core.metric("pumice_streams"):
            job = f"job{len(names):05}"
            names += members(job, 100)
            assert len(names) < 15_000, "the core lets everything wait"
            for held in gang(job, 100, 1):
                world.store.put(held)
            await asyncio.sleep(0.05)
        stage.wire.holds_back = lambda: False
        await until(lambda: len(world.called("bind")) >= len(names), "every pod is bound")
        assert sorted(world.called("bind")) == sorted(names)
        assert await stage.agrees_with(runtime)


async def test_a_job_is_admitted_however_often_its_status_could_not_be_written(
    stage: Stage,
) -> None:
    admitted = next(held for held in gang("job", 2) if held.HasField("pod_group"))
    world = GatedWorld(node("n1", 8000), admitted)
    world.answers["status job"] = [
        ApplyResult(code)
        for code in (ApplyCode.NOT_LEADING, ApplyCode.FORBIDDEN, *[ApplyCode.SERVER_ERROR] * 12)
    ]
    stage.start_adapter(world)

    def is_admitted() -> bool:
        (held,) = world.store.of_kind(KIND_POD_GROUP)
        return held.pod_group.status.phase == POD_GROUP_PHASE_INQUEUE

    await until(is_admitted, "the pod group is admitted")

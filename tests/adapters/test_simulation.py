"""The simulated cluster: its seed decides, its jobs run whole, and trouble loses nobody."""

import asyncio
import json
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner

from pumice.adapters.runtime.clock import Backoff, end_tasks
from pumice.adapters.runtime.connect import channel_factory, is_local
from pumice.adapters.runtime.objects import ObjectKey, identity
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.world import ApplyCode, ConfigurationSeen, ObjectSeen, Synced
from pumice.adapters.simulated.commands import simulated_command
from pumice.adapters.simulated.options import ALL_FAULTS, FaultRates, SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.run import Simulation
from pumice.adapters.simulated.world import SimulatedWorld
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP, Kind
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING
from tests.adapters.conftest import Stage
from tests.adapters.fake_clock import FakeClock, settle
from tests.adapters.greedy_core import GreedyCore

QUICK = SimulationOptions(nodes=8, jobs=12, duration=60, speed=50, call_seconds=0.0)
# On a busy machine fewer things happen in a second: these end when all is done, or long after.
AT_LEISURE = replace(QUICK, duration=2000, arrival_share=0.1)
ONE_JOB = SimulationOptions(jobs=1, arrival_share=0.0, call_seconds=0.0)


async def simulate(stage: Stage, options: SimulationOptions) -> tuple[Simulation, SimulationReport]:
    greedy = GreedyCore(stage.core)
    core = asyncio.create_task(greedy.run())
    runtime = RuntimeOptions(
        "simulated",
        "simulated",
        flush_seconds=0.001,
        reconnect=Backoff(0.001, 0.01),
        apply_backoff=Backoff(0.005, 0.02),
        resync_backoff=Backoff(0.005, 0.02),
        status_backoff=Backoff(0.005, 0.02),
    )
    simulation = Simulation(channel_factory(stage.address), options, runtime)
    try:
        await asyncio.wait_for(simulation.run(), 60)
    finally:
        if core.done():
            core.result()
        await end_tasks(core)
    if not options.faults.broken_streams:
        assert greedy.models[-1].objects.keys() == dict(everything(simulation.world)).keys()
    return simulation, simulation.world.report()


async def test_every_job_runs_whole_and_is_removed(stage: Stage) -> None:
    _, report = await simulate(stage, QUICK)
    assert (report.jobs_done, report.gangs_whole, report.gangs_short) == (12, 12, 0)
    assert report.calls["bind"] == report.pods_bound
    assert (report.conflicting_binds, report.overcommits) == (0, 0)


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_trouble_loses_a_pod_or_binds_one_twice(stage: Stage, seed: int) -> None:
    trouble = replace(ALL_FAULTS, broken_streams=4.0, failing_nodes=8.0)
    options = replace(AT_LEISURE, seed=seed, faults=trouble, slow_call_seconds=0.05)
    simulation, report = await simulate(stage, options)
    assert (report.jobs_done, report.gangs_whole, report.gangs_short) == (12, 12, 0)
    assert report.node_failures > 0
    assert report.overcommits == 0
    metrics = simulation.runtime.metrics
    assert metrics.counted("stream_ends") > 0
    assert metrics.counted("outcomes", code="retrying") > 0


async def test_a_job_refused_for_ever_keeps_nobody_else_from_running(stage: Stage) -> None:
    options = replace(AT_LEISURE, refused_jobs=frozenset({"job-0003"}), duration=200)
    _, report = await simulate(stage, options)
    assert report.jobs_done == 11
    assert report.jobs_waiting == 1


def everything(world: SimulatedWorld) -> list[tuple[ObjectKey, bytes]]:
    return [
        ((who.kind, who.uid), held.SerializeToString(deterministic=True))
        for kind in Kind.values()
        for held in world.store.of_kind(kind)
        for who in [identity(held)]
    ]


async def lived(seed: int) -> SimulatedWorld:
    clock = FakeClock()
    trouble = FaultRates(failing_nodes=5.0)
    world = SimulatedWorld(SimulationOptions(seed=seed, jobs=10, faults=trouble), clock)
    life = asyncio.create_task(world.run())
    await clock.advance(29)
    await end_tasks(life)
    return world


async def test_the_seed_decides_everything() -> None:
    assert everything(await lived(5)) == everything(await lived(5))
    assert everything(await lived(5)) != everything(await lived(6))


async def test_a_watch_tells_the_configuration_all_objects_and_then_changes() -> None:
    world = SimulatedWorld(QUICK, FakeClock())
    watch = world.watch()
    first = await anext(watch)
    assert isinstance(first, ConfigurationSeen)
    present = 0
    while isinstance(event := await anext(watch), ObjectSeen):
        present += 1
    assert isinstance(event, Synced)
    assert present == 8 + 4 + 3
    world.store.close()
    assert [event async for event in watch] == []


async def test_a_pod_starts_runs_and_comes_back_when_it_is_evicted() -> None:
    clock = FakeClock()
    world = SimulatedWorld(ONE_JOB, clock)
    life = asyncio.create_task(world.run())
    await settle()
    pods = [held.pod for held in world.store.of_kind(KIND_POD)]
    for pod in pods:
        order = Bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node="node-0002")
        assert (await world.binder.bind(order)).code is ApplyCode.DONE
    await clock.advance(1)
    assert all(h.pod.phase == POD_PHASE_RUNNING for h in world.store.of_kind(KIND_POD))
    victim = pods[0]
    gone = Evict(namespace=victim.namespace, name=victim.name, uid=victim.uid)
    assert (await world.evictor.evict(gone)).code is ApplyCode.DONE
    await clock.advance(1.5)
    again = (await world.read_pod(victim.namespace, victim.name)).object
    assert again is not None
    assert again.pod.uid != victim.uid
    assert not again.pod.node_name
    assert (await world.evictor.evict(gone)).code is ApplyCode.OTHER_UID
    order = Bind(namespace=victim.namespace, name=victim.name, uid=again.pod.uid, node="node-0002")
    await world.binder.bind(order)
    await clock.advance(20)
    assert life.done()
    assert world.report().jobs_done == 1
    assert not list(world.store.of_kind(KIND_POD_GROUP))


async def test_binds_are_refused_as_an_api_server_would() -> None:
    clock = FakeClock()
    world = SimulatedWorld(ONE_JOB, clock)
    life = asyncio.create_task(world.run())
    await settle()
    pod = next(world.store.of_kind(KIND_POD)).pod

    async def bind(**changes: str) -> ApplyCode:
        order = Bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node="node-0001")
        for field, value in changes.items():
            setattr(order, field, value)
        return (await world.binder.bind(order)).code

    assert await bind(name="nobody") is ApplyCode.NOT_FOUND
    assert await bind(uid="other") is ApplyCode.OTHER_UID
    assert await bind(node="nowhere") is ApplyCode.INVALID
    assert await bind() is ApplyCode.DONE
    assert await bind() is ApplyCode.PLACED
    assert await bind(node="node-0002") is ApplyCode.PLACED
    assert world.report().conflicting_binds == 1
    await end_tasks(life)


def test_trouble_is_read_from_words() -> None:
    assert FaultRates.parse([]) == FaultRates()
    assert FaultRates.parse(["all"]) == ALL_FAULTS
    assert FaultRates.parse(["lost-answers=0.5"]) == FaultRates(lost_answers=0.5)
    assert FaultRates.parse(["all", "failing-nodes=0"]) == replace(ALL_FAULTS, failing_nodes=0.0)
    for word in ("thunder", "lost-answers=2", "lost-answers=x"):
        with pytest.raises(ValueError, match=word.partition("=")[0]):
            FaultRates.parse([word])


def test_another_machine_needs_certificates() -> None:
    assert is_local("unix:/tmp/core.sock")
    assert is_local("localhost:50051")
    assert not is_local("core.example:50051")
    with pytest.raises(ValueError, match="TLS"):
        channel_factory("core.example:50051")
    channel_factory("core.example:50051", insecure=True)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--core", "core.example:1"],
        ["--core", "unix:/x", "--fault", "thunder"],
        ["--core", "unix:/x", "--nodes", "0"],
        ["--core", "unix:/x", "--tls-cert", __file__],
    ],
)
def test_bad_arguments_are_explained(arguments: list[str]) -> None:
    done = CliRunner().invoke(simulated_command, arguments)
    assert done.exit_code == 2
    assert "Error" in done.output


async def test_the_command_runs_a_cluster_and_reports(stage: Stage) -> None:
    core = asyncio.create_task(GreedyCore(stage.core).run())
    arguments = ["simulated", "--core", stage.address, "--jobs", "2", "--speed", "60", "--json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pumice.cli", "adapter"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(output)["jobs_done"] == 2
    await end_tasks(core)

"""A simulated cluster with a state file: whoever starts with the file goes on where it was."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.adapters.runtime.clock import SystemClock, end_tasks
from pumice.adapters.runtime.world import ApplyCode
from pumice.adapters.simulated.journal import FileJournal, StateError, locked_state
from pumice.adapters.simulated.options import FaultRates, SimulationOptions
from pumice.adapters.simulated.world import SimulatedWorld
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.group_pb2 import POD_GROUP_PHASE_RUNNING, PodGroupStatus
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, KIND_POD_GROUP
from pumice.v1.pod_pb2 import POD_PHASE_RUNNING
from pumice.v1.status_pb2 import Event, PodGroupStatusChange, StatusChange
from tests.adapters.fake_clock import FakeClock, settle
from tests.adapters.test_simulation import everything

BUSY = SimulationOptions(
    nodes=6, jobs=8, call_seconds=0.0, faults=FaultRates(server_errors=0.1, failing_nodes=8.0)
)


async def live(world: SimulatedWorld, clock: FakeClock, seconds: float) -> None:
    """Lives on, with somebody who binds what is there, evicts a little and writes statuses."""
    life = asyncio.create_task(world.run())
    for _ in range(int(seconds)):
        await clock.advance(1)
        pods = [held.pod for held in world.store.of_kind(KIND_POD)]
        for number, pod in enumerate(pods):
            order = Bind(namespace=pod.namespace, name=pod.name, uid=pod.uid)
            order.node = f"node-{number % 6:04d}"
            await world.binder.bind(order)
        for pod in pods[::7]:
            await world.evictor.evict(Evict(namespace=pod.namespace, name=pod.name, uid=pod.uid))
        for held in list(world.store.of_kind(KIND_POD_GROUP)):
            change = PodGroupStatusChange(uid=held.pod_group.uid)
            change.status.CopyFrom(PodGroupStatus(phase=POD_GROUP_PHASE_RUNNING))
            await world.status_updater.write_status(StatusChange(pod_group=change))
        await world.status_updater.write_event(Event(reason="Looked"))
    await world.flushed()
    await end_tasks(life)


async def test_a_restarted_cluster_is_the_same_one_and_goes_on_alike(tmp_path: Path) -> None:
    first_clock, second_clock = FakeClock(), FakeClock(77.0)
    killed = SimulatedWorld(BUSY, first_clock, tmp_path / "state")
    await live(killed, first_clock, 17)
    again = SimulatedWorld(BUSY, second_clock, tmp_path / "state")
    assert everything(again) == everything(killed)
    assert again.report() == killed.report()
    assert again.report().pods_bound > 0
    assert again.report().node_failures > 0
    assert again.event_queue.second == killed.event_queue.second
    # The calendar is the same too: both become the same cluster again.
    await asyncio.gather(live(killed, first_clock, 10), live(again, second_clock, 10))
    assert again.report().as_dict() == killed.report().as_dict()


async def test_time_does_not_pass_while_nobody_lives_it(tmp_path: Path) -> None:
    clock = FakeClock()
    world = SimulatedWorld(BUSY, clock, tmp_path / "state")
    await live(world, clock, 5)
    await clock.advance(1000)
    again = SimulatedWorld(BUSY, clock, tmp_path / "state")
    assert again.event_queue.clock_second() == world.event_queue.second


async def test_half_a_line_was_never_answered_and_is_dropped(tmp_path: Path) -> None:
    state = tmp_path / "state"
    clock = FakeClock()
    await live(SimulatedWorld(BUSY, clock, state), clock, 5)
    before = everything(SimulatedWorld(BUSY, clock, state))
    whole = state.read_bytes()
    state.write_bytes(whole + b'[5.0,"bi')
    assert everything(SimulatedWorld(BUSY, clock, state)) == before
    assert state.read_bytes() == whole


async def test_nobody_sees_what_is_not_on_disk(tmp_path: Path) -> None:
    state = tmp_path / "state"
    clock = FakeClock()
    world = SimulatedWorld(replace(BUSY, arrival_share=0.0, faults=FaultRates()), clock, state)
    life = asyncio.create_task(world.run())
    await settle()
    pod = next(world.store.of_kind(KIND_POD)).pod
    order = Bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node="node-0001")
    assert (await world.binder.bind(order)).code is ApplyCode.DONE
    length = state.stat().st_size
    seen = SimulatedWorld(world.options, clock, state).store.get(KIND_POD, pod.uid)
    assert seen is not None
    assert seen.pod.node_name == "node-0001"
    watch = world.watch()
    await clock.advance(1)
    async for event in watch:
        held = getattr(event, "object", None)
        if held is not None and held.pod.phase == POD_PHASE_RUNNING:
            break
    await watch.aclose()
    assert state.stat().st_size > length
    await end_tasks(life)


def test_a_file_of_another_cluster_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    FileJournal(state, BUSY, 0)
    with pytest.raises(StateError, match="other options: seed, jobs"):
        FileJournal(state, replace(BUSY, seed=2, jobs=9), 0)
    state.write_text("something else\n", encoding="utf-8")
    with pytest.raises(StateError, match="not the state of a simulated cluster"):
        FileJournal(state, BUSY, 0)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    FileJournal(state, BUSY, 0)
    with state.open("ab") as file:
        file.write(b"[1.0,\n")
    with pytest.raises(StateError, match="damaged"):
        list(FileJournal(state, BUSY, 0).entries())


async def test_a_file_that_another_process_has_open_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with locked_state(state):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from pumice.cli.main import main; main()"),
            *("adapter", "simulated", "--core", "unix:/nowhere", "--state", os.fspath(state)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
    assert process.returncode == 2
    assert b"in use by another process" in said


async def test_objects_are_as_old_as_they_are(tmp_path: Path) -> None:
    """Creation times count from the start of the cluster, also after a restart of its process."""
    clock = FakeClock()
    state = tmp_path / "state"
    world = SimulatedWorld(BUSY, clock, state)
    await live(world, clock, 5)
    start_ms = world.timestamps.start_unix_ms
    (*_, youngest) = sorted(
        held.node.creation_time.ToMilliseconds() for held in world.store.of_kind(KIND_NODE)
    )
    assert start_ms <= youngest <= clock.unix_ms()
    await clock.advance(1000)
    assert SimulatedWorld(BUSY, clock, state).timestamps.start_unix_ms == start_ms
    assert (
        abs(SimulatedWorld(BUSY, SystemClock()).timestamps.start_unix_ms / 1000 - time.time()) < 60
    )

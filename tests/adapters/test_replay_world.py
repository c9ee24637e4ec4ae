"""A recording as a world: told in order, at its pace, and not changed by what is decided."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pumice.adapters.replay.world import ReplayWorld
from pumice.adapters.runtime.world import (
    ApplyCode,
    ConfigurationSeen,
    ObjectGone,
    ObjectSeen,
    Synced,
    WorldEvent,
)
from pumice.recordings import Recording
from pumice.recordings.history import History
from pumice.v1.decision_pb2 import Bind

RECORDING = Path(__file__).parents[1] / "recordings" / "trouble.pumice"


class SteppingClock:
    """Sleeping is all that lets time pass."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        return self.slept

    def unix_ms(self) -> int:
        return int(self.slept * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


async def told(world: ReplayWorld) -> list[WorldEvent]:
    return [event async for event in world.watch()]


async def test_everything_comes_in_order_and_ends_with_what_is_left() -> None:
    with Recording(RECORDING) as held:
        events = await told(ReplayWorld(held, clock=SteppingClock()))
    kinds = [type(event) for event in events]
    assert kinds.count(Synced) == 1
    assert ConfigurationSeen in kinds[: kinds.index(Synced)]
    assert {ObjectSeen, ObjectGone} <= set(kinds[kinds.index(Synced) :])


async def test_time_passes_as_it_did_divided_by_the_speed() -> None:
    slept = []
    for speed in (1.0, 10.0):
        clock = SteppingClock()
        with Recording(RECORDING) as held:
            await told(ReplayWorld(held, speed, clock=clock))
        slept.append(clock.slept)
    with Recording(RECORDING) as held:
        history = History.read(held.entries())
    assert 0 < slept[0] <= (history.end_ns - history.start_ns) / 1e9
    assert abs(slept[0] / slept[1] - 10) < 0.01


async def test_another_configuration_takes_the_place_of_the_recorded_one() -> None:
    with Recording(RECORDING) as held:
        events = await told(ReplayWorld(held, scheduler_conf="other", clock=SteppingClock()))
    texts = {
        event.configuration.scheduler_conf
        for event in events
        if isinstance(event, ConfigurationSeen)
    }
    assert texts == {"other"}


async def test_decisions_are_answered_with_yes_and_have_no_effect() -> None:
    with Recording(RECORDING) as held:
        world = ReplayWorld(held, clock=SteppingClock())
        answer = await world.binder.bind(Bind(uid="anything"))
        assert answer.code is ApplyCode.DONE
        events = await told(world)
    assert world.calls.binds == 1
    assert len(events) > 100


async def test_nothing_passes_before_a_core_is_there_to_hear_it() -> None:
    clock = SteppingClock()
    with Recording(RECORDING) as held:
        world = ReplayWorld(held, speed=1000, clock=clock)
        world.is_served = asyncio.Event()
        events = aiter(world.watch())
        while not isinstance(await anext(events), Synced):
            pass
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.slept += 60
        world.is_served.set()
        await waiting
        rest = [event async for event in events]
    assert len(rest) > 100
    # Time began when the core was there, and a little is left for its last decisions.
    assert 60 < clock.slept < 62

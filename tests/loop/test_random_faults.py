"""Random faults from a seed: whatever breaks and dies, every gang ends whole and nothing twice."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.world import WorldEvent
from pumice.adapters.simulated.options import FaultRates, SimulationOptions
from pumice.adapters.simulated.run import Simulation
from pumice.server.limits import Limits
from tests.loop.stage import Stage, quick

Watch: TypeAlias = Callable[..., AsyncGenerator[WorldEvent]]

SEEDS = (2, 3, 6, 8, 12)
# Digests are compared all the time.
LIMITS = Limits(digest_interval_ns=100_000_000)
# With evictions, so that gangs are also taken from.
CONFIGURATION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: proportion
- plugins:
  - name: predicates
  - name: nodeorder
"""
OPTIONS = SimulationOptions(
    nodes=4,
    jobs=40,
    load=2.0,
    scheduler_conf=CONFIGURATION,
    # Nothing takes that long; the jobs come within the first forty simulated seconds.
    duration=2000,
    arrival_share=0.02,
    speed=10,
    elastic_share=0.7,
    slow_call_seconds=0.3,
    outage_seconds=3.0,
    faults=FaultRates(
        refused_binds=0.03,
        slow_binds=0.1,
        lost_answers=0.1,
        throttled_calls=0.05,
        server_errors=0.05,
        failing_nodes=20.0,
    ),
)
FAULTS = 12
# Share of the watch events before which the watch pauses, and for how long.
WATCH_PAUSES, WATCH_PAUSE_SECONDS = 0.02, 0.2


class Ordeal:
    """A simulated cluster in a file, an adapter and a core that die, and a wire that breaks."""

    def __init__(self, stage: Stage, state: Path, seed: int) -> None:
        self.stage = stage
        self._state, self._seed = state, seed
        self._rng, self._lag_rng = random.Random(seed), random.Random(seed)
        self.simulations: list[Simulation] = []
        self._start_adapter()

    @property
    def simulation(self) -> Simulation:
        return self.simulations[-1]

    def _start_adapter(self) -> None:
        options = replace(OPTIONS, seed=self._seed)
        made = Simulation(self.stage.open_channel, options, quick(), state=self._state)
        made.world.store.watch = self._lagging(made.world.store.watch)  # type: ignore[method-assign]
        self.simulations.append(made)
        self._run = asyncio.create_task(made.run())

    def _lagging(self, watch: Watch) -> Watch:
        """A watch that shows changes later than the responses to the calls that made them."""

        async def watched(*first: WorldEvent) -> AsyncGenerator[WorldEvent]:
            async with aclosing(watch(*first)) as events:
                async for event in events:
                    if self._lag_rng.random() < WATCH_PAUSES:
                        await asyncio.sleep(WATCH_PAUSE_SECONDS)
                    yield event

        return watched

    async def suffer(self) -> None:
        """Faults, one after the other, each a while after the last one; then calm."""
        rng = self._rng
        for _ in range(FAULTS):
            await asyncio.sleep(rng.uniform(0.05, 0.5))
            if self._run.done():
                break
            await rng.choice((self._cut, self._delay, self._kill_core, self._kill_adapter))()
        self.stage.wire.delay = lambda: 0.0
        await self._run

    async def _cut(self) -> None:
        self.stage.wire.cut()

    async def _delay(self) -> None:
        longest = self._rng.choice((0.0, 0.02, 0.1))
        self.stage.wire.delay = lambda: self._rng.uniform(0, longest)

    async def _kill_core(self) -> None:
        await self.stage.core.crash()
        await asyncio.sleep(self._rng.uniform(0, 0.3))
        await self.stage.start_core()

    async def _kill_adapter(self) -> None:
        await end_tasks(self._run)
        # What is being written to the file at this moment gets there or not, but is not written
        # behind the back of the next one.
        await self.simulation.world.flushed()
        await asyncio.sleep(self._rng.uniform(0, 0.2))
        self._start_adapter()


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_breaks_every_gang_ends_whole(folder: Path, seed: int) -> None:
    async with Stage(folder, LIMITS) as stage:
        ordeal = Ordeal(stage, folder / "state", seed)
        async with asyncio.timeout(100):
            await ordeal.suffer()
        report = ordeal.simulation.world.report()
        # Every gang whole, and no pod forgotten: all jobs ran to their end.
        jobs = OPTIONS.jobs
        assert (report.gangs_whole, report.gangs_short, report.jobs_done) == (jobs, 0, jobs)
        # Nothing bound twice, and no node promised to two.
        assert (report.conflicting_binds, report.overcommits) == (0, 0)
        # Digests were equal whenever they were compared, and no core lost its head.
        assert stage.metric("pumice_drift_total") == 0
        assert stage.metric("pumice_state_lost_total") == 0
        assert stage.metric("pumice_ops_rejected_total") == 0
        runtime = ordeal.simulation.runtime
        assert await stage.core.digests() == runtime._outbox.digests()

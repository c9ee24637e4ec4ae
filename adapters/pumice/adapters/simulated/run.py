"""A simulated cluster with its adapter runtime."""

import asyncio
import contextlib
from pathlib import Path

from pumice.adapters.runtime.clock import Clock, SystemClock, end_tasks
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.epochs import Epochs
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.seeded_random import SeededRandom
from pumice.adapters.simulated.world import SimulatedWorld


class Simulation:
    """Runs a simulated cluster and its adapter runtime."""

    def __init__(
        self,
        open_channel: ChannelFactory,
        simulation: SimulationOptions,
        runtime: RuntimeOptions,
        *,
        state: Path | None = None,
        clock: Clock | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        self._options = simulation
        self._clock: Clock = clock or SystemClock()
        self.world = SimulatedWorld(simulation, self._clock, state)
        self.runtime = AdapterRuntime(
            self.world,
            open_channel,
            runtime,
            epochs=epochs,
            clock=self._clock,
            rng=SeededRandom(simulation.seed).generator("runtime"),
        )

    async def run(self) -> None:
        """Returns when the cluster ends. Raises AdapterError."""
        cluster = asyncio.create_task(self.world.run())
        cuts = asyncio.create_task(self._cut_streams())
        try:
            await self.runtime.run()
            # A cluster that fails also ends its watches. Its error is raised here.
            with contextlib.suppress(asyncio.CancelledError):
                await cluster
        finally:
            await end_tasks(cluster, cuts)

    async def _cut_streams(self) -> None:
        interval = self._options.faults.broken_streams
        rng = SeededRandom(self._options.seed).generator("cuts")
        while interval:
            await self._clock.sleep(interval * rng.uniform(0.5, 1.5) / self._options.speed)
            self.runtime.cut()

"""A simulated cluster and the runtime that serves it, run together until the cluster ends."""

import asyncio
import contextlib
from pathlib import Path

from pumice.adapters.runtime.clock import Clock, SystemClock, end_tasks
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.epochs import Epochs
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.runner import AdapterRuntime
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.world import SimulatedWorld


class Simulation:
    """One world, one runtime."""

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
            rng=Chance(simulation.seed).stream("runtime"),
        )

    async def run(self) -> None:
        """Until the world ends. Raises AdapterError."""
        life = asyncio.create_task(self.world.live())
        cuts = asyncio.create_task(self._cut_streams())
        try:
            await self.runtime.run()
            # A world that failed ends its watches too; its error must not go unseen.
            with contextlib.suppress(asyncio.CancelledError):
                await life
        finally:
            await end_tasks(life, cuts)

    async def _cut_streams(self) -> None:
        every = self._options.trouble.broken_streams
        rng = Chance(self._options.seed).stream("cuts")
        while every:
            await self._clock.sleep(every * rng.uniform(0.5, 1.5) / self._options.speed)
            self.runtime.cut()

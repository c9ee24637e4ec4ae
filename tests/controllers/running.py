"""Loops of controllers that a test starts and stops."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pumice.adapters.runtime.clock import end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.controller import Controller
from pumice.controllers.runtime.loop import ControllerLoop


class Loops:
    def __init__(
        self, make: Callable[[Sequence[Controller[Any]]], ControllerLoop], metrics: Metrics
    ) -> None:
        self._make, self.metrics = make, metrics
        # Whether the loops may write.
        self.leads = True
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, *controllers: Controller[Any]) -> ControllerLoop:
        loop = self._make(controllers)
        self.tasks += [asyncio.create_task(loop.watch()), asyncio.create_task(loop.work())]
        return loop

    async def kill(self) -> None:
        """Ends everything at once, as a crash does."""
        tasks, self.tasks = self.tasks, []
        await end_tasks(*tasks)

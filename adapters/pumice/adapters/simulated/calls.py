"""Binder, evictor and status updater of a simulated cluster."""

from collections.abc import Awaitable, Callable

from google.protobuf.message import Message

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.world import ApplyResult
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.seeded_random import SeededRandom
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.status_pb2 import Event, StatusChange


class SimulatedCalls:
    """Calls of the simulated API server, with latency. A call returns when its result is durable."""

    def __init__(
        self,
        options: SimulationOptions,
        clock: Clock,
        perform: Callable[[str, Message], ApplyResult],
        flushed: Callable[[], Awaitable[None]],
    ) -> None:
        self._options, self._clock = options, clock
        self._perform, self._flushed = perform, flushed
        self._random = SeededRandom(options.seed)
        self._binds = 0

    async def bind(self, order: Bind) -> ApplyResult:
        self._binds += 1
        rate = self._options.faults.slow_binds
        is_slow = rate > 0 and self._random.draw("slow", order.uid, self._binds) < rate
        return await self._call("bind", order, is_slow=is_slow)

    async def evict(self, order: Evict) -> ApplyResult:
        return await self._call("evict", order)

    async def write_status(self, change: StatusChange) -> ApplyResult:
        return await self._call("status", change)

    async def write_event(self, event: Event) -> ApplyResult:
        return await self._call("event", event)

    async def _call(self, call: str, argument: Message, *, is_slow: bool = False) -> ApplyResult:
        options = self._options
        seconds = options.slow_call_seconds if is_slow else options.call_seconds
        if seconds:
            await self._clock.sleep(seconds)
        result = self._perform(call, argument)
        await self._flushed()
        return result

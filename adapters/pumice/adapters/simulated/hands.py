"""Binder, evictor and status updater of a simulated cluster: calls that take their time."""

from collections.abc import Awaitable, Callable

from google.protobuf.message import Message

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.world import ApplyResult
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.options import SimulationOptions
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.status_pb2 import Event, StatusChange


class SimulatedHands:
    """Carries calls to the cluster, and answers back when they cannot be lost any more."""

    def __init__(
        self,
        options: SimulationOptions,
        clock: Clock,
        perform: Callable[[str, Message], ApplyResult],
        flushed: Callable[[], Awaitable[None]],
    ) -> None:
        self._options, self._clock = options, clock
        self._perform, self._flushed = perform, flushed
        self._chance = Chance(options.seed)
        self._binds = 0

    async def bind(self, order: Bind) -> ApplyResult:
        self._binds += 1
        rate = self._options.trouble.slow_binds
        is_slow = rate > 0 and self._chance.draw("slow", order.uid, self._binds) < rate
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

"""Where an adapter's epoch comes from: the fence between an old leader and a new one."""

from typing import Protocol

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.errors import FencedError


class Epochs(Protocol):
    """Who leads. With a lease: waits until this adapter holds it, and knows until when it does."""

    async def current(self) -> int:
        """The epoch to speak with; waits while this adapter may not speak."""
        ...

    async def renew(self, above: int) -> int:
        """A higher epoch than one that was fenced; FencedError: there is none to be had."""
        ...

    def may_act(self) -> bool:
        """Asked before every call that changes the world; must not wait."""
        ...


class ProcessEpochs:
    """One epoch for the life of the process, from its start time: the newer process leads."""

    def __init__(self, clock: Clock, stored: int = 0) -> None:
        self._epoch = max(stored, clock.unix_ms()) + 1

    async def current(self) -> int:
        return self._epoch

    async def renew(self, above: int) -> int:
        raise FencedError(above)

    def may_act(self) -> bool:
        return True

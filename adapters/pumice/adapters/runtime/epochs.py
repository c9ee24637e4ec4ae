"""Epochs, which fence off an old leader."""

import logging
from typing import Protocol

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.errors import FencedError, OtherSchedulerError
from pumice.adapters.runtime.foreign_binds import ForeignBinds

log = logging.getLogger(__name__)


class Epochs(Protocol):
    """The source of epochs, such as a lease."""

    async def current(self) -> int:
        """The epoch of this adapter; waits until this adapter leads."""
        ...

    async def renew(self, above: int) -> int:
        """An epoch above a fenced one. Raises FencedError if there is none."""
        ...

    def may_act(self) -> bool:
        """Whether this adapter is the leader. Called before every write, so it must not wait."""
        ...


class ProcessEpochs:
    """One epoch per process, from its start time, so that the newer process leads."""

    def __init__(self, clock: Clock, stored: int = 0) -> None:
        self._epoch = max(stored, clock.unix_ms()) + 1

    async def current(self) -> int:
        return self._epoch

    async def renew(self, above: int) -> int:
        raise FencedError(above)

    def may_act(self) -> bool:
        return True


class ExclusiveEpochs:
    """Delays leadership until no other scheduler has bound pods of this one for some time."""

    def __init__(self, epochs: Epochs, seconds: float, clock: Clock) -> None:
        self._epochs, self._seconds, self._clock = epochs, seconds, clock
        self._is_checked = seconds <= 0
        self.foreign: ForeignBinds | None = None

    async def current(self) -> int:
        while True:
            epoch = await self._epochs.current()
            if self._is_checked or self.foreign is None:
                return epoch
            log.info("watching for another scheduler for %g s", self._seconds)
            before = self.foreign.count
            await self._clock.sleep(self._seconds)
            found = self.foreign.count - before
            if found:
                raise OtherSchedulerError(found, self._seconds, self.foreign.last)
            self._is_checked = True

    async def renew(self, above: int) -> int:
        return await self._epochs.renew(above)

    def may_act(self) -> bool:
        return self._epochs.may_act()

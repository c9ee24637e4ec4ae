"""The clock of a core. Tests replace it."""

from __future__ import annotations

import threading
import time
from typing import Protocol

_SECOND_NS = 1_000_000_000


class Clock(Protocol):
    """Wall time for sessions and epochs, and monotonic ticks for timeouts."""

    def now_ns(self) -> int: ...

    def ticks_ns(self) -> int: ...

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        """Waits until the condition, which the caller holds, is notified, or until a time."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def ticks_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, condition: threading.Condition, until_ns: int | None) -> None:
        if until_ns is None:
            condition.wait()
            return
        left = (until_ns - time.monotonic_ns()) / _SECOND_NS
        if left > 0:
            condition.wait(left)

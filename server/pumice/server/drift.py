"""Drift: kinds of which adapter and core hold different objects, and the resyncs that repair it."""

from __future__ import annotations

from collections.abc import Collection

_FAILURES_BEFORE_ALARM = 2


class Drift:
    """Kinds with a pending resync, and the number of resyncs that failed."""

    def __init__(self, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        self._requested_ns: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._blocking: set[int] = set()

    @property
    def alarm(self) -> bool:
        """Whether two resyncs of a kind failed."""
        return any(n >= _FAILURES_BEFORE_ALARM for n in self._failures.values())

    @property
    def paused(self) -> bool:
        """Whether scheduling is paused: resyncs failed, or a complete snapshot differs."""
        return self.alarm or bool(self._blocking)

    @property
    def paused_kinds(self) -> list[int]:
        """The kinds because of which scheduling is paused."""
        failed = {k for k, n in self._failures.items() if n >= _FAILURES_BEFORE_ALARM}
        return sorted(failed | self._blocking)

    def reconnected(self) -> None:
        """Forgets pending resyncs: a Resync that was sent on the old stream may be lost."""
        self._requested_ns.clear()

    def compared(self, differing: Collection[int], ticks_ns: int) -> list[int]:
        """Notes the result of a Digest; returns the kinds to resync."""
        for kind in [k for k in self._failures if k not in differing]:
            del self._failures[kind]
        self._blocking &= set(differing)
        waiting = {k for k, at in self._requested_ns.items() if ticks_ns - at < self._timeout_ns}
        return self._request([k for k in differing if k not in waiting], ticks_ns)

    def snapshot_ended(
        self, kinds: Collection[int], differing: Collection[int], ticks_ns: int
    ) -> list[int]:
        """Notes the result of a snapshot of some or all kinds; returns the kinds to resync."""
        for kind in kinds or tuple(self._requested_ns):
            self._requested_ns.pop(kind, None)
            if kind not in differing:
                self._failures.pop(kind, None)
                self._blocking.discard(kind)
        if not kinds:
            self._failures.clear()
            self._blocking = set(differing)
        else:
            for kind in differing:
                self._failures[kind] = self._failures.get(kind, 0) + 1
        retry = [k for k in differing if self._failures.get(k, 0) < _FAILURES_BEFORE_ALARM]
        return self._request(retry, ticks_ns)

    def _request(self, kinds: list[int], ticks_ns: int) -> list[int]:
        for kind in kinds:
            self._requested_ns[kind] = ticks_ns
        return sorted(kinds)

"""Watchers of the sessions of a cluster."""

from __future__ import annotations

import asyncio

from pumice.server import errors
from pumice.server.limits import Limits
from pumice.server.records import SessionRecord


class Watcher:
    """The queue of one watcher. None in the queue ends the watch."""

    def __init__(self, limit: int) -> None:
        self.queue: asyncio.Queue[SessionRecord | None] = asyncio.Queue(limit)
        self.too_slow = False


class Watchers:
    """All watchers of a cluster. Each has its own queue, so a slow watcher delays no other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._watchers: list[Watcher] = []

    def add(self) -> Watcher:
        if len(self._watchers) >= self._limits.watchers:
            limit = self._limits.watchers
            raise errors.BusyError("watchers", limit, len(self._watchers) + 1)
        # One more element, for None.
        watcher = Watcher(self._limits.watcher_sessions + 1)
        self._watchers.append(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def publish(self, record: SessionRecord) -> None:
        for watcher in list(self._watchers):
            if watcher.queue.qsize() < self._limits.watcher_sessions:
                watcher.queue.put_nowait(record)
            else:
                watcher.too_slow = True
                self._end(watcher)

    def close(self) -> None:
        for watcher in list(self._watchers):
            self._end(watcher)

    def _end(self, watcher: Watcher) -> None:
        self.remove(watcher)
        watcher.queue.put_nowait(None)

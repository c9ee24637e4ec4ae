"""The copy of a cluster in a replica process."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session
from pumice.server.plugins import installed_registry
from pumice.server.state import ClusterState
from pumice.server.stream_follower import StreamFollower
from pumice.v1 import configuration_pb2, delta_pb2

# Maximum number of nodes times classes; more would delay other requests.
_CELLS = 20_000


class Replica:
    """A copy of the state of a cluster, which frames from the core update."""

    def __init__(self) -> None:
        self.registry = installed_registry()
        # None: the state has not arrived yet; always for inline requests.
        self._stream: StreamFollower | None = None
        self._objects: list[Any] = []
        self._start_values: dict[str, Any] = {}
        # The version of the cache for which warm() was called last.
        self._warm_version = -1

    @property
    def state(self) -> ClusterState | None:
        return None if self._stream is None else self._stream.state

    def begin(self, values: dict[str, Any]) -> None:
        # While the copy is built, a collection would find nothing and scan much.
        gc.disable()
        self._start_values = values
        self._objects = []

    def add_objects(self, items: list[Any]) -> None:
        self._objects += items

    def complete(self) -> None:
        """Builds the state from all objects."""
        base, state = self._start_values, ClusterState(self.registry, "whatif-")
        state.configure(configuration_pb2.Configuration.FromString(base["configuration"]))
        state.set_capabilities(base["capabilities"])
        state.applied_seq = base["seq"]
        checkpoint: Checkpoint = base["checkpoint"]
        object.__setattr__(checkpoint, "objects", tuple(self._objects))
        state.engine.restore(checkpoint)
        self.follow(state)
        self._objects, self._start_values = [], {}
        gc.collect()
        # The collector would write to, and so copy, pages that forks share.
        gc.freeze()
        gc.enable()

    def follow(self, state: ClusterState) -> None:
        """Applies all later changes to this state."""
        self._stream = StreamFollower(state)

    def on_connection(self, capabilities: tuple[int, ...], decision_ids: frozenset[str]) -> None:
        if self._stream is not None:
            self._stream.disconnect()
            self._stream.state.set_capabilities(capabilities)
            self._stream.resume(decision_ids)

    def on_snapshot_begin(self, first_seq: int, kinds: frozenset[int]) -> None:
        if self._stream is not None:
            self._stream.begin_snapshot(first_seq, kinds)

    def on_batch(self, batch: bytes, now_ns: int) -> None:
        if self._stream is not None:
            self._stream.apply_batch(delta_pb2.DeltaBatch.FromString(batch), now_ns)

    def on_snapshot_end(self, seq: int, now_ns: int) -> None:
        if self._stream is not None:
            self._stream.end_snapshot(seq, now_ns)

    def on_skipped_session(self, now_ns: int) -> None:
        if self._stream is not None:
            self._stream.drop_old_decisions(now_ns)

    def on_session(
        self,
        session: int,
        now_ns: int,
        orders: list[Any],
        statuses: list[Any],
        volumes: Any,
        times: dict[str, int],
        devices: Any,
    ) -> None:
        self.on_skipped_session(now_ns)
        if self.state is not None:
            self.state.engine.follow(session, now_ns, orders, statuses)
            self.state.engine.cache.plugin_times.update(times)
            if volumes is not None:
                self.state.engine.cache.storage.reservations.restore(volumes)
            if devices is not None:
                self.state.engine.cache.devices.reservations.restore(devices)

    def warm(self, now_ns: int) -> None:
        """Fills the engine's caches for the task classes of pending pods, once per version.

        All trials of an unchanged cluster share the result. It changes no decision, because a trial
        computes missing values itself.
        """
        if self.state is None:
            return
        cache = self.state.engine.cache
        if cache.version == self._warm_version or not len(cache.table):
            return
        self._warm_version = cache.version
        # A plugin that fails here also fails in the trial, which reports it.
        with suppress(Exception):
            self.state.engine.inspect(_view_classes, now_ns)


def _view_classes(session: Session) -> None:
    left = _CELLS // len(session.table)
    seen: set[int] = set()
    for job in session.jobs.values():
        if len(seen) >= left:
            return
        for task in job.index.in_order(TaskStatus.PENDING)[:1]:
            if task.class_.number not in seen:
                seen.add(task.class_.number)
                session.feasibility.allows(task, session.view(task))

"""The copy of a cluster in a replica process."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session
from pumice.server.ops import NumberedOp, OpReader
from pumice.server.plugins import installed_registry
from pumice.server.state import ClusterState
from pumice.v1 import configuration_pb2, delta_pb2

# Maximum number of nodes times classes; more would delay other requests.
_CELLS = 20_000


class Replica:
    """A copy of the state of a cluster, which frames from the core update."""

    def __init__(self) -> None:
        self.registry = installed_registry()
        self.state: ClusterState | None = None
        self._reader = OpReader()
        self._objects: list[Any] = []
        self._start_values: dict[str, Any] = {}
        self._held_decisions: frozenset[str] | None = None
        self._kinds: frozenset[int] = frozenset()
        self._pending: list[NumberedOp] = []
        # The version of the cache for which warm() was called last.
        self._warm_version = -1

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
        self.state, self._objects, self._start_values = state, [], {}
        gc.collect()
        # The collector would write to, and so copy, pages that forks share.
        gc.freeze()
        gc.enable()

    def on_connection(self, capabilities: tuple[int, ...], decision_ids: frozenset[str]) -> None:
        if self.state is not None:
            self.state.set_capabilities(capabilities)
            self._held_decisions = decision_ids

    def on_snapshot_begin(self, kinds: frozenset[int]) -> None:
        self._kinds, self._pending = kinds, []

    def on_batch(self, batch: bytes, now_ns: int) -> None:
        if self.state is None:
            return
        message = delta_pb2.DeltaBatch.FromString(batch)
        ops = self._reader.read_batch(message)
        if self._kinds:
            self._pending += ops
        else:
            self.state.apply(ops, now_ns)

    def on_snapshot_end(self, seq: int, now_ns: int) -> None:
        if self.state is None:
            return
        if self._kinds:
            ops = self.state.resynced(self._kinds, self._pending, now_ns)
            self.state.apply(ops, now_ns)
        self._kinds, self._pending = frozenset(), []
        self.state.applied_seq = max(self.state.applied_seq, seq)

    def on_skipped_session(self, now_ns: int) -> None:
        """Drops lost and expired decisions, as the core does before every session."""
        if self.state is None:
            return
        if self._held_decisions is not None:
            self.state.engine.forget_lost(self._held_decisions, now_ns)
            self._held_decisions = None
        self.state.expire(now_ns)

    def on_session(
        self,
        session: int,
        now_ns: int,
        orders: list[Any],
        statuses: list[Any],
        ledger: Any,
        times: dict[str, int],
        devices: Any,
    ) -> None:
        self.on_skipped_session(now_ns)
        if self.state is not None:
            self.state.engine.follow(session, now_ns, orders, statuses)
            self.state.engine.cache.plugin_times.update(times)
            if ledger is not None:
                self.state.engine.cache.storage.ledger.restore(ledger)
            if devices is not None:
                self.state.engine.cache.devices.ledger.restore(devices)

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

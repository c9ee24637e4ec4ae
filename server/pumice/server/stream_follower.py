"""Follows the stream of an adapter to another core: in a replica process, or in a recording."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pumice.core.errors import InputError
from pumice.server.ops import NumberedOp, OpReader
from pumice.server.state import ClusterState
from pumice.v1 import delta_pb2
from pumice.v1.cluster_service_pb2 import ConfigurationResult


class StreamFollower:
    """Applies the messages of a stream to a state, in the way of the core that serves the stream."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._reader = OpReader()
        # The kinds of a snapshot whose end has not arrived, and its ops; no kinds: all of them,
        # whose ops are applied at once.
        self._snapshot: tuple[Collection[int], list[NumberedOp]] | None = None
        # Decisions that the adapter still holds after a reconnect; all others are lost.
        self._held_decisions: frozenset[str] | None = None

    def disconnect(self) -> None:
        """Drops an incomplete snapshot."""
        self._snapshot = None

    def resume(self, held_decision_ids: Iterable[str]) -> None:
        """An adapter has reconnected, which still holds these decisions."""
        self._held_decisions = frozenset(held_decision_ids)

    def begin_snapshot(self, first_seq: int, kinds: Collection[int]) -> None:
        self._snapshot = (frozenset(kinds), [])
        if not kinds:
            self.state = self.state.successor(first_seq)
            self._held_decisions = None

    def apply_batch(self, batch: delta_pb2.DeltaBatch, now_ns: int) -> list[ConfigurationResult]:
        """Applies a batch; returns the results of its configurations."""
        ops = self._reader.read_batch(batch)
        if self._snapshot is not None and self._snapshot[0]:
            self._snapshot[1].extend(ops)
            return []
        return self._apply(ops, now_ns)

    def end_snapshot(self, seq: int, now_ns: int) -> list[ConfigurationResult]:
        """Ends a snapshot; returns the results of its configurations."""
        if self._snapshot is None:
            raise InputError(f"a snapshot ends at op {seq} without a begin")
        (kinds, ops), self._snapshot = self._snapshot, None
        results: list[ConfigurationResult] = []
        if kinds:
            results = self._apply(self.state.resynced(kinds, ops, now_ns), now_ns)
        self.state.applied_seq = max(self.state.applied_seq, seq)
        return results

    def _apply(self, ops: list[NumberedOp], now_ns: int) -> list[ConfigurationResult]:
        _, results = self.state.apply(ops, now_ns)
        return results

    def drop_old_decisions(self, now_ns: int) -> None:
        """Drops lost and expired decisions, as the core does before every session."""
        if self._held_decisions is not None:
            self.state.engine.forget_lost(self._held_decisions, now_ns)
            self._held_decisions = None
        self.state.expire(now_ns)

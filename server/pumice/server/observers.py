"""Observers of a cluster, which are called with all input and output of the cluster, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pumice.core.decisions import SessionResult
from pumice.server.state import ClusterState
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2


class ClusterObserver(Protocol):
    """Called on the owner's thread, so it must return quickly. It must not change messages."""

    def on_connection(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        """An adapter connected, or disconnected if there is no welcome."""
        ...

    def on_snapshot_begin(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        """A snapshot began, of some kinds or of all kinds (empty)."""
        ...

    def on_batch(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        """A batch without duplicate ops. In a snapshot of some kinds, it is applied at the end."""
        ...

    def on_configuration(
        self, result: cluster_service_pb2.ConfigurationResult, now_ns: int
    ) -> None:
        """The result of a configuration in the previous batch."""
        ...

    def on_snapshot_end(
        self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
    ) -> None:
        """A snapshot is complete."""
        ...

    def on_skipped_session(self, now_ns: int) -> None:
        """Decisions expired or were lost, and the session was skipped."""
        ...

    def on_session(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        """A session ran and sent these responses to the adapter."""
        ...


class Observers:
    """The observers of one cluster, called one after the other."""

    def __init__(self) -> None:
        # Replaced and never changed in place, so that other threads may read it.
        self._all: tuple[ClusterObserver, ...] = ()

    def add(self, observer: ClusterObserver) -> None:
        self._all = (*self._all, observer)

    def remove(self, observer: ClusterObserver) -> None:
        self._all = tuple(each for each in self._all if each is not observer)

    def __contains__(self, observer: object) -> bool:
        return any(each is observer for each in self._all)

    def on_connection(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        for each in self._all:
            each.on_connection(hello, welcome, now_ns)

    def on_snapshot_begin(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        for each in self._all:
            each.on_snapshot_begin(first_seq, kinds, now_ns)

    def on_batch(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        for each in self._all:
            each.on_batch(batch, rejected, now_ns)

    def on_configuration(
        self, result: cluster_service_pb2.ConfigurationResult, now_ns: int
    ) -> None:
        for each in self._all:
            each.on_configuration(result, now_ns)

    def on_snapshot_end(
        self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
    ) -> None:
        for each in self._all:
            each.on_snapshot_end(seq, rejected, now_ns)

    def on_skipped_session(self, now_ns: int) -> None:
        for each in self._all:
            each.on_skipped_session(now_ns)

    def on_session(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        for each in self._all:
            each.on_session(state, result, responses, duration_ns)

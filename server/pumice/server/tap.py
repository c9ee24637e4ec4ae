"""Where those who follow a cluster listen: everything it takes in and gives out, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pumice.core.decisions import SessionResult
from pumice.server.state import ClusterState
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2


class Tap(Protocol):
    """Called on the owner's thread, so it only takes note. Messages must not be changed."""

    def connected(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        """An adapter came; without a welcome: it went."""
        ...

    def began(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        """A snapshot began."""
        ...

    def took(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        """A batch came, all of it new; what is of a snapshot of some kinds counts at its end."""
        ...

    def configured(self, result: cluster_service_pb2.ConfigurationResult, now_ns: int) -> None:
        """A configuration was among what came last: whether it counts, or why not."""
        ...

    def ended(self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int) -> None:
        """A snapshot is whole, and what it held counts."""
        ...

    def skipped(self, now_ns: int) -> None:
        """Decisions were given up or asked for again, and no session ran."""
        ...

    def ran(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        """A session ran, and said these things to the adapter."""
        ...


class NoTap:
    """Nobody listens."""

    def connected(self, *_: object) -> None: ...
    def began(self, *_: object) -> None: ...
    def took(self, *_: object) -> None: ...
    def configured(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...
    def skipped(self, *_: object) -> None: ...
    def ran(self, *_: object) -> None: ...

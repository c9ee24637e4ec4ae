"""What a follower hears of a cluster, told on the owner's thread and sent on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pumice.core.decisions import (
    Bind,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
)
from pumice.core.deltas import ClusterObject
from pumice.server.served import ServedCluster
from pumice.server.state import ClusterState
from pumice.server.tap import Tap
from pumice.server.whatif.link import FollowerLink
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2

_RESUMES = cluster_service_pb2.WELCOME_MODE_RESUME


@dataclass(frozen=True, slots=True)
class Base:
    """A cluster between two sessions, to begin following it from."""

    values: dict[str, Any]
    objects: list[ClusterObject]


class Tail:
    """Tells a follower all that its cluster takes in and decides."""

    def __init__(self, link: FollowerLink, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop

    def _tell(self, *frame: Any) -> None:
        # The loop may be closed already when the process ends.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._link.tell, *frame)

    def _end(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._link.end)

    def connected(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        if welcome is not None and welcome.mode == _RESUMES:
            held = frozenset(hello.held_decision_ids)
            self._tell("connected", tuple(hello.capabilities), held)

    def began(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        if kinds:
            self._tell("began", frozenset(kinds))
        else:
            # Everything comes anew: whoever asks next begins from there.
            self._end()

    def took(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        def send() -> None:
            self._link.tell("took", batch.SerializeToString(), now_ns)

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(send)

    def configured(self, result: cluster_service_pb2.ConfigurationResult, now_ns: int) -> None:
        """A follower finds out by itself."""

    def ended(self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int) -> None:
        self._tell("ended", seq, now_ns)

    def skipped(self, now_ns: int) -> None:
        self._tell("woke", now_ns)

    def ran(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        orders = [(d.id, d.uid, isinstance(d, Bind), d.node) for d in result.decisions]
        statuses = [
            change
            for change in result.statuses
            if isinstance(change, PodGroupStatusChanged | QueueStatusChanged)
        ]
        volumes = any(isinstance(d, Bind) and d.volumes for d in result.decisions)
        ledger = state.engine.cache.ledger.memory() if volumes else None
        self._tell("ran", result.session, result.now_ns, orders, statuses, ledger)


class Both:
    """Two who listen, each hearing everything."""

    def __init__(self, first: Tap, second: Tap) -> None:
        self.first = first
        self.second = second

    def without(self, gone: Tap) -> Tap:
        if self.second is gone:
            return self.first
        if self.first is gone:
            return self.second
        return Both(without(self.first, gone), without(self.second, gone))

    def __getattr__(self, verb: str) -> Any:
        first, second = getattr(self.first, verb), getattr(self.second, verb)

        def tell_both(*values: Any) -> None:
            first(*values)
            second(*values)

        return tell_both


def without(tap: Tap, gone: Tap) -> Tap:
    return tap.without(gone) if isinstance(tap, Both) else tap


def hears(tap: Tap, sought: Tap) -> bool:
    if isinstance(tap, Both):
        return hears(tap.first, sought) or hears(tap.second, sought)
    return tap is sought


def follow(served: ServedCluster, tail: Tail) -> Base | None:
    """On the owner's thread: everything as it is now, and from now on all that comes.

    None while a snapshot is under way.
    """
    if not served.is_settled or served.state.effective is None:
        return None
    with served.board.instead(served.state):
        taken = served.state.engine.checkpoint()
    served.tap = Both(served.tap, tail)
    values = {
        "configuration": served.state.effective.message.SerializeToString(),
        "capabilities": tuple(served.state.capabilities),
        "seq": served.state.applied_seq,
        "checkpoint": replace(taken, objects=(), told=()),
    }
    return Base(values, list(taken.objects))

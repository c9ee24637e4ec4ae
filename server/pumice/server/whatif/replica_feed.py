"""Sends the changes of a cluster to its replica process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pumice.core.decisions import (
    Bind,
    PodConditionChanged,
    PodGateLifted,
    SessionResult,
)
from pumice.core.deltas import ClusterObject
from pumice.server.clusters import Cluster
from pumice.server.served import ServedCluster
from pumice.server.state import ClusterState
from pumice.server.whatif.replica_connection import ReplicaConnection
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2

_RESUMES = cluster_service_pb2.WELCOME_MODE_RESUME


# The state with which a replica starts: values by name, and all objects.
StartState = tuple[dict[str, Any], list[ClusterObject]]


class ReplicaFeed:
    """The replica of one cluster: an observer that sends all changes to the replica process."""

    def __init__(
        self, cluster: Cluster, connection: ReplicaConnection, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.cluster = cluster
        self.connection = connection
        self._loop = loop

    @property
    def is_current(self) -> bool:
        """Whether the process runs and gets the changes of the cluster."""
        return self.connection.is_alive and self in self.cluster.served.observers

    def begin(self, served: ServedCluster) -> StartState | None:
        """Begins to observe the cluster; returns the state before the changes.

        Runs on the owner's thread. None: a snapshot is being received.
        """
        if not served.is_settled or served.state.effective is None:
            return None
        with served.views.while_busy(served.state):
            checkpoint = served.state.engine.checkpoint()
        served.observers.add(self)
        values = {
            "configuration": served.state.effective.message.SerializeToString(),
            "capabilities": tuple(served.state.capabilities),
            "seq": served.state.applied_seq,
            "checkpoint": replace(checkpoint, objects=(), reported_conditions=()),
        }
        return values, list(checkpoint.objects)

    def _send(self, *frame: Any) -> None:
        # The loop may be closed already when the process ends.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.connection.send, *frame)

    def _end(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.connection.end)

    def on_connection(
        self,
        hello: cluster_service_pb2.Hello,
        welcome: cluster_service_pb2.Welcome | None,
        now_ns: int,
    ) -> None:
        if welcome is not None and welcome.mode == _RESUMES:
            held = frozenset(hello.held_decision_ids)
            self._send("on_connection", tuple(hello.capabilities), held)

    def on_snapshot_begin(self, first_seq: int, kinds: Sequence[int], now_ns: int) -> None:
        if kinds:
            self._send("on_snapshot_begin", first_seq, frozenset(kinds))
        else:
            # The next request starts a replica of the new snapshot.
            self._end()

    def on_batch(
        self,
        batch: delta_pb2.DeltaBatch,
        rejected: Sequence[object_pb2.RejectedObject],
        now_ns: int,
    ) -> None:
        def send() -> None:
            self.connection.send("on_batch", batch.SerializeToString(), now_ns)

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(send)

    def on_configuration(
        self, result: cluster_service_pb2.ConfigurationResult, now_ns: int
    ) -> None:
        """Does nothing, because the replica reads the configuration from the batch."""

    def on_snapshot_end(
        self, seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
    ) -> None:
        self._send("on_snapshot_end", seq, now_ns)

    def on_skipped_session(self, now_ns: int) -> None:
        self._send("on_skipped_session", now_ns)

    def on_session(
        self,
        state: ClusterState,
        result: SessionResult,
        responses: Sequence[cluster_service_pb2.ConnectResponse],
        duration_ns: int,
    ) -> None:
        orders = [
            (d.id, d.uid, isinstance(d, Bind), d.node, d.annotations if isinstance(d, Bind) else ())
            for d in result.decisions
        ]
        statuses = [
            change
            for change in result.statuses
            if not isinstance(change, PodConditionChanged | PodGateLifted)
        ]
        reserves_volumes = any(isinstance(d, Bind) and d.volumes for d in result.decisions)
        volumes = state.engine.cache.storage.reservations.snapshot() if reserves_volumes else None
        times = dict(state.engine.cache.plugin_times)
        reserves_devices = any(isinstance(d, Bind) and d.claims for d in result.decisions)
        devices = state.engine.cache.devices.reservations.snapshot() if reserves_devices else None
        self._send(
            *("on_session", result.session, result.now_ns, orders, statuses),
            *(volumes, times, devices),
        )

"""Puts events of the world into the resume buffer and the outbox."""

import asyncio
import logging
from collections.abc import Callable

from pumice.adapters.runtime.buffer import HeldObject, ResumeBuffer
from pumice.adapters.runtime.configurations import ConfigurationKeeper
from pumice.adapters.runtime.foreign_binds import ForeignBinds
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber, shown_kind
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.status_writer import StatusWriter
from pumice.adapters.runtime.unseen_decisions import UnseenDecisions
from pumice.adapters.runtime.world import (
    ConfigurationMissing,
    ConfigurationSeen,
    DataSeen,
    ObjectGone,
    ObjectSeen,
    Synced,
    WorldEvent,
)
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.node_pb2 import Node
from pumice.v1.object_pb2 import KIND_NODE, KIND_POD, ClusterObject

log = logging.getLogger(__name__)


class WorldEventHandler:
    """Handles events of the watch and objects that were read again."""

    def __init__(
        self,
        buffer: ResumeBuffer,
        outbox: Outbox,
        configurations: ConfigurationKeeper,
        statuses: StatusWriter,
        foreign: ForeignBinds,
        unseen: UnseenDecisions,
        metrics: Metrics,
    ) -> None:
        self.synced = asyncio.Event()
        # Called with the apply timeout of a new configuration, in seconds.
        self.on_apply_timeout: Callable[[float], None] = lambda seconds: None
        self._configurations, self._statuses = configurations, statuses
        self._foreign, self._unseen = foreign, unseen
        self._buffer, self._outbox, self._metrics = buffer, outbox, metrics

    def handle(self, event: WorldEvent) -> None:
        match event:
            case ObjectSeen():
                self._put(event.object, afresh=False)
            case ObjectGone():
                self.delete(event.kind, event.uid)
            case ConfigurationSeen():
                self._configurations.handle(event)
                self._note_apply_timeout(event.configuration)
            case ConfigurationMissing():
                self._configurations.handle_missing(event)
                self._note_apply_timeout(event.configuration)
            case DataSeen():
                if self._buffer.keep_data(event.data):
                    self._outbox.put_data(event.data)
            case Synced():
                self.synced.set()

    def revision_of(self, kind: KindNumber, uid: str) -> int:
        held = self._buffer.get(kind, uid)
        return 0 if held is None else held.revision

    def update(self, cluster_object: ClusterObject) -> None:
        self._put(cluster_object, afresh=True)

    def show_applied(self) -> None:
        """Adds applied decisions to their pods where the watch has not shown them yet."""
        for uid in self._unseen.applied_uids():
            held = self._buffer.get(KIND_POD, uid)
            if held is not None:
                self._put(held.message(), afresh=False)

    def delete(self, kind: KindNumber, uid: str) -> None:
        self._buffer.drop(kind, uid)
        if kind == KIND_POD:
            self._foreign.forget_pod(uid)
            self._unseen.forget(uid)
        self._outbox.tombstone(kind, uid)
        self._statuses.forget(kind, uid)

    def _put(self, cluster_object: ClusterObject, *, afresh: bool) -> None:
        before = None
        if cluster_object.HasField("pod"):
            cluster_object = self._unseen.complete(cluster_object)
        elif cluster_object.HasField("node"):
            before = self._buffer.get(KIND_NODE, cluster_object.node.uid)
        try:
            held = self._buffer.keep(cluster_object, afresh=afresh)
        except ValueError as error:
            # One invalid object must not stop the others.
            self._metrics.count("malformed_objects")
            log.error("an object was omitted: %s", error)
            return
        if held is None:
            self._metrics.count("unchanged_objects")
            return
        self._metrics.count("events", kind=shown_kind(held.identity.kind))
        if held.identity.kind == KIND_POD:
            can_wait = self._foreign.note_pod(cluster_object.pod)
        else:
            can_wait = before is not None and is_report(before, cluster_object.node)
        self._outbox.upsert(held, can_wait=can_wait)

    def _note_apply_timeout(self, configuration: Configuration) -> None:
        seconds = configuration.apply_timeout.ToTimedelta().total_seconds()
        if seconds > 0:
            self.on_apply_timeout(seconds)


def is_report(before: HeldObject, node: Node) -> bool:
    """Whether a node differs only in annotations and images, which change every few seconds."""
    old, new = before.message().node, Node()
    new.CopyFrom(node)
    for message in (old, new):
        message.ClearField("annotations")
        message.ClearField("images")
    return old == new

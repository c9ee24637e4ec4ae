"""The changes of objects in a recording, as the core received them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.delta_pb2 import PluginData
from pumice.v1.object_pb2 import ClusterObject
from pumice.v1.recording_pb2 import RecordingEntry

_Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A change with its time. Without object, configuration and data it is a deletion."""

    at_ns: int
    object: ClusterObject | None = None
    kind: int = 0
    uid: str = ""
    configuration: Configuration | None = None
    data: PluginData | None = None


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """The end of the first snapshot."""

    at_ns: int


class Changes:
    """Reads changes from entries; a repeated snapshot yields only the differences."""

    def __init__(self) -> None:
        self.held: dict[_Key, ClusterObject] = {}
        self._snapshot: tuple[frozenset[int], set[_Key]] | None = None
        self._is_whole = False

    def read(self, entries: Iterable[RecordingEntry]) -> Iterator[Change | SnapshotComplete]:
        for entry in entries:
            at_ns = entry.entry_time.ToNanoseconds()
            match entry.WhichOneof("entry"):
                case "checkpoint":
                    yield from self._checkpoint(entry, at_ns)
                case "snapshot_begin":
                    self._snapshot = (frozenset(entry.snapshot_begin.kinds), set())
                case "snapshot_end":
                    yield from self._end(at_ns)
                case "delta_batch":
                    yield from self._batch(entry, at_ns)
                case "tick":
                    yield from self._whole(at_ns)
                case _:
                    pass

    def _whole(self, at_ns: int) -> Iterator[SnapshotComplete]:
        if not self._is_whole:
            self._is_whole = True
            yield SnapshotComplete(at_ns)

    def _checkpoint(self, entry: RecordingEntry, at_ns: int) -> Iterator[Change]:
        part = entry.checkpoint
        if part.HasField("configuration"):
            yield Change(at_ns, configuration=part.configuration)
        for upsert in part.objects:
            yield from self._upsert(upsert.object, at_ns)
        for data in part.plugin_data:
            yield Change(at_ns, data=data)

    def _batch(self, entry: RecordingEntry, at_ns: int) -> Iterator[Change]:
        for op in entry.delta_batch.ops:
            if op.HasField("upsert"):
                yield from self._upsert(op.upsert.object, at_ns)
            elif op.HasField("plugin_data"):
                yield Change(at_ns, data=op.plugin_data)
            elif op.HasField("tombstone"):
                yield from self._gone((op.tombstone.kind, op.tombstone.uid), at_ns)
            elif op.HasField("configuration"):
                yield Change(at_ns, configuration=op.configuration)

    def _end(self, at_ns: int) -> Iterator[Change | SnapshotComplete]:
        if self._snapshot is None:
            return
        (kinds, seen), self._snapshot = self._snapshot, None
        for key in [k for k in self.held if k not in seen and (not kinds or k[0] in kinds)]:
            yield from self._gone(key, at_ns)
        if not kinds:
            yield from self._whole(at_ns)

    def _upsert(self, item: ClusterObject, at_ns: int) -> Iterator[Change]:
        field = item.WhichOneof("object")
        if field is None:
            return
        key = (item.DESCRIPTOR.fields_by_name[field].number, getattr(item, field).uid)
        if self._snapshot is not None:
            self._snapshot[1].add(key)
        if self.held.get(key) != item:
            self.held[key] = item
            yield Change(at_ns, item, *key)

    def _gone(self, key: _Key, at_ns: int) -> Iterator[Change]:
        if self.held.pop(key, None) is not None:
            yield Change(at_ns, None, *key)

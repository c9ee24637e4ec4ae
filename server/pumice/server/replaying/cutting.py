"""Cuts a recording before a time, and adds a checkpoint of that time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pumice.core.registry import Registry
from pumice.recordings import RecordingError
from pumice.server.recording.checkpoints import StateCheckpoint
from pumice.server.replaying.playback import Playback
from pumice.server.wire.times import timestamp
from pumice.v1.recording_pb2 import RecordingEntry, RecordingHeader


def cut_before(
    entries: Iterable[RecordingEntry], registry: Registry, from_ns: int, source: str
) -> Iterator[RecordingEntry]:
    """The entries from the first session at or after a time.

    They begin with a checkpoint of the state after the previous session. Raises RecordingError if
    there is no such session.
    """
    playback = Playback(registry, source=source)
    # Entries after the last session, which belong to the next session.
    pending: list[RecordingEntry] = []
    header, identity, last_ns = RecordingHeader(), ("", 0), 0
    entries = iter(entries)
    for entry in entries:
        pending.append(entry)
        if entry.HasField("header"):
            header.CopyFrom(entry.header)
        elif entry.HasField("checkpoint") and not entry.checkpoint.part:
            identity = (entry.checkpoint.incarnation, entry.checkpoint.epoch)
        elif entry.HasField("connection") and entry.connection.HasField("hello"):
            hello = entry.connection.hello
            identity = (hello.incarnation, hello.epoch)
        elif entry.HasField("tick") and not entry.tick.skipped:
            now_ns = entry.tick.session_time.ToNanoseconds()
            if now_ns >= from_ns:
                if last_ns:
                    yield from _opening(header, StateCheckpoint(playback.state, identity), last_ns)
                yield from pending
                yield from entries
                return
            last_ns = now_ns
        elif entry.HasField("session_end"):
            for held in pending:
                playback.play(held)
            pending.clear()
    raise RecordingError(source, "contains no session at or after the requested begin")


def _opening(
    header: RecordingHeader, checkpoint: StateCheckpoint, now_ns: int
) -> Iterator[RecordingEntry]:
    made = RecordingHeader()
    made.CopyFrom(header)
    made.creation_time.CopyFrom(timestamp(now_ns))
    made.first_session = checkpoint.engine.session + 1
    yield RecordingEntry(header=made, entry_time=timestamp(now_ns))
    for part in checkpoint.write():
        yield RecordingEntry(checkpoint=part, entry_time=timestamp(now_ns))

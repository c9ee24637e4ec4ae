"""Extracts parts of recordings: one session, or everything from a time on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus
from pumice.core.registry import Registry
from pumice.recordings import Recording, RecordingError
from pumice.server.recording.checkpoints import StateCheckpoint
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.server.wire import write_object
from pumice.server.wire.times import timestamp
from pumice.v1 import decision_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.recording_pb2 import RecordingEntry, RecordingHeader


@dataclass(slots=True)
class Excerpt:
    """The cluster before a session, with open decisions applied, and the session's decisions."""

    session: int
    now_ns: int
    configuration: Configuration
    objects: list[object_pb2.ClusterObject]
    decisions: list[decision_pb2.Decision] = field(default_factory=list)


def cut_session(recording: Recording, registry: Registry, session: int) -> Excerpt:
    """Raises RecordingError if the recording does not contain the whole session."""
    playback = Playback(registry, source=str(recording.path))
    found: Excerpt | None = None
    for entry in recording.entries(session):
        tick = entry.tick
        if tick.session == session:
            playback.drop_old_decisions(tick.session_time.ToNanoseconds())
            found = _excerpt(playback.state, session, tick.session_time.ToNanoseconds())
            continue
        if found is None:
            playback.play(entry)
        elif entry.HasField("decision_batch"):
            found.decisions += entry.decision_batch.decisions
        elif entry.HasField("session_end"):
            return found
    runs = ", ".join(f"{first} to {last}" for first, last in recording.sessions())
    there = f"it contains {runs}" if runs else "it contains no session"
    raise RecordingError(
        str(recording.path), f"does not contain the whole session {session}; {there}"
    )


def _excerpt(state: ClusterState, session: int, now_ns: int) -> Excerpt:
    effective = state.effective
    configuration = Configuration() if effective is None else effective.message
    objects = [write_object(item) for item in _as_decided(state)]
    return Excerpt(session, now_ns, configuration, objects)


def _as_decided(state: ClusterState) -> Iterator[ClusterObject]:
    cache = state.engine.cache
    for item in cache.objects():
        task = cache.tasks.get(item.uid) if isinstance(item, Pod) else None
        if task is not None and task.status is TaskStatus.BINDING:
            yield replace(task.pod, node_name=task.node_name)
        elif task is not None and task.status is TaskStatus.RELEASING:
            yield replace(task.pod, terminating=True)
        else:
            yield item


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

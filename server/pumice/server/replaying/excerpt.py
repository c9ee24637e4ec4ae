"""Extracts one session from a recording: the cluster before the session, and its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus
from pumice.core.registry import Registry
from pumice.recordings import Recording, RecordingError
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.server.wire import write_object
from pumice.v1 import decision_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration


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

"""A recording, played until a session decides otherwise than it did when it was recorded.

Until then all that happened is known. From there on somebody else has to say what happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.core.decisions import SessionResult
from pumice.core.registry import Registry
from pumice.server.garbage import Garbage
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.v1.recording_pb2 import RecordingEntry


@dataclass(frozen=True, slots=True)
class Departure:
    """The first session that decides otherwise, and the cluster's state after it."""

    # How many sessions were recorded before this one.
    before: int
    result: SessionResult
    state: ClusterState


def depart(
    entries: Iterable[RecordingEntry],
    registry: Registry,
    scheduler_conf: str | None = None,
    *,
    at: int | None = None,
) -> Departure | None:
    """None: nothing is decided otherwise. ``at``: leaves after so many sessions, whatever."""
    playback = Playback(registry, scheduler_conf, adopts=False)
    garbage = Garbage()
    with garbage.kept_out():
        for before, played in enumerate(playback.sessions(entries)):
            garbage.after_session()
            if played.departs or before == at:
                return Departure(before, played.replayed, playback.state)
    return None

"""Replays a recording until a session decides differently than the recorded one.

A what-if run continues from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.core.decisions import SessionResult
from pumice.core.registry import Registry
from pumice.server.garbage import GarbageControl
from pumice.server.replaying.playback import Playback
from pumice.server.state import ClusterState
from pumice.v1.recording_pb2 import RecordingEntry


@dataclass(frozen=True, slots=True)
class Departure:
    """The first session that decides differently, and the state of the cluster after it."""

    # Number of sessions that began before this one.
    before: int
    result: SessionResult
    state: ClusterState


def depart(
    entries: Iterable[RecordingEntry],
    registry: Registry,
    scheduler_conf: str | None = None,
    *,
    at: int | None = None,
    at_faults: bool = False,
    allow_refused: bool = False,
    source: str = "the recording",
) -> Departure | None:
    """None: no session decides differently.

    ``at`` is a number of sessions after which the replay stops in any case. ``at_faults`` also
    stops it after a session in which a plugin or action raises.
    """
    playback = Playback(
        registry, scheduler_conf, adopts=False, allow_refused=allow_refused, source=source
    )
    garbage = GarbageControl()
    with garbage.without_automatic():
        begun = 0
        for entry in entries:
            # A session during which the core crashed has begun and not ended.
            begun += entry.HasField("tick") and not entry.tick.skipped
            played = playback.play(entry)
            if played is None:
                continue
            garbage.after_session()
            is_faulty = at_faults and bool(played.replayed.faults)
            if played.departs or is_faulty or (at is not None and begun > at):
                return Departure(begun - 1, played.replayed, playback.state)
    return None

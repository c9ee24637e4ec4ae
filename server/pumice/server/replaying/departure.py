"""A recording, played until a session decides otherwise than it did when it was recorded.

Until then the recording says what happened. After that, a what-if run computes it.
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

    # How many sessions had begun before this one.
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
    """None: nothing is decided otherwise.

    ``at``: leaves after so many sessions. ``at_faults``: leaves after a session in which a plugin
    or action raises.
    """
    playback = Playback(
        registry, scheduler_conf, adopts=False, allow_refused=allow_refused, source=source
    )
    garbage = Garbage()
    with garbage.kept_out():
        begun = 0
        for entry in entries:
            # Where a core crashed, one has begun and not ended.
            begun += entry.HasField("tick") and not entry.tick.skipped
            played = playback.take(entry)
            if played is None:
                continue
            garbage.after_session()
            is_faulty = at_faults and bool(played.replayed.faults)
            if played.departs or is_faulty or (at is not None and begun > at):
                return Departure(begun - 1, played.replayed, playback.state)
    return None

"""Frames between a core and its replica processes: pickled tuples with a length prefix.

Both ends are this program. Data of other programs is never unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

LENGTH_BYTES = 4
# The first element of a frame. To a replica: changes of its state, named after methods of Replica,
STATE_VERBS = (
    *("begin", "add_objects", "complete"),
    *("on_connection", "on_snapshot_begin", "on_batch", "on_snapshot_end"),
    *("on_skipped_session", "on_session"),
)
# and requests.
SCHEDULE, GATHER_FACTS, CANCEL, PING = "schedule", "gather_facts", "cancel", "ping"
ESTIMATE = "estimate"
# From a replica: the result of a request.
ANSWER, FAILED = "answer", "failed"


def pack(*frame: Any) -> bytes:
    body = pickle.dumps(frame, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameBuffer:
    """Splits the bytes of a pipe into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, ...]]:
        self._held += data
        while len(self._held) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._held[:LENGTH_BYTES], "big")
            if len(self._held) < end:
                return
            body = bytes(self._held[LENGTH_BYTES:end])
            del self._held[:end]
            yield pickle.loads(body)

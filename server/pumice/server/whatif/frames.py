"""Messages between a core and the processes it starts: pickled tuples, each with its length.

Both ends are this program; nothing that came from outside is ever unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

LENGTH_BYTES = 4
# The first word of every frame. To a follower: what it follows, named as the methods that hear it,
STATE_VERBS = (
    *("base", "objects", "ready"),
    *("connected", "began", "took", "ended", "woke", "ran"),
)
# and questions.
ASK, SEE, CANCEL, PING = "ask", "see", "cancel", "ping"
# From it.
ANSWER, FAILED = "answer", "failed"


def pack(*frame: Any) -> bytes:
    body = pickle.dumps(frame, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameBuffer:
    """Cuts what came through a pipe into frames."""

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

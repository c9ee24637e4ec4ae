"""Wall-clock times of simulated seconds."""

from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

_MS_PER_SECOND = 1000
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Converts simulated seconds to wall-clock times, from the start of the cluster."""

    start_unix_ms: int
    speed: float

    def at(self, second: float) -> Timestamp:
        ms = self.start_unix_ms + second / self.speed * _MS_PER_SECOND
        stamp = Timestamp()
        stamp.FromNanoseconds(int(ms * _NS_PER_MS))
        return stamp

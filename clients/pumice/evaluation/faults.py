"""Faults of plugins and actions during a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pumice.v1.reason_pb2 import PluginFault


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception in a plugin or action, with its job and the time of its session."""

    author: str
    # The function of the plugin, or the step of the session.
    where: str
    # ``namespace/name``; empty if the fault does not concern one job.
    job: str
    error: str
    now_ns: int = 0
    # The position in the plugin's own code; empty and 0 if unknown.
    file: str = ""
    line: int = 0

    @classmethod
    def read(cls, message: PluginFault, now_ns: int) -> Fault:
        place = (message.file, message.line)
        return cls(message.author, message.where, message.job, message.error, now_ns, *place)

    def __str__(self) -> str:
        whom = f" for {self.job}" if self.job else ""
        time = datetime.fromtimestamp(self.now_ns / 1e9, UTC).strftime("%H:%M:%S")
        place = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.author} raised in {self.where}{whom} at {time}: {self.error}{place}"


def fault_text(faults: tuple[Fault, ...]) -> str:
    """The first fault in one sentence, with the number of others in the session."""
    more = f" (and {len(faults) - 1} more in this session)" if len(faults) > 1 else ""
    return f"{faults[0]}{more}"

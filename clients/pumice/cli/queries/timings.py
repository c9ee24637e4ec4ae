"""The time of actions and plugins in the last sessions, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from pumice.cli.queries.tables import Column, FittedTable, number
from pumice.client import SessionSummary, SessionTiming

# Sessions that ``top`` reads.
SESSIONS = 20


@dataclass(slots=True)
class Times:
    """The times of one action, or of one plugin in an action, over some sessions."""

    action: str
    plugin: str
    session_count: int = 0
    total_seconds: float = 0.0
    longest_seconds: float = 0.0
    call_count: int = 0

    def add(self, timing: SessionTiming) -> None:
        self.session_count += 1
        self.total_seconds += timing.duration_seconds
        self.longest_seconds = max(self.longest_seconds, timing.duration_seconds)
        self.call_count += timing.call_count

    def to_dict(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "plugin": self.plugin,
            "session_count": self.session_count,
            "total_seconds": round(self.total_seconds, 9),
            "longest_seconds": self.longest_seconds,
            "call_count": self.call_count,
        }


def times_of(sessions: Sequence[SessionSummary]) -> list[Times]:
    """Times by action and plugin, the largest total first."""
    found: dict[tuple[str, str], Times] = {}
    for session in sessions:
        for timing in session.timings:
            where = (timing.action, timing.plugin)
            found.setdefault(where, Times(*where)).add(timing)
    return sorted(found.values(), key=lambda each: (-each.total_seconds, each.action, each.plugin))


def time_table(times: Sequence[Times], sessions: int, count: int) -> FittedTable:
    """``count`` is the maximum number of rows."""
    made = FittedTable(
        Column(f"action ({sessions} sessions)"),
        Column("plugin", shortens=True),
        number("ms/session"),
        number("longest ms", rank=1),
        number("calls", rank=2),
    )
    for each in times[:count]:
        mean = each.total_seconds / max(sessions, 1)
        made.add_row(
            escape(each.action),
            escape(each.plugin) or "[dim]all[/]",
            f"{mean * 1000:.2f}",
            f"{each.longest_seconds * 1000:.2f}",
            str(each.call_count),
        )
    return made

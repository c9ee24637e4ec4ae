"""What the demo came to, in a few lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pumice.cli.demo.play import Play


@dataclass(frozen=True, slots=True)
class Summary:
    """The simulated cluster's own counts, and what was seen of the core."""

    figures: Mapping[str, Any]

    @classmethod
    def of(cls, play: Play, report_text: str) -> Summary | None:
        """None when the cluster left no report."""
        report = _last_json(report_text)
        if report is None:
            return None
        picture = play.picture
        kept = ("jobs", "jobs_done", "jobs_waiting", "gangs_whole", "gangs_short", "pods_bound")
        return cls(
            {
                **{name: report[name] for name in kept},
                "evictions": report["pods_evicted"],
                "sessions": picture.session_count,
                "session_median_ms": round(picture.median_milliseconds(), 2),
                "session_slowest_ms": round(picture.slowest_milliseconds(), 2),
                "api_calls": report["calls"],
                "restarts": {child.name: child.restarts for child in (play.core, play.adapter)},
                "seconds": round(play.elapsed, 1),
            }
        )

    def shown(self) -> str:
        figures = self.figures
        calls = sorted(figures["api_calls"].items())
        lines = {
            "pods": "{pods_bound} bound, {evictions} evicted",
            "gangs": "{gangs_whole} of {jobs} whole, {gangs_short} in part; {jobs_done} jobs done, "
            "{jobs_waiting} waiting",
            "sessions": "{sessions}, median {session_median_ms} ms, slowest {session_slowest_ms} ms",
            "API calls": ", ".join(f"{count} {verb}" for verb, count in calls),
            "time": "{seconds} s",
        }
        restarts = [f"{name} {times}" for name, times in figures["restarts"].items() if times]
        if restarts:
            lines["restarts"] = ", ".join(restarts)
        return "\n".join(f"{name:<10}{text.format(**figures)}" for name, text in lines.items())


def _last_json(text: str) -> dict[str, Any] | None:
    """The last object in what the adapter printed; a killed one may have left half a line."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return None

"""The figures at the end of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pumice.cli.demo.run import DemoRun


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of the simulated cluster, and figures of the core's sessions."""

    figures: Mapping[str, Any]

    @staticmethod
    def of(run: DemoRun) -> Summary | None:
        """The summary of a run; None if the cluster left no report."""
        report = run.adapter.last_report()
        if report is None:
            return None
        state = run.state
        names = ("jobs", "jobs_done", "jobs_waiting", "gangs_whole", "gangs_short", "pods_bound")
        return Summary(
            {
                **{name: report[name] for name in names},
                "evictions": report["pods_evicted"],
                "sessions": len(state.session_seconds),
                "session_median_ms": round(state.median_milliseconds(), 2),
                "session_slowest_ms": round(state.slowest_milliseconds(), 2),
                "api_calls": report["calls"],
                "restarts": {process.name: process.restarts for process in (run.core, run.adapter)},
                "seconds": round(run.elapsed, 1),
            }
        )

    def text(self) -> str:
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

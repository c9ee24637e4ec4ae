"""The output of ``pumice recording info``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from pumice.cli.simulation.reports import clock
from pumice.cli.terminal import console
from pumice.recordings.info import RecordingInfo


def info_json(info: RecordingInfo) -> dict[str, Any]:
    found = asdict(info)
    found["path"] = str(info.path)
    for name in ("start", "end"):
        found[f"{name}_time"] = clock(found.pop(f"{name}_ns"))
    return {**found, "seconds": info.seconds}


def print_info(infos: Sequence[RecordingInfo], gaps: Sequence[str]) -> None:
    screen = console()
    for info in infos:
        screen.print(f"[bold]{escape(str(info.path))}[/]")
        for title, text in _lines(info):
            screen.print(f"  {title:<15}{escape(text)}")
        for problem in info.problems:
            screen.print(f"  [red]{'damage':<15}[/]{escape(problem)}")
    for gap in gaps:
        screen.print(f"[red]gap or overlap[/]: {escape(gap)}")


def _lines(info: RecordingInfo) -> list[tuple[str, str]]:
    numbers = ", ".join(f"{first} to {last}" for first, last in info.sessions)
    lines = [
        ("cluster", info.cluster + (" (names are replaced)" if info.redacted else "")),
        ("time", f"{clock(info.start_ns)} to {clock(info.end_ns)}, {info.seconds:.1f} s"),
        ("sessions", f"{info.session_count}" + (f" ({numbers})" if numbers else "")),
        ("decisions", f"{info.binds} binds, {info.evictions} evictions"),
        ("changes", f"{info.changes}, {info.configurations} configurations"),
        ("at the start", ", ".join(f"{count} {kind}" for kind, count in info.objects.items())),
        ("recorded by", f"pumice {info.core_version}, {_cores(info)}"),
        ("file", f"{info.size_bytes} bytes, {'closed' if info.is_closed else 'not closed'}"),
    ]
    if info.faults:
        lines.append(("faults", f"{info.faults} of plugins"))
    if info.plugins:
        named = (f"{name} ({version})" for name, version in info.plugins.items())
        lines.append(("plugins", ", ".join(named)))
    if info.unknown_entries:
        lines.append(("unknown", f"{info.unknown_entries} entries of a newer version of pumice"))
    return [(title, text or "nothing") for title, text in lines]


def _cores(info: RecordingInfo) -> str:
    count = len(set(info.core_ids))
    return "one core" if count == 1 else f"{count} cores one after another"

"""``pumice replay REC --diff``: the differences between recorded and replayed decisions."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from pumice.cli.simulation.reports import clock
from pumice.cli.terminal import console
from pumice.server.local import Comparison, Difference

_MOST_SHOWN = 20


def print_comparison(found: Comparison) -> None:
    screen = console()
    for line in _headlines(found):
        screen.print(escape(line))
    last = 0
    for difference in found.differences[:_MOST_SHOWN]:
        if difference.session != last:
            last = difference.session
            screen.print(f"[bold]session {last}[/]  [dim]{clock(difference.now_ns)}[/]")
        screen.print(f"  {_colourful(difference)}")
    more = found.difference_count - min(len(found.differences), _MOST_SHOWN)
    if more > 0:
        screen.print(f"  … and {more} more; --json shows the first 1000")
    if not found.sessions:
        screen.print("[bold green]identical[/]: no session is in it whole")
    elif found.identical:
        screen.print(f"[bold green]identical[/]: {tally(found)}")
    else:
        sessions = f"{found.differing_sessions} of {found.sessions} sessions differ"
        screen.print(f"[bold red]different[/]: {sessions}, {found.difference_count} differences")


def tally(found: Comparison) -> str:
    seconds = (found.last_ns - found.first_ns) / 1e9
    numbers = ", ".join(f"{first} to {last}" for first, last in found.runs)
    return (
        f"{found.sessions} sessions ({numbers}), {found.decisions} decisions, "
        f"{seconds:.1f} s of the cluster's time"
    )


def _headlines(found: Comparison) -> list[str]:
    lines = [f"note: {warning}" for warning in found.warnings]
    lines += [f"note: a configuration was refused: {text}" for text in found.refused_configurations]
    if found.ending:
        lines.append(f"note: {found.ending}")
    return lines


def _colourful(difference: Difference) -> str:
    subject, old, new = map(escape, (difference.subject, difference.recorded, difference.replayed))
    return f"{subject}: recorded [red]{old}[/]; replayed [green]{new}[/]"


def comparison_json(found: Comparison) -> dict[str, Any]:
    return {
        "identical": found.identical,
        "sessions": found.sessions,
        "first_session": found.first_session,
        "last_session": found.last_session,
        "decisions": found.decisions,
        "differing_sessions": found.differing_sessions,
        "difference_count": found.difference_count,
        "differences": [
            {
                "session": one.session,
                "time": clock(one.now_ns),
                "what": one.what,
                "subject": one.subject,
                "recorded": one.recorded,
                "replayed": one.replayed,
            }
            for one in found.differences
        ],
        "ending": found.ending,
        "warnings": found.warnings,
        "refused_configurations": found.refused_configurations,
    }

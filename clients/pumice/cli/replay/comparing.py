"""``pumice replay REC --diff``: the differences between recorded and replayed decisions."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from pumice.cli.simulation.reports import clock
from pumice.cli.terminal import console
from pumice.server.local import Comparison, Difference

_MOST_SHOWN = 20


def print_comparison(comparison: Comparison) -> None:
    screen = console()
    for line in _headlines(comparison):
        screen.print(escape(line))
    last = 0
    for difference in comparison.differences[:_MOST_SHOWN]:
        if difference.session != last:
            last = difference.session
            screen.print(f"[bold]session {last}[/]  [dim]{clock(difference.now_ns)}[/]")
        screen.print(f"  {_colourful(difference)}")
    more = comparison.difference_count - min(len(comparison.differences), _MOST_SHOWN)
    if more > 0:
        screen.print(f"  … and {more} more; --json shows the first 1000")
    if not comparison.sessions:
        screen.print("nothing to compare: no complete session")
    elif comparison.identical:
        screen.print(f"[bold green]identical[/]: {tally(comparison)}")
    else:
        sessions = f"{comparison.differing_sessions} of {comparison.sessions} sessions differ"
        screen.print(
            f"[bold red]different[/]: {sessions}, {comparison.difference_count} differences"
        )


def tally(comparison: Comparison) -> str:
    seconds = (comparison.last_ns - comparison.first_ns) / 1e9
    numbers = ", ".join(f"{first} to {last}" for first, last in comparison.runs)
    return (
        f"{comparison.sessions} sessions ({numbers}), {comparison.decisions} decisions, "
        f"{seconds:.1f} s of the cluster's time"
    )


def _headlines(comparison: Comparison) -> list[str]:
    lines = [f"note: {warning}" for warning in comparison.warnings]
    lines += [
        f"note: a configuration was refused: {text}" for text in comparison.refused_configurations
    ]
    if comparison.ending:
        lines.append(f"note: {comparison.ending}")
    return lines


def _colourful(difference: Difference) -> str:
    subject, old, new = map(escape, (difference.subject, difference.recorded, difference.replayed))
    return f"{subject}: recorded [red]{old}[/]; replayed [green]{new}[/]"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "identical": comparison.identical,
        "sessions": comparison.sessions,
        "first_session": comparison.first_session,
        "last_session": comparison.last_session,
        "decisions": comparison.decisions,
        "differing_sessions": comparison.differing_sessions,
        "difference_count": comparison.difference_count,
        "differences": [
            {
                "session": one.session,
                "time": clock(one.now_ns),
                "what": one.what,
                "subject": one.subject,
                "recorded": one.recorded,
                "replayed": one.replayed,
            }
            for one in comparison.differences
        ],
        "ending": comparison.ending,
        "warnings": comparison.warnings,
        "refused_configurations": comparison.refused_configurations,
    }

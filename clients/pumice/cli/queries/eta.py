"""``pumice eta``: the estimated start of a waiting job or pod."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
from rich.markup import escape

from pumice.cli.errors import FAILED
from pumice.cli.queries.explain import NAME, with_other_kind
from pumice.cli.queries.options import core, core_options, output_options, print_value
from pumice.cli.queries.pauses import pause_markup
from pumice.cli.queries.suggestions import job_names, suggest
from pumice.cli.terminal import console
from pumice.client import StartEstimate, StartOutcome
from pumice.client.reasons import why

_HOUR_SECONDS = 3600
MAX_HOURS = 7 * 24
hours_option = click.option(
    "--hours",
    type=click.FloatRange(0, MAX_HOURS, min_open=True),
    default=24.0,
    show_default=True,
    help="Horizon of the estimate.",
)


@click.command("eta")
@click.argument("name", metavar="NAMESPACE/NAME", type=NAME, shell_complete=suggest(job_names))
@click.option("--pod", "is_pod", is_flag=True, help="Estimate for a pod instead of a job.")
@hours_option
@core_options
@output_options
def eta_command(name: str, is_pod: bool, hours: float, output: str, **connection: Any) -> int:
    """Estimates when a job starts: a PodGroup, or the PodGroup of a Volcano Job.

    The core simulates the future of a copy of the cluster with short, likely and long run times of
    the pods. The exit code is 1 if no start is expected.
    """
    with core(**connection) as client:
        other = lambda name: client.estimate_start(name, pod=not is_pod)  # noqa: E731
        with with_other_kind(other, "job" if is_pod else "pod", name, "eta"):
            horizon = hours * _HOUR_SECONDS
            estimate = client.estimate_start(name, pod=is_pod, horizon_seconds=horizon)
    if output == "table":
        for line in estimate_lines(estimate, datetime.now(UTC)):
            console().print(line, soft_wrap=True)
    else:
        print_value(estimate.to_dict(), output)
    expected = (StartOutcome.STARTED, StartOutcome.EXPECTED)
    return 0 if estimate.outcome in expected else FAILED


def estimate_lines(estimate: StartEstimate, now: datetime) -> Iterator[str]:
    """An estimate as lines in rich's markup."""
    yield f"[bold]{escape(estimate.sentence)}[/]"
    if estimate.pause is not None:
        yield pause_markup(estimate.pause)
    for word, time in (
        ("earliest", estimate.earliest_time),
        ("expected", estimate.expected_time),
        ("latest", estimate.latest_time),
    ):
        if estimate.outcome is not StartOutcome.STARTED:
            yield f"{word}  {_shown(time, now)}"
    if estimate.reasons:
        yield f"then waits: {escape(why(estimate.reasons))}"
    for problem in estimate.basis.problems:
        yield f"[yellow]no run time: {escape(problem)}[/]"
    for fault in estimate.faults:
        yield f"[red]fault[/] {escape(fault)}"


def _shown(time: datetime | None, now: datetime) -> str:
    if time is None:
        return "-"
    local = time.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%c}"
